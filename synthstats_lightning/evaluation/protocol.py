"""The evaluation of one environment: instances, budgets, rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from synthstats_lightning.evaluation.entrants import Writer, WrittenProgram, looks_at_data
from synthstats_lightning.evaluation.experiments import (
    Chooser,
    Experiments,
    design_regrets,
    run_experiments,
)
from synthstats_lightning.evaluation.latent_particles import ImpossibleResponseError
from synthstats_lightning.evaluation.measurement import Measurement
from synthstats_lightning.evaluation.prediction import Prediction, of_model, of_models, point_predictions
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.evaluation.standardisation import Standardisation, standardisation
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.reports.model_weights import evidence_weights, stacking_weights
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.tasks import SimulatedTask, baseline_program
from synthstats_lightning.tasks.reference_programs import reference_program
from synthstats_lightning.tasks.simulators import Simulator


@dataclass
class _Instance:
    """One instance with everything that is under way for it."""

    seed: int
    simulator: Simulator
    experiments: Experiments
    regrets: list[float]
    tasks: dict[int, SimulatedTask]
    written: dict[int, list[WrittenProgram]]
    forecasts: dict[tuple[int, str], Future[Forecast]]
    no_regret: str = ""


class EnvironmentRun:
    """One environment under evaluation: its programs are at work in the pool from the start.

    Each instance is observed at designs that `choose` gives, the same for all rows. At each budget a program
    is conditioned on the experiments so far and predicts the instance's evaluation points. A row's programs
    that give no prediction are counted; a row left with none predicts what the baseline predicts.

    Args:
        simulator: The environment; it is copied.
        scorer: A running pool.
        settings: Budgets, instances and predictions of the protocol.
        oracle: Whether the environment's own program (`tasks/reference`) takes part.
        policy: Writes programs, from the prompt of the task at the largest budget, or at each one where it
            looks at the data; without it the two rows of a policy are left out.
        choose: Chooses the experiments; random designs by default.
        scale: What errors are standardised by; it depends on environment, goal and points alone, and is
            computed by default.

    Raises:
        ValueError: If the environment has no such goal or no reference program.
    """

    def __init__(
        self,
        simulator: Simulator,
        scorer: ProgramScorer,
        settings: EvaluationSettings | None = None,
        *,
        oracle: bool = True,
        policy: Writer | None = None,
        choose: Chooser | None = None,
        scale: Standardisation | None = None,
    ) -> None:
        self.scale = scale
        self.simulator = copy.deepcopy(simulator)
        self.settings = settings or EvaluationSettings()
        self._rows = (oracle, policy is not None)
        if self.settings.goal not in simulator.goals:
            raise ValueError(
                f"goal {self.settings.goal!r} of {simulator.name} is not one of: {', '.join(simulator.goals)}"
            )
        self._instances = [
            _start(copy.deepcopy(simulator), seed, scorer, self.settings, oracle, policy, choose)
            for seed in self.settings.seeds
        ]

    def measurements(self) -> Iterator[Measurement]:
        """Waits for the pool, and computes information gains meanwhile.

        Yields:
            One measurement for each instance, budget and row.

        Raises:
            RuntimeError: If a baseline program fails.
        """
        settings = self.settings
        scale = self.scale or environment_scale(self.simulator, settings)
        for instance in self._instances:
            if settings.eig_candidates:
                try:
                    instance.regrets = design_regrets(
                        instance.simulator, instance.experiments, instance.seed, settings
                    )
                except ImpossibleResponseError as error:
                    instance.no_regret = str(error)
        for instance in self._instances:
            for budget in settings.budgets:
                yield from _measure(instance, budget, settings, scale, *self._rows)


def environment_scale(simulator: Simulator, settings: EvaluationSettings) -> Standardisation:
    """What the errors of an environment are standardised by.

    Args:
        simulator: The environment; its instance does not matter.
        settings: Goal, points and instances of the protocol.
    """
    return standardisation(simulator, settings.goal, settings.points, settings.reference_instances)


def evaluate_environment(
    simulator: Simulator,
    scorer: ProgramScorer,
    settings: EvaluationSettings | None = None,
    *,
    oracle: bool = True,
    policy: Writer | None = None,
    choose: Chooser | None = None,
) -> Iterator[Measurement]:
    """Measures all rows of one environment; see `EnvironmentRun`, which can be started ahead of time.

    Args:
        simulator: The environment; it is copied.
        scorer: A running pool.
        settings: Budgets, instances and predictions of the protocol.
        oracle: Whether the environment's own program takes part.
        policy: Writes programs for two more rows, which are left out without it.
        choose: Chooses the experiments.

    Yields:
        One measurement for each instance, budget and row.
    """
    run = EnvironmentRun(simulator, scorer, settings, oracle=oracle, policy=policy, choose=choose)
    yield from run.measurements()


def _start(
    simulator: Simulator,
    seed: int,
    scorer: ProgramScorer,
    settings: EvaluationSettings,
    oracle: bool,
    policy: Writer | None,
    choose: Chooser | None,
) -> _Instance:
    """Observes an instance and hands all its programs to the pool; the simulator becomes the instance's."""
    simulator.reset(seed)
    most = max(settings.budgets)
    made = run_experiments(simulator, most, choose)
    tasks = {budget: _task(simulator, seed, made, budget, settings) for budget in settings.budgets}
    written: dict[int, list[WrittenProgram]] = {budget: [] for budget in tasks}
    if policy is not None:
        looks = looks_at_data(policy)
        last = [] if looks else list(policy(tasks[most], seed))
        written = {budget: list(policy(task, seed)) if looks else last for budget, task in tasks.items()}
    instance = _Instance(seed, simulator, made, [], tasks, written, {})
    for budget, task in tasks.items():
        sources = [item.source for item in written[budget] if item.complete]
        if oracle:
            sources.append(reference_program(task))
        for source in dict.fromkeys(sources):
            stacked = settings.weighting == "stacking" and budget > 0
            instance.forecasts[budget, source] = scorer.forecast(source, task, settings.draws, stacked)
        # an intercept-only program declares no quantity
        plain = task if not task.quantities else _task(simulator, seed, made, budget, settings, "prediction")
        instance.forecasts[budget, ""] = scorer.forecast(baseline_program(plain), plain, settings.draws)
    return instance


