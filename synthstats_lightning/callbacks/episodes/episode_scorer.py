"""Episodes from a policy, and the scores of the programs that they end with."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import cast

import torch
from lightning.pytorch import Trainer

from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.callbacks.sample_scorer import proposal_log_prob as drawn_with
from synthstats_lightning.evaluation.episode_information import EpisodeInformation
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SampledPrograms, SamplingSettings
from synthstats_lightning.policy.multi_turn import runs_of
from synthstats_lightning.replay import Trajectory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks.experiments.episode import EpisodeState, ExperimentEpisode
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask


class EpisodeScorer(SampleScorer):
    """Workers for a run's `ExperimentTask`s, with each one's baseline scored before any experiment.

    See `SampleScorer` for the arguments.

    Attributes:
        information: What experiments were expected to tell; `None` where nothing asks for it.
    """

    of_episodes = True
    information: EpisodeInformation | None = None

    def sample(
        self,
        trainer: Trainer,
        module: GFlowNetModule,
        num_samples: int | Sequence[int],
        settings: SamplingSettings,
        stream: int,
    ) -> list[PendingProgram]:
        """Samples episodes of every task and hands the submitted programs to the workers.

        Args:
            trainer: The run's trainer, in whose precision the policy writes.
            module: Whose policy acts.
            num_samples: Episodes a task, one number or one for each.
            settings: Temperature, exploration and length of a turn.
            stream: Number of the random stream.
        """
        environments = cast("list[ExperimentTask]", self.tasks)
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            samples = module.sample(self.prompts, num_samples, settings, stream, environments)
        return self.submit(samples)

    def resubmit(  # type: ignore[override]
        self,
        task_index: int,
        source: str,
        program_ids: Sequence[int],
        log_prob: float,
        reference_log_prob: float,
        step: int,
        proposal_log_prob: float,
        runs: Sequence[int],
        state: EpisodeState,
    ) -> PendingProgram:
        """Hands over an episode that an interrupted run had sampled: its experiments are done again."""
        episode = cast(ExperimentTask, self.tasks[task_index]).replay(state)
        score = self._score(episode, task_index)
        ids = tuple(program_ids)
        return PendingProgram(
            task_index,
            source,
            ids,
            log_prob,
            reference_log_prob,
            score,
            step,
            tuple(runs),
            episode,
            proposal_log_prob=proposal_log_prob,
        )

    def trajectory(self, program: PendingProgram, score: Score, reward: Reward) -> Trajectory:
        """As `SampleScorer`, with what turns were expected to tell where that is asked for."""
        found = super().trajectory(program, score, reward)
        if self.information is None:
            return found
        return found._replace(gains=self.information.gains(program.episode))

    def withdraw(self, program: PendingProgram) -> None:
        """Tells the workers that nobody waits for an episode's score any more."""
        episode: ExperimentEpisode = program.episode
        self.pool.withdraw(program.source, episode.task.given(episode))

    def remember(self, record: ProgramRecord) -> None:
        """Nothing: a score belongs to a program and what was observed, which records do not hold."""

    def _submit_row(self, samples: SampledPrograms, row: int) -> PendingProgram:
        mask = samples.program_mask[row]
        own = mask if samples.own_mask is None else samples.own_mask[row]
        episode: ExperimentEpisode = samples.episodes[row]
        return PendingProgram(
            int(samples.prompt_index[row]),
            episode.program,
            tuple(samples.program_ids[row][mask].tolist()),
            float(samples.log_prob[row]),
            float(samples.reference_log_prob[row]),
            self._score(episode, int(samples.prompt_index[row])),
            runs=runs_of(own[mask]),
            episode=episode,
            proposal_log_prob=drawn_with(samples, row),
            weights_step=None if samples.weights_step is None else int(samples.weights_step[row]),
        )

    def _score(self, episode: ExperimentEpisode, task_index: int) -> Future[Score]:
        if episode.failure is None:
            return self.score(episode.program, task_index, episode.task.given(episode))
        score: Future[Score] = Future()
        score.set_result(Score.failed(*episode.failure))
        return score
