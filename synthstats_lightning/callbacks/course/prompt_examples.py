"""The best programs of a run so far, as its proposals' prompts show them.

Only the proposal is shown them: the prior, the reward and so the target are those of a run without. What is
replayed is scored under the prompt of the moment, whichever it was sampled with, as balance objectives allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.replay import ReplayBuffer
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Prompt, Task
from synthstats_lightning.tasks.proposal import Example


@runtime_checkable
class Told(Protocol):
    """What is known of a run's tasks; `SampleScorer` is one."""

    tasks: list[Task]

    @property
    def prompts(self) -> Sequence[Prompt]:
        """What the policy is told of each task at present."""
        ...

    def gain(self, score: Score, task_index: int) -> float:
        """What a score is above that of the task's baseline, in nats."""
        ...


def show_examples(
    scorer: Told, records: Iterable[ProgramRecord], buffer: ReplayBuffer, module: GFlowNetModule
) -> None:
    """Shows every task's proposal the best programs so far, where it is to be shown any.

    A prompt changes only here, before a sampling round, together with what the buffer knows of it.

    Args:
        scorer: It knows tasks, baselines and prompts.
        records: Programs of the run.
        buffer: The replay buffer, whose batches begin with the prompts.
        module: Whose policy reads them; as many examples are shown as leave room for a program.
    """
    if not any(task.most_examples for task in scorer.tasks):
        return
    found, policy = best_examples(scorer, records), module.loaded_policy
    room = getattr(policy.text_config, "max_position_embeddings", None)
    for index, task in enumerate(scorer.tasks):
        before = task.examples
        task.examples = found[index]
        while task.examples != before:
            prompt = scorer.prompts[index]
            ids = policy.encode_prompt(*prompt)
            if room is None or not task.examples or len(ids) + module.sampling.max_new_tokens <= room:
                buffer.register_prompt(index, ids, policy.encode_prompt(*prompt.prior))
                break
            task.examples = task.examples[:-1]


def best_examples(scorer: Told, records: Iterable[ProgramRecord]) -> list[tuple[Example, ...]]:
    """Each task's programs of the best scores, one of each structure, the best first.

    Args:
        scorer: It knows the tasks and their baselines.
        records: Programs of any task.
    """
    places = {task.name: index for index, task in enumerate(scorer.tasks)}
    scored: list[list[tuple[float, str, str]]] = [[] for _ in scorer.tasks]
    for record in records:
        if record.score.scored and (index := places.get(record.task)) is not None:
            gain = scorer.gain(record.score, index)
            if math.isfinite(gain):
                scored[index].append((-gain, record.source, record.score.structure or record.source))
    return [
        _first_of_each(programs, task.most_examples)
        for programs, task in zip(scored, scorer.tasks, strict=True)
    ]


def _first_of_each(programs: list[tuple[float, str, str]], number: int) -> tuple[Example, ...]:
    found: dict[str, Example] = {}
    for loss, source, structure in sorted(programs) if number else ():
        found.setdefault(structure, Example(source, -loss))
        if len(found) == number:
            break
    return tuple(found.values())