def _task(
    simulator: Simulator,
    seed: int,
    made: Experiments,
    budget: int,
    settings: EvaluationSettings,
    goal: str | None = None,
) -> SimulatedTask:
    """The data of one budget, with the evaluation points held out."""
    task = SimulatedTask(
        simulator,
        seed,
        min(budget, len(made.designs)),
        list(made.designs),
        settings.points,
        goal=goal or settings.goal,
        domain_knowledge=settings.domain_knowledge,
        response_range="prior",
    )
    task.name = f"{task.name}/{seed}"
    return task


def _measure(
    instance: _Instance,
    budget: int,
    settings: EvaluationSettings,
    scale: Standardisation,
    oracle: bool,
    policy: bool,
) -> Iterator[Measurement]:
    """All rows of one instance at one budget."""
    task = instance.tasks[budget]
    try:
        baseline = of_model(instance.forecasts[budget, ""].result())
    except ProgramFailure as failure:
        raise RuntimeError(
            f"the baseline program of {task.name} at budget {budget} failed: {failure}"
        ) from None
    rows: dict[str, _Row] = {"baseline": _Row(baseline, 1, [])}
    if oracle:
        rows["oracle"] = _single(instance, budget, reference_program(task))
    if policy:
        rows |= _policy_rows(instance, budget, settings)
    regrets = instance.regrets[: min(budget, len(instance.experiments.designs))]
    for name, row in rows.items():
        prediction = row.prediction or baseline
        error = _error(instance, task, prediction, scale)
        gains = prediction.log_density - baseline.log_density
        yield Measurement(
            environment=instance.simulator.name,
            row=name,
            seed=instance.seed,
            budget=budget,
            raw_error=error,
            standardised_error=scale.standardise(error),
            lpd_gain=float(np.maximum(gains, settings.log_density_floor).mean()),
            eig_regret=float(np.mean(regrets)) if regrets else None,
            runs=row.runs,
            failures=len(row.messages),
            floored=int((gains < settings.log_density_floor).sum()),
            messages=tuple(row.messages),
            no_regret=instance.no_regret,
        )


