"""Programs from a policy, their scores from a pool of workers, and the rewards that follow."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch import Trainer
from torch import Tensor

from synthstats_lightning.callbacks.screening import screened
from synthstats_lightning.learning.prompts import present_prompts
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SampledPrograms, SamplingSettings
from synthstats_lightning.policy.sampling import stream_seed
from synthstats_lightning.pool.program_budget import ProgramBudget
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.pool.term_scorer import TermScorer
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.replay import Trajectory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.single_precision import is_finite
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Prompt, Task, baseline_program, task_prompt
from synthstats_lightning.tasks.proposal import looking


class PendingProgram(NamedTuple):
    """A sampled program on its way to a score.

    Attributes:
        task_index: Position of its task.
        source: Source text of the program.
        program_ids: Tokens of the program, stop token included.
        log_prob: Under the policy that sampled it, in nats.
        reference_log_prob: Log-probability with the adapter off, in nats.
        score: The score to come.
        step: Training step at which it was sampled.
        runs: Of an episode: what policy and environment wrote of the tokens, see `Trajectory`.
        episode: What the environment knows of an episode; `None` for a program of one turn.
        token_log_probs: Of each token under the policy that sampled it, in nats; empty if not kept.
        proposal_log_prob: With which it was drawn, in nats; +inf if unknown, as of a program that was given.
        span: The first of the tokens that the source was taken from, and that behind the last; `None` if
            unknown, as of a program that was given.
        weights_step: Training step of the weights that it was drawn from; `None` if that is the present.
        looking: Log-probability with the adapter off given the proposal's prompt minus that given the
            prior's, in nats; 0 where these are one, and where nothing asks for it.
        warmup_log_prob: With which the warm-up draws it, in nats; -inf where nothing asks for it.
    """

    task_index: int
    source: str
    program_ids: tuple[int, ...]
    log_prob: float
    reference_log_prob: float
    score: Future[Score]
    step: int = 0
    runs: tuple[int, ...] = ()
    episode: Any = None
    token_log_probs: tuple[float, ...] = ()
    proposal_log_prob: float = math.inf
    span: tuple[int, int] | None = None
    weights_step: int | None = None
    looking: float = 0.0
    warmup_log_prob: float = -math.inf

    def drawn_at(self, step: int) -> PendingProgram:
        """The same with the step from which its age counts: that of the weights that wrote it.

        Args:
            step: The training step.
        """
        return self._replace(step=step if self.weights_step is None else min(self.weights_step, step))

    @property
    def has_score(self) -> bool:
        """Whether its score is there; not if it was withdrawn, or came to an error."""
        return self.score.done() and not self.score.cancelled() and self.score.exception() is None

    @property
    def num_tokens(self) -> int:
        """Tokens that the policy wrote."""
        return sum(self.runs[::2]) if self.runs else len(self.program_ids)


def proposal_log_prob(samples: SampledPrograms, row: int) -> float:
    """With which a program was drawn, in nats; +inf if unknown.

    Args:
        samples: The programs that were drawn.
        row: Which of them.
    """
    return math.inf if samples.proposal_log_prob is None else float(samples.proposal_log_prob[row])


def looked(samples: SampledPrograms) -> Float[Tensor, " batch"]:
    """What looking at the data adds to the reference policy's log-probabilities, in nats; 0 if not asked for.

    Args:
        samples: The programs that were drawn.
    """
    first = samples.first_log_prob
    return torch.zeros_like(samples.log_prob) if first is None else first - samples.reference_log_prob


def _token_log_probs(samples: SampledPrograms, row: int) -> tuple[float, ...]:
    if samples.token_log_probs is None:
        return ()
    return tuple(samples.token_log_probs[row][samples.program_mask[row]].tolist())


class SampleScorer:
    """Workers for a run's tasks, with each task's baseline scored.

    Args:
        tasks: The tasks, in the order of `task_index`.
        reward: From a score to a log reward.
        pool: Where programs are scored; it is started here, and closed by `close`.
        budget: How many distinct programs may be sampled; without limit by default.

    Raises:
        RuntimeError: If a task's baseline program has no score.
        SandboxError: If programs cannot be confined here.
    """

    of_episodes = False
    """Whether its programs end episodes of experiments."""

    def __init__(
        self,
        tasks: Sequence[Task],
        reward: Reward,
        pool: ProgramScorer,
        budget: ProgramBudget | None = None,
    ) -> None:
        self.tasks = list(tasks)
        self._prompts = [task_prompt(task) for task in self.tasks]
        self.reward = reward
        self.pool = pool
        self.budget = budget or ProgramBudget()
        self.terms = TermScorer(reward.judged)
        try:
            self.pool.start()
            self.baselines = [self._baseline(task) for task in self.tasks]
        except BaseException:
            self.close()
            raise

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """What the policy is told of each task at present."""
        return present_prompts(self._prompts, self.tasks)

    def gain(self, score: Score, task_index: int) -> float:
        """What a score is above that of the task's baseline, in nats.

        Args:
            score: The score of a program, which has one.
            task_index: Position of its task.
        """
        return self.reward.value(score) - self.reward.value(self.baselines[task_index])

    def close(self) -> None:
        """Ends every worker, and what judges programs beside them."""
        self.pool.close()
        self.terms.close()

    def score(self, source: str, task_index: int, task: Task | None = None) -> Future[Score]:
        """Starts scoring a program, and judging it by the reward's terms, and returns at once.

        Args:
            source: Source text of the program.
            task_index: Position of its task.
            task: What it is scored on instead of that task, as what an episode has observed.
        """
        given = self.tasks[task_index] if task is None else task
        baseline = self.reward.value(self.baselines[task_index])
        found = self.pool.submit(source, given)
        return self.terms.add(found, given, lambda score: self.reward.value(score) - baseline)

    def for_tasks(self, tasks: Sequence[Task]) -> SampleScorer:
        """The same workers and reward for other tasks, whose baselines are scored now.

        Args:
            tasks: The tasks, in the order of their `task_index`; nothing else of the run knows them.

        Raises:
            RuntimeError: If a task's baseline program has no score.
        """
        other = copy.copy(self)
        other.budget = ProgramBudget()
        # a policy is told as much as where it was trained
        asked = {(task.proposal, task.instructions) for task in self.tasks}
        words = asked.pop() if len(asked) == 1 else ("nothing", "short")
        other.tasks = [looking(task, *words) for task in tasks]
        other._prompts = [task_prompt(task) for task in other.tasks]
        other.baselines = [self._baseline(task) for task in tasks]
        return other

    def sample(
        self,
        trainer: Trainer,
        module: GFlowNetModule,
        num_samples: int | Sequence[int],
        settings: SamplingSettings,
        stream: int,
    ) -> list[PendingProgram]:
        """Samples programs of every task and hands them to the workers.

        Args:
            trainer: The run's trainer, in whose precision the policy writes.
            module: Whose policy writes them.
            num_samples: Programs a task, one number or one for each.
            settings: Temperature, exploration and length.
            stream: Number of the random stream.
        """
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            samples = module.sample(self.prompts, num_samples, settings, stream=stream)
        return self.submit(samples)

    def sample_prior(
        self,
        trainer: Trainer,
        module: GFlowNetModule,
        num_samples: int,
        settings: SamplingSettings,
        stream: int,
    ) -> list[PendingProgram]:
        """Samples programs of every task from the prior and hands them to the workers.

        Args:
            trainer: The run's trainer, in whose precision the reference policy writes.
            module: Whose reference policy writes them.
            num_samples: Programs a task.
            settings: Temperature, exploration and length.
            stream: Number of the random stream.
        """
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            samples = module.sample_prior(self.prompts, num_samples, settings, stream=stream)
        return self.submit(samples)

    def screen(
        self,
        trainer: Trainer,
        module: GFlowNetModule,
        num_samples: int | Sequence[int],
        settings: SamplingSettings,
        stream: int,
        candidates: float,
    ) -> list[PendingProgram]:
        """Samples more programs than are wanted, and hands those to the workers that the data speak for.

        What each was drawn with takes into account how probable it was to be chosen.

        Args:
            trainer: The run's trainer, in whose precision the policy writes.
            module: Whose policy writes them.
            num_samples: Programs a task that are scored, one number or one for each.
            settings: Temperature, exploration and length.
            stream: Number of the random stream.
            candidates: Programs that are sampled for each that is scored.
        """
        wanted = [num_samples] * len(self.tasks) if isinstance(num_samples, int) else list(num_samples)
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            drawn = [round(candidates * number) for number in wanted]
            samples = module.sample(self.prompts, drawn, settings, stream=stream)
        generator = np.random.default_rng(stream_seed(module.seed, module.global_rank, stream))
        chosen = screened(samples, self.tasks, wanted, generator)
        return [
            program._replace(proposal_log_prob=program.proposal_log_prob + chosen[row])
            for row, program in self._submitted(samples, chosen)
        ]

    def resample_suffixes(
        self,
        trainer: Trainer,
        module: GFlowNetModule,
        prefixes: Sequence[tuple[int, tuple[int, ...]]],
        settings: SamplingSettings,
        stream: int,
    ) -> list[PendingProgram]:
        """Samples new suffixes for given prefixes and hands the programs to the workers.

        Args:
            trainer: The run's trainer, in whose precision the policy writes.
            module: Whose policy writes them.
            prefixes: Task index and first tokens of each program.
            settings: Temperature, exploration and length.
            stream: Number of the random stream.
        """
        tasks, tokens = zip(*prefixes, strict=True)
        with torch.no_grad(), trainer.precision_plugin.forward_context():
            samples = module.resample_suffixes(self.prompts, tasks, tokens, settings, stream=stream)
        return self.submit(samples)

    def submit(self, samples: SampledPrograms) -> list[PendingProgram]:
        """Hands sampled programs to the workers; one without a stop token fails at once.

        A program whose log-probability is not finite is left out: nothing can be learned from it. So are all
        from the first one on that the budget does not pay for.
        """
        return [program for _, program in self._submitted(samples, range(len(samples.sources)))]

    def _submitted(
        self, samples: SampledPrograms, rows: Collection[int]
    ) -> Iterator[tuple[int, PendingProgram]]:
        own = samples.log_prob, samples.reference_log_prob, looked(samples)
        known = is_finite(torch.stack(own).cpu()).all(0)
        for row in np.flatnonzero(known).tolist():
            if row not in rows:
                continue
            task_index, source = int(samples.prompt_index[row]), samples.sources[row]
            if bool(samples.stopped[row]) and not self.budget.admits(task_index, source):
                return  # those behind it would be known programs alone
            yield row, self._submit_row(samples, row)

    def resubmit(
        self,
        task_index: int,
        source: str,
        program_ids: Sequence[int],
        log_prob: float,
        reference_log_prob: float,
        step: int = 0,
        proposal_log_prob: float = math.inf,
        token_log_probs: Sequence[float] = (),
        looking: float = 0.0,
    ) -> PendingProgram:
        """Hands over a program that is given, or that an interrupted run had sampled."""
        score = self.score(source, task_index)
        ids = tuple(program_ids)
        given = log_prob, reference_log_prob, score, step
        return PendingProgram(
            task_index,
            source,
            ids,
            *given,
            token_log_probs=tuple(token_log_probs),
            proposal_log_prob=proposal_log_prob,
            looking=looking,
        )

    def withdraw(self, program: PendingProgram) -> None:
        """Tells the workers that nobody waits for a program's score any more."""
        self.pool.withdraw(program.source, self.tasks[program.task_index])

    def record(self, program: PendingProgram, reward: Reward | None = None) -> ProgramRecord:
        """Waits for a program's score and turns it into what a run reports of it, without the floor.

        Args:
            program: The program whose score has come.
            reward: From its score to a log reward; the run's final one by default.
        """
        score, reward = program.score.result(), reward or self.reward
        baseline = self.reward.value(self.baselines[program.task_index])
        weighed = baseline, program.reference_log_prob, program.num_tokens, program.looking
        return ProgramRecord(
            task=self.tasks[program.task_index].name,
            source=program.source,
            score=score,
            log_reward=reward.log_target(score, *weighed),
            log_prob=program.log_prob,
            reference_log_prob=program.reference_log_prob,
            step=program.step,
            span=program.span,
        )

    def trajectory(self, program: PendingProgram, score: Score, reward: Reward) -> Trajectory:
        """What the replay buffer holds of a scored program.

        Args:
            program: The program whose score has come.
            score: The score, possibly a failure.
            reward: As it is at present; the parts that the log reward is blended from come along.
        """
        baseline = self.reward.value(self.baselines[program.task_index])
        parts = reward.parts(score, baseline, program.num_tokens, program.looking)
        log_reward = reward.blend(np.array([parts]), np.array([program.reference_log_prob]))
        return Trajectory(
            program.task_index,
            program.program_ids,
            float(log_reward[0]),
            program.reference_log_prob,
            program.log_prob,
            parts,
            (score.canonical or "") if score.scored else "",
            (score.structure or "") if score.scored else "",
            program.step,
            program.runs,
            program.token_log_probs,
            score.settled and (not score.scored or all(term.key in score.terms for term in reward.judged)),
        )

    def remember(self, record: ProgramRecord) -> None:
        """Takes the score of an interrupted run's program, so that it is not computed again."""
        if not record.score.settled or record.score.failure is FailureCategory.TRUNCATED:
            return  # not properties of the source
        for index, task in enumerate(self.tasks):
            if task.name == record.task:
                self.budget.admits(index, record.source)
                self.pool.remember(record.source, task, record.score)
                self.terms.remember(task, record.score)

    def _submit_row(self, samples: SampledPrograms, row: int) -> PendingProgram:
        task_index = int(samples.prompt_index[row])
        ids = samples.program_ids[row][samples.program_mask[row]].tolist()
        if bool(samples.stopped[row]):
            score = self.score(samples.sources[row], task_index)
        else:
            score = Future()
            score.set_result(
                Score.failed(FailureCategory.TRUNCATED, f"no stop token within {len(ids)} tokens")
            )
        return PendingProgram(
            task_index,
            samples.sources[row],
            tuple(ids),
            float(samples.log_prob[row]),
            float(samples.reference_log_prob[row]),
            score,
            token_log_probs=_token_log_probs(samples, row),
            proposal_log_prob=proposal_log_prob(samples, row),
            span=samples.spans[row] if samples.spans else None,
            weights_step=None if samples.weights_step is None else int(samples.weights_step[row]),
            looking=float(looked(samples)[row]),
        )

    def _baseline(self, task: Task) -> Score:
        score = self.pool.score(baseline_program(task), task)
        if not score.scored:
            raise RuntimeError(
                f"the baseline program of task {task.name!r} has no score ({score.failure}: {score.message})"
            )
        return score
