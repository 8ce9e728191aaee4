"""The callback that lets the policy experiment, scores what it submits and feeds the replay buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from lightning.pytorch import LightningModule, Trainer

from synthstats_lightning.callbacks.episodes.episode_scorer import EpisodeScorer
from synthstats_lightning.callbacks.episodes.transcript import TranscriptFiles, transcript
from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.run_parts import gflownet_module, run_folder, run_tasks
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.evaluation.episode_information import EpisodeInformation
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.distributed import added_up, gather_objects
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.tasks.experiments.episode import ExperimentEpisode
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask

NOT_OF_EPISODES = frozenset(
    {"stop_log_probs", "reference_stop_log_probs", "forced_stop", "prefix_log_reward", "prefix_known"}
)
"""What objectives ask for that take every prefix for a finished program."""


class EpisodeScoring(ProgramScoring):
    """Has the policy experiment and submit programs, scores them and adds the episodes to the replay buffer.

    It is to `ExperimentTask`s what `ProgramScoring` is to other tasks, and works as that does. Trajectories
    hold the whole conversation; only the policy's own tokens have a log-probability. Log rewards are those
    of `reward` with the held-out log predictive density above that of the intercept-only program which has
    observed nothing, in nats summed over the evaluation points.

    Besides the metrics of `ProgramScoring`, each log has `episode/submitted` (share of episodes with a
    program), `episode/experiments`, `episode/turns` and `episode/refused` (actions that could not be done,
    or were beyond the budget), means per episode; with an objective that asks for it, also
    `episode/information` (what experiments were expected to tell, in nats). Failures are counted by category
    as ever: `truncated`, `turns` and `experiments` are those of episodes, the others those of the submitted
    programs.

    Every scored training episode is appended to `transcripts.jsonl` and, to be read, `transcripts.txt` in the
    run's folder.

    Args:
        reward: From a score to what the objective sees; its `score` must be `"heldout_lpd"`, which it is by
            default.
        transcripts: Whether episodes are written to files.
        **settings: The other arguments of `ProgramScoring`; `sampling.max_new_tokens` limits a turn, numbers
            of programs are numbers of episodes, and `prefix_resampling_fraction` and `warmup_candidates`
            must be 0.

    Raises:
        ValueError: If the reward is of another score, programs are to be rewritten, or a number is out of
            range.
    """

    scorer_type: type[SampleScorer] = EpisodeScorer

    def __init__(self, reward: Reward | None = None, transcripts: bool = True, **settings: Any) -> None:
        reward = reward or Reward(score="heldout_lpd")
        if reward.score != "heldout_lpd":
            raise ValueError(
                f"reward.score must be 'heldout_lpd' for episodes, got {reward.score!r}: observed rows only"
                " condition"
            )
        super().__init__(reward=reward, **settings)
        if self.prefix_resampling_fraction:
            raise ValueError(
                f"prefix_resampling_fraction must be 0 for episodes, got {self.prefix_resampling_fraction}"
            )
        if self.warmup_candidates:
            raise ValueError(f"warmup_candidates must be 0 for episodes, got {self.warmup_candidates}")
        self.transcripts = transcripts
        self._files: TranscriptFiles | None = None
        self._documents: list[dict[str, Any]] = []
        self._episodes: list[EpisodeSums] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Starts the workers and scores each task's baseline program.

        Raises:
            TypeError: If a task is no `ExperimentTask`, or see `ProgramScoring.setup`.
            ValueError: If the module's objective or sampling does not go with episodes.
            RuntimeError: If a baseline program has no score.
        """
        _check(gflownet_module(pl_module), run_tasks(trainer, self.given_tasks))
        super().setup(trainer, pl_module, stage)
        if "information" in gflownet_module(pl_module).objective.needs:
            cast("EpisodeScorer", self.scorer).information = EpisodeInformation()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """As `ProgramScoring`; opens the transcripts.

        Raises:
            ValueError: If the data module has demonstrations, which are programs and no episodes.
        """
        if getattr(getattr(trainer, "datamodule", None), "demonstrations", None):
            raise ValueError("demonstrations must be left out for episodes: they are programs")
        folder = run_folder(trainer)  # asked for by every rank at once
        if self.transcripts and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            self._files = TranscriptFiles(folder, trainer.global_rank)
        super().on_train_start(trainer, pl_module)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends the workers."""
        if self._files is not None:
            self._files.close()
            self._files = None
        super().teardown(trainer, pl_module, stage)

    def keep(self, program: PendingProgram, record: ProgramRecord) -> None:
        """Takes a scored episode into transcripts and metrics; `records` is of programs, and stays empty."""
        self._documents.append(transcript(program, record))
        self._episodes.append(EpisodeSums.of(program.episode, self.information))

    @property
    def information(self) -> EpisodeInformation | None:
        """What experiments were expected to tell; `None` where the objective does not ask for it."""
        return cast("EpisodeScorer", self.scorer).information

    def _harvest(self, trainer: Trainer, seconds: float | None = 0.0) -> None:
        super()._harvest(trainer, seconds)
        documents, self._documents = self._documents, []
        if self._files is not None:
            self._files.write(documents)

    def keep_unfinished(self) -> None:
        """When the run ends before its time: writes the episodes in the queue that have a score by then."""
        scored = [transcript(program, self.scorer.record(program)) for program in self.queue.scored()]
        documents, self._documents = self._documents, []
        if self._files is not None:
            self._files.write(documents + scored)
            self._files.close()
        self.journal.close()

    def sync(self) -> None:
        """Waits until every episode that has left the queue is on the disk."""
        if self._files is not None:
            self._files.sync()

    def _log_window(self, module: GFlowNetModule) -> None:
        super()._log_window(module)
        own, self._episodes = added_up([EpisodeSums(), *self._episodes]), []
        for name, value in episode_metrics(gather_objects(own)).items():
            if name != "episode/information" or self.information is not None:
                module.log(name, value)


class EpisodeSums(NamedTuple):
    """What episodes add up to.

    Attributes:
        episodes: Number of episodes that ended.
        submitted: Of them, those that ended with a program.
        experiments: Number of experiments that they performed.
        turns: Number of turns that the policy took.
        refused: Actions that could not be done, or were beyond the budget.
        information: What experiments were expected to tell, in nats; 0 where that is not known.
    """

    episodes: int = 0
    submitted: int = 0
    experiments: int = 0
    turns: int = 0
    refused: int = 0
    information: float = 0.0

    @classmethod
    def of(cls, episode: ExperimentEpisode, information: EpisodeInformation | None = None) -> EpisodeSums:
        """Of one episode."""
        kinds = Counter(turn.kind for turn in episode.turns)
        refused = kinds["invalid"] + kinds["over_budget"]
        told = 0.0 if information is None else sum(information.gains(episode))
        return cls(1, bool(episode.program), len(episode.observed), len(episode.turns), refused, told)


def episode_metrics(ranks: Sequence[EpisodeSums]) -> dict[str, float]:
    """Means per episode over all ranks; nothing without episodes.

    Args:
        ranks: The sums of every rank.
    """
    total = added_up(ranks)
    if not total.episodes:
        return {}
    return {
        f"episode/{name}": value / total.episodes
        for name, value in total._asdict().items()
        if name != "episodes"
    }


def _check(module: GFlowNetModule, tasks: Sequence[Any]) -> None:
    for task in tasks:
        if not isinstance(task, ExperimentTask):
            raise TypeError(f"EpisodeScoring needs tasks that are ExperimentTasks, got {type(task).__name__}")
    objective = type(module.objective).__name__
    if missing := sorted(module.objective.needs & NOT_OF_EPISODES):
        raise ValueError(
            f"objective {objective} needs {', '.join(missing)}, which episodes do not have: they end with a"
            " submission and not at any token"
        )
    if module.sampling.min_new_tokens:
        raise ValueError(f"min_new_tokens must be 0 for episodes, got {module.sampling.min_new_tokens}")