@dataclass
class _Row:
    """What a row predicts, from how many programs, and why some of them gave nothing."""

    prediction: Prediction | None
    runs: int
    messages: list[str]


def _single(instance: _Instance, budget: int, source: str) -> _Row:
    forecast = _result(instance, budget, source)
    if isinstance(forecast, str):
        return _Row(None, 1, [forecast])
    return _Row(of_model(forecast), 1, [])


def _policy_rows(instance: _Instance, budget: int, settings: EvaluationSettings) -> dict[str, _Row]:
    """The policy's best program, and all of them weighted; repeated programs count as often as they came.

    Before any data the best is the most probable one: of a policy without log-probabilities there is none.
    Programs of a policy that has seen the data weigh evidence times prior over policy, so that the data
    count once.
    """
    messages, forecasts = [], []
    log_probs: list[float] = []
    log_ratios: list[float] = []
    written = instance.written[budget]
    unknown = not budget and any(item.log_prob is None for item in written)
    for item in written:
        if not item.complete:
            messages.append(item.failure or f"{FailureCategory.TRUNCATED}: no stop token")
            continue
        forecast = _result(instance, budget, item.source)
        if isinstance(forecast, str):
            messages.append(forecast)
            continue
        forecasts.append(forecast)
        log_probs.append(0.0 if item.log_prob is None else item.log_prob)
        log_ratios.append(item.log_prior_ratio)
    runs = len(written)
    if not forecasts:
        names = ("policy_set",) if unknown else ("policy_best", "policy_set")
        return {name: _Row(None, runs, messages) for name in names}
    evidence = np.array([item.evidence for item in forecasts])
    # before any data the policy's own probability is all that tells programs apart
    best = int(np.argmax(evidence if budget else np.array(log_probs)))
    if settings.weighting == "stacking":
        weights = stacking_weights(np.stack([item.leave_one_out for item in forecasts], 1))
    else:
        weights = evidence_weights(evidence + np.array(log_ratios))
    rows = {"policy_set": _Row(of_models(forecasts, weights), runs, messages)}
    if not unknown:
        rows["policy_best"] = _Row(of_model(forecasts[best]), runs, messages)
    return rows


def _result(instance: _Instance, budget: int, source: str) -> Forecast | str:
    """A program's forecast, or why it has none."""
    try:
        forecast = instance.forecasts[budget, source].result()
    except ProgramFailure as failure:
        return f"{failure.category}: {failure.message}"
    if not (np.isfinite(forecast.draws).any(0)).all():
        return f"{FailureCategory.NON_FINITE}: no predictive draw of an evaluation point is a number"
    return forecast


def _error(
    instance: _Instance,
    task: SimulatedTask,
    prediction: Prediction,
    scale: Standardisation,
) -> float:
    """The raw error of a row: of points, or of the answer to a parameter goal."""
    goal = task.goal
    if goal.summarise is None:
        points = point_predictions(prediction, task.response_kind)
        truth = task.data[task.response][-len(points) :]
        return float(np.mean(goal.errors(points, truth)))
    if goal.quantity in prediction.quantities:
        answer = goal.summarise(prediction.quantities[goal.quantity], prediction.weights)
    else:
        answer = scale.constant  # what is known without any program
    truth = np.asarray(goal.truth_of(instance.simulator.latents_batch)[0])
    return float(np.mean(goal.errors(np.asarray(answer), truth)))
