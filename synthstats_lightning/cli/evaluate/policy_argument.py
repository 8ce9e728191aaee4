"""A policy as a command line names it: a checkpoint, a bundled model, a run's programs, or a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable
from zipfile import is_zipfile

from synthstats_lightning.evaluation.entrants import Usage, WrittenProgram
from synthstats_lightning.rollouts.chat_writer import PREFIX, ChatSettings, ChatWriter, parsed_name
from synthstats_lightning.tasks import Task

POLICY_HELP = (
    "what is evaluated: a checkpoint (or a folder with some, of which the newest counts), a run's"
    " programs.jsonl,"
    " the name of a bundled language model as it is before training, or a chat model: openai:MODEL@URL"
)

CHAT_INSTRUCTIONS = "full"
"""What a chat model's prompt says of programs: it has seen none of this package's."""


@runtime_checkable
class Entrant(Protocol):
    """What writes programs, and counts the tokens of it.

    Attributes:
        usage: Tokens that were read and written so far.
        most_tokens: Most tokens that are written for one instance, or for one at one budget where it looks at
            the data; `None` where nothing limits them.
    """

    usage: Usage

    @property
    def most_tokens(self) -> int | None:
        """Most tokens that are written for one instance; `None` where nothing limits them."""
        ...

    def __call__(self, task: Task, seed: int) -> Sequence[WrittenProgram]:
        """Programs for an instance."""
        ...


class NamedPolicy(NamedTuple):
    """A policy that was found.

    Attributes:
        entrant: It writes the programs.
        of: What decides which programs it writes; an evaluation that is resumed must find the same.
    """

    entrant: Entrant
    of: dict[str, Any]


def named_policy(value: str, num_programs: int, chat: ChatSettings | None = None) -> NamedPolicy:
    """The policy that an argument names.

    Args:
        value: What the user gave.
        num_programs: Programs for each instance.
        chat: How a chat model is asked; for one only.

    Raises:
        ValueError: If it names none, what it names is no policy, or `chat` is given for another one.
        FileNotFoundError: If there is no such file.
    """
    if value.startswith(PREFIX):
        return _of_chat_model(value, num_programs, chat or ChatSettings())
    if chat not in (None, ChatSettings()):
        raise ValueError(f"chat is for policy openai:MODEL@URL, got policy {value!r}")
    if value.endswith(".jsonl"):
        return _of_programs(value, num_programs)
    return _of_model(value, num_programs)


def _of_chat_model(value: str, num_programs: int, chat: ChatSettings) -> NamedPolicy:
    from synthstats_lightning.evaluation.entrants import ChatEntrant

    writer = ChatWriter(*parsed_name(value), chat)
    entrant = ChatEntrant(writer, num_programs, "nothing", CHAT_INSTRUCTIONS, must_answer=True)
    asked = {name: asdict(chat)[name] for name in ("temperature", "max_tokens")}
    return NamedPolicy(entrant, {"chat": writer.name, "instructions": CHAT_INSTRUCTIONS, **asked})


def _of_programs(value: str, num_programs: int) -> NamedPolicy:
    from synthstats_lightning.evaluation.recorded import RecordedWriter

    path = Path(value)
    writer = RecordedWriter(path, num_programs)
    return NamedPolicy(writer, {"programs": str(path.resolve()), "bytes": path.stat().st_size})


def _of_model(value: str, num_programs: int) -> NamedPolicy:
    from synthstats_lightning.evaluation.entrants import PolicyWriter
    from synthstats_lightning.evaluation.loaded_module import load_module
    from synthstats_lightning.module import GFlowNetModule
    from synthstats_lightning.policy.loading import BUNDLED, WRITER
    from synthstats_lightning.runtime.checkpoints import SUFFIX, newest_checkpoint, usable_checkpoint

    path = Path(value)
    if value in BUNDLED and not path.exists():
        module = GFlowNetModule(policy=value, tasks=["evaluated"])
        module.configure_model()
        proposal = "digest" if value == WRITER else "nothing"
        looks = {} if proposal == "nothing" else {"proposal": proposal}
        return NamedPolicy(PolicyWriter(module, num_programs, None, proposal), {"model": value, **looks})
    if not path.exists():
        raise FileNotFoundError(
            f"policy must be a checkpoint, a .jsonl file of programs or one of {', '.join(BUNDLED)},"
            f" or openai:MODEL@URL, got {value!r}, which is no file"
        )
    if path.is_file() and path.suffix != SUFFIX and not is_zipfile(path):
        raise ValueError(
            f"policy must be a checkpoint, a .jsonl file of programs, one of {', '.join(BUNDLED)} or"
            f" openai:MODEL@URL, got the file {value}, which is no checkpoint"
        )
    found = newest_checkpoint([path]) if path.is_dir() else usable_checkpoint(path)
    if found is None:
        raise FileNotFoundError(
            f"policy must hold a whole checkpoint, got the folder {value}, which holds none"
        )
    module, saved = load_module(found)
    data = saved.get("ReplayDataModule") or {}
    words = data.get("proposal", "nothing"), data.get("instructions", "short")
    module.eval()
    writer = PolicyWriter(module, num_programs, None, *words)
    looks = {} if words[0] == "nothing" else {"proposal": words[0]}
    of = {"checkpoint": str(found.resolve()), "step": saved.get("global_step"), **looks}
    return NamedPolicy(writer, of)
