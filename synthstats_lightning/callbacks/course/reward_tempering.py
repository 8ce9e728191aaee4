"""What the objective sees of scores at present: tempered as programs allow, and counted from a level."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from lightning.pytorch import Trainer

from synthstats_lightning.callbacks.course.run_health import RunHealth, TaskHealth, task_health
from synthstats_lightning.callbacks.course.share_done import share_done
from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.learning.log_z_updates import follow_importance
from synthstats_lightning.learning.tempering import (
    Temperature,
    Weighed,
    WeighedProgram,
    offset_of,
    warmed,
)
from synthstats_lightning.metrics import LogZEstimate, truncated_log_z
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.replay import ReplayBuffer, Trajectory
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size
from synthstats_lightning.scoring.reward import PARTS, Reward
from synthstats_lightning.scoring.schedule import RewardSchedule
from synthstats_lightning.scoring.tempered import LOOKING, TemperedReward, tempered
from synthstats_lightning.tasks import Task

RECENT = 512
"""Recent programs of each task and process that estimates are made from."""


class RewardTempering:
    """The present reward of each task of a run, and log Z beside it.

    After each sampling round the recent programs of all processes say, by importance weights with the
    probabilities that they were drawn with, how far the score may count, where floor and failures count from,
    and what log Z is. Objectives on policy have no target to come to: their rewards stay as they are.

    Args:
        reward: At its end.
        schedule: On the way there.

    Attributes:
        temperatures: How far each task's score counts, and from where.
        estimates: Of each task, the last estimate of its log Z at the present reward; `None` before any.
        gaps: Of each task, learned log Z minus its estimate, in nats, before the one follows the other.
        health: What the run warns of.
    """

    def __init__(self, reward: Reward, schedule: RewardSchedule) -> None:
        self.reward = reward
        self.schedule = schedule
        self.temperatures: list[Temperature] = []
        self.estimates: list[LogZEstimate | None] = []
        self.gaps: list[float | None] = []
        self.health = RunHealth()
        self._tasks: list[str] = []
        self._recent: list[deque[WeighedProgram]] = []
        self._step = 0
        self._scheduled: Reward | None = None
        self._active = True
        self._ended = False

    def start(self, tasks: Sequence[Task], module: GFlowNetModule, resumed: bool) -> None:
        """Before training: every task at the reward's end, unless a checkpoint says otherwise.

        Args:
            tasks: The run's tasks.
            module: Whose log Z follows the estimates.
            resumed: Whether the run goes on from a checkpoint.
        """
        num_tasks = len(tasks)
        self._tasks = [task.name for task in tasks]
        self._active = not module.objective.on_policy
        self._ended, self._scheduled = False, None
        if not (resumed and self.temperatures):
            self._step = 0
            self.temperatures = [Temperature(self.reward.beta)] * num_tasks
            self._recent = [deque(maxlen=RECENT) for _ in range(num_tasks)]
        self.estimates, self.gaps = [None] * num_tasks, [None] * num_tasks
        module.estimated_elsewhere = self._active and module.estimates_first_log_z
        module.asks_first = self.on_the_way

    def end(self) -> None:
        """After training: what is reported is of the final reward."""
        self._ended = True

    def unfinished(self, task_index: int) -> str:
        """Why what is learned of a task is not of the final reward; empty if it is, or was as training ended.

        Args:
            task_index: Position of the task.
        """
        if not self.temperatures:
            return ""
        beta = self._running(task_index).beta
        if math.isclose(beta, self.reward.beta, rel_tol=1e-6):
            return ""
        return (
            f"training ended while the score counted by {beta:.2g} of {self.reward.beta:.3g} (`beta`), and it"
            " is of that target"
        )

    @property
    def on_the_way(self) -> bool:
        """Whether any task's score counts less than at the end, or how far it may is not known yet."""
        if self._ended or not self._active:
            return False
        unknown = self._adapts and any(item.first == 0 for item in self.temperatures)
        return unknown or any(self._running(task).ahead > 0 for task in range(len(self.temperatures)))

    def plain(self, task_index: int) -> Reward:
        """The reward of a task at its present temperature, above the baseline program.

        Args:
            task_index: Position of the task.
        """
        return self.reward if self._ended or not self.temperatures else self._running(task_index)

    def _running(self, task_index: int) -> TemperedReward:
        """The reward of a task at the temperature that training has come to."""
        reward = self.schedule.at(self.reward, self._step)
        beta = self.temperatures[task_index].beta if self._adapts else reward.beta
        return tempered(reward, beta, 0.0, self.reward.beta if self._active else beta)

    def present(self, task_index: int) -> Reward:
        """What the objective sees of a task at present.

        Args:
            task_index: Position of the task.
        """
        plain = self.plain(task_index)
        level = self.temperatures[task_index].level if self.temperatures and self._active else 0.0
        return tempered(plain, plain.beta, level, self.reward.beta if self._active else None)

    @property
    def _adapts(self) -> bool:
        return self._active and self.schedule.adapts

    def blend(
        self,
        parts: Float[np.ndarray, "programs parts"],
        reference: Float[np.ndarray, " programs"],
        task_index: Int[np.ndarray, " programs"],
    ) -> Float[np.ndarray, " programs"]:
        """Log rewards of programs of several tasks, as the objective sees them at present.

        Args:
            parts: Untempered, see `Reward.parts`.
            reference: Log-probabilities under the reference policy, in nats.
            task_index: Task of each program.
        """
        values = np.empty(len(parts))
        for task in np.unique(task_index).tolist():
            rows = task_index == task
            values[rows] = self.present(task).blend(parts[rows], reference[rows])
        return values

    def observe(self, program: PendingProgram, trajectory: Trajectory, buffer: ReplayBuffer) -> None:
        """Takes in a scored program of the policy.

        Args:
            program: Which knows how probable it was to be drawn.
            trajectory: Which knows the parts of its log reward.
            buffer: Which knows among how many texts that is shared.
        """
        texts = buffer.log_num_texts(program.task_index, trajectory.canonical)
        numbers = program.reference_log_prob, program.log_prob, program.proposal_log_prob, texts
        if self._recent and all(map(math.isfinite, numbers)):
            self._recent[program.task_index].append(WeighedProgram(trajectory.parts, *numbers))

    def follow_schedule(self, step: int, buffer: ReplayBuffer) -> None:
        """Rewards anew what is stored, where a given schedule has moved.

        Args:
            step: The training step.
            buffer: Where programs are stored.
        """
        self._step, before = step, self._scheduled
        self._scheduled = self.schedule.at(self.reward, step)
        if self._scheduled != before:
            buffer.update_rewards(self.blend)

    def update(self, trainer: Trainer, module: GFlowNetModule, buffer: ReplayBuffer) -> None:
        """Moves rewards and log Z to what the recent programs of all ranks say, and warns of what is wrong.

        Every rank must call it.

        Args:
            trainer: Which knows how far the run has come.
            module: Whose log Z follows.
            buffer: Whose programs are rewarded anew.
        """
        self._step = trainer.global_step
        recent = self._gathered()
        before = list(self.temperatures)
        self._compare(module, recent)
        if self._active:
            self._move(trainer, module, buffer, recent)
        self.health.observe_round(trainer, self._tasks, self._health(recent, before))

    def _move(
        self, trainer: Trainer, module: GFlowNetModule, buffer: ReplayBuffer, recent: Sequence[Weighed]
    ) -> None:
        before = self.temperatures
        progress = max(gather_objects(share_done(trainer))) / self.schedule.adapted_by
        share = self.schedule.effective_share if self.schedule.adapts else 0.0
        rewards = self.schedule.at(self.reward, self._step)
        self.temperatures = [
            warmed(then, programs, rewards, share, progress, self.reward.beta)
            for then, programs in zip(before, recent, strict=True)
        ]
        if self.temperatures != before:
            buffer.update_rewards(self.blend)
            offsets = [offset_of(module.objective, item.level) for item in self.temperatures]
            module.log_z.offset.copy_(torch.tensor(offsets))
        moved = [one.beta != then.beta for one, then in zip(self.temperatures, before, strict=True)]
        self._follow(module, recent, moved)
        module.asks_first = self.on_the_way

    def metrics(self) -> dict[str, float]:
        """The present temperatures and estimates, for the log.

        Returns:
            `reward/beta/TASK`, `reward/level/TASK` (nats) and, where a program has a score,
            `estimate/log_z/TASK` (nats), `estimate/log_z_gap/TASK` (nats; learned log Z minus it) and
            `estimate/effective_sample_size/TASK` (of recent programs); `reward/prior_weight` where a schedule
            changes it.
        """
        values: dict[str, float] = {}
        for index, name in enumerate(self._tasks):
            estimate, gap = self.estimates[index], self.gaps[index]
            values[f"reward/beta/{name}"] = self.plain(index).beta
            values[f"reward/level/{name}"] = self.temperatures[index].level
            if estimate is not None and gap is not None:
                values[f"estimate/log_z/{name}"] = estimate.value
                values[f"estimate/log_z_gap/{name}"] = gap
                values[f"estimate/effective_sample_size/{name}"] = estimate.effective_sample_size
        if self.schedule.prior_weight is not None:
            values["reward/prior_weight"] = self.plain(0).prior_weight
        return values

    def _health(self, recent: Sequence[Weighed], before: Sequence[Temperature]) -> list[TaskHealth]:
        health = []
        for task, programs in enumerate(recent):
            estimate, gap = self._estimate(task, programs), self.gaps[task]
            moved = self.temperatures[task] != before[task]
            # residuals are the policy's, whatever programs were drawn with
            ratio = programs.log_weight(self.present(task), floored=True) - programs.policy_log_weight
            health.append(task_health(programs, ratio, estimate, gap, moved))
        return health

    def _compare(self, module: GFlowNetModule, recent: Sequence[Weighed]) -> None:
        """What is learned against an estimate of the same target, before one moves or follows the other."""
        learned = module.log_z.per_task().tolist()
        for task, programs in enumerate(recent):
            estimate = self._estimate(task, programs)
            self.gaps[task] = None if estimate is None else learned[task] - estimate.value

    def _estimate(self, task: int, programs: Weighed) -> LogZEstimate | None:
        return truncated_log_z(programs.log_weight(self.plain(task))) if programs.scored.any() else None

    def _follow(self, module: GFlowNetModule, recent: Sequence[Weighed], anew: Sequence[bool]) -> None:
        self.estimates = [self._estimate(task, programs) for task, programs in enumerate(recent)]
        # a reference that moves is not the one that programs are stored with
        if module.estimates_first_log_z and module.reference.adapter is None:
            follow_importance(module.log_z, self.estimates, anew)

    def _gathered(self) -> list[Weighed]:
        ranks = gather_objects([list(queue) for queue in self._recent])
        return [Weighed([item for rank in ranks for item in rank[task]]) for task in range(len(self._recent))]

    def state(self) -> dict[str, Any]:
        """Temperatures and recent programs in primitive types."""
        return {
            "temperatures": [tuple(item) for item in self.temperatures],
            "recent": [[(list(item[0]), *item[1:]) for item in queue] for queue in self._recent],
            "step": self._step,
            "health": self.health.state(),
        }

    def restore(self, ranks: Sequence[dict[str, Any]]) -> None:
        """Takes up what `state` of every rank returned; with other ranks than before, in equal shares.

        Args:
            ranks: What `state` returned on every rank that saved.
        """
        rank, size = rank_and_size()
        self.temperatures = [Temperature(*item) for item in ranks[0]["temperatures"]]
        self._step = ranks[0]["step"]
        self.health.restore(ranks[0]["health"])
        own = [item["recent"] for item in ranks[rank::size]]
        self._recent = [deque(maxlen=RECENT) for _ in self.temperatures]
        for rows in own:
            for queue, items in zip(self._recent, rows, strict=True):
                queue.extend(WeighedProgram(self._complete(parts), *numbers) for parts, *numbers in items)

    def _complete(self, parts: Sequence[float]) -> tuple[float, ...]:
        """Parts as they are now, of those that a checkpoint holds; older ones had none of looking."""
        if len(parts) == len(PARTS) + len(self.reward.judged):
            return tuple(parts)
        return (*parts[:LOOKING], 0.0, *parts[LOOKING:])
