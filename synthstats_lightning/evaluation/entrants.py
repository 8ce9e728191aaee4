"""Who takes part in an evaluation: the programs of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.rollouts.chat_writer import UNANSWERED, ChatWriter
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.scoring.terms.chat_endpoint import ChatError
from synthstats_lightning.tasks import Task, task_prompt
from synthstats_lightning.tasks.proposal import looking


class WrittenProgram(NamedTuple):
    """A program that a policy wrote.

    Attributes:
        source: Source text of the program.
        log_prob: Its log-probability under the policy, in nats; `None` where the policy does not say.
        complete: Whether it ends in a stop token; one that does not has failed.
        failure: Why it is not complete, if it is known.
        log_prior_ratio: The log of its probability under the prior over that under the policy, in nats, where
            the policy looks at the data and the prior does not; 0 where the policy itself is the prior.
    """

    source: str
    log_prob: float | None
    complete: bool = True
    failure: str = ""
    log_prior_ratio: float = 0.0


Writer = Callable[[Task, int], Sequence[WrittenProgram]]
"""From a task and the seed of its instance to programs, drawn independently from a policy."""


def looks_at_data(writer: Writer) -> bool:
    """Whether what a policy writes depends on the experiments, so that each budget has programs of its own.

    Args:
        writer: What writes programs, whatever it is.
    """
    return getattr(writer, "words", ("nothing",))[0] != "nothing"


@dataclass
class Usage:
    """What writing programs has cost so far.

    Attributes:
        read: Tokens of prompts, each counted once for all programs that answer it; of a chat model once a
            request, as its endpoint counts them.
        written: Tokens of programs, stop tokens included; of a chat model those of its whole answers.
    """

    read: int = 0
    written: int = 0


class PolicyWriter:
    """Programs from a module's policy, given the prompt of the task.

    Equal seeds give equal programs, whichever process of a run asks.

    Args:
        module: A module whose policy is loaded.
        num_programs: Programs for each instance.
        sampling: Temperature and length; the module's own by default.
        proposal: What the proposal's prompt shows of a task's data, as where the policy was trained.
        instructions: What both prompts say of programs, as there.

    Attributes:
        usage: Tokens that were read and written so far.

    Raises:
        ValueError: If `num_programs` is below 1.
    """

    def __init__(
        self,
        module: GFlowNetModule,
        num_programs: int = 16,
        sampling: SamplingSettings | None = None,
        proposal: str = "nothing",
        instructions: str = "short",
    ) -> None:
        if num_programs < 1:
            raise ValueError(f"num_programs must be at least 1, got {num_programs}")
        self.module = module
        self.num_programs = num_programs
        self.sampling = sampling
        self.words = proposal, instructions
        self.usage = Usage()

    @property
    def most_tokens(self) -> int:
        """Most tokens that are written for one instance."""
        return self.num_programs * (self.sampling or self.module.sampling).max_new_tokens

    def __call__(self, task: Task, seed: int) -> list[WrittenProgram]:
        """Fresh programs for a task.

        Args:
            task: Whose prompt the policy reads.
            seed: Seed of the instance; equal seeds give equal programs.
        """
        settings = self.sampling or self.module.sampling
        stream = Stream.ENTRANTS.at(seed)
        prompt = task_prompt(looking(task, *self.words))
        samples = self.module.sample([prompt], self.num_programs, settings, stream, rank=0)
        self.usage.read += len(self.module.loaded_policy.encode_prompt(*prompt))
        self.usage.written += int(samples.program_mask.sum())
        log_prob = samples.log_prob.double().cpu().numpy()
        ratio = np.zeros_like(log_prob)
        if looks_at_data(self):
            ratio = samples.reference_log_prob.double().cpu().numpy() - log_prob
        return [
            WrittenProgram(source, float(log_prob[row]), bool(samples.stopped[row]), "", float(ratio[row]))
            for row, source in enumerate(samples.sources)
        ]


class ChatEntrant:
    """Programs from a chat model, given the prompt of the task; nobody knows how probable they are.

    Args:
        writer: Asks the model.
        num_programs: Programs for each instance.
        proposal: What the prompt shows of a task's data.
        instructions: What it says of programs.
        must_answer: Whether an instance of which the endpoint answers no request is an error, and not one of
            which every program has failed.

    Attributes:
        usage: Tokens that were read and written so far, where the endpoint counts them.

    Raises:
        ValueError: If `num_programs` is below 1.
    """

    def __init__(
        self,
        writer: ChatWriter,
        num_programs: int = 16,
        proposal: str = "nothing",
        instructions: str = "short",
        must_answer: bool = False,
    ) -> None:
        if num_programs < 1:
            raise ValueError(f"num_programs must be at least 1, got {num_programs}")
        self.writer = writer
        self.num_programs = num_programs
        self.words = proposal, instructions
        self.must_answer = must_answer
        self.usage = Usage()

    @property
    def most_tokens(self) -> int | None:
        """Most tokens that are written for one instance; `None` where the endpoint has no limit."""
        limit = self.writer.settings.max_tokens
        return None if limit is None else self.num_programs * limit

    def __call__(self, task: Task, seed: int) -> list[WrittenProgram]:
        """Fresh programs for a task.

        Args:
            task: Whose prompt the model reads.
            seed: Seed of the instance; the model's answers do not go by it.

        Raises:
            ChatError: If `must_answer` and there is no answer to any request.
        """
        (asked,) = self.writer.begin([task_prompt(looking(task, *self.words))], self.num_programs)
        found = [future.result() for future in asked]
        self.usage.read += sum(program.read for program in found)
        self.usage.written += sum(program.written for program in found)
        if self.must_answer and all(program.failure in UNANSWERED for program in found):
            raise ChatError(found[0].message, found[0].failure)
        return [
            WrittenProgram(program.source, None, not program.failure, f"{program.failure}: {program.message}")
            for program in found
        ]
