"""A task whose data the policy chooses: it experiments on an instance of a simulator, then models it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from synthstats_lightning.programs.answers import Thoughts
from synthstats_lightning.tasks import Task, TaskCollection
from synthstats_lightning.tasks.experiments.episode import EpisodeState, ExperimentEpisode
from synthstats_lightning.tasks.experiments.messages import RULES, Observed, render_episode_request, stacked
from synthstats_lightning.tasks.simulated import make_simulator, prior_ranges
from synthstats_lightning.tasks.simulators import Design, DesignError, DesignField, Simulator
from synthstats_lightning.tasks.simulators.design import read_design

SPARE_TURNS = 3
"""Turns beyond one for each experiment, where the number is not given: the submission and two mistakes."""
RANGE_DRAWS = 256
"""Random designs from which the range of a covariate that is no design field is taken."""


class ExperimentTask(Task):
    """One instance of an environment, of which the policy is told nothing but what it finds out.

    An episode: the prompt says what there is to find out, what a design consists of and the budget; in each
    turn the policy performs an experiment and is shown its rows, or submits a program, which ends the
    episode. An action that cannot be done is answered by a message and costs a turn, as does an experiment
    beyond the budget. Without a program by the last turn the episode fails with `TURNS`, or with
    `EXPERIMENTS` if it had asked for too many; a turn that does not end fails it with `TRUNCATED`.

    **What scores.** The rows that the policy was shown only condition. The score is the log predictive
    density of `evaluation_points` further points of the same instance given the observed rows, `heldout_lpd`;
    no prompt shows their responses. Rewards are measured against the intercept-only program that has observed
    nothing: the same number whatever was observed, so that a reward is what experiments and program are worth
    together, and poor experiments cannot make the yardstick shorter.

    As a `Task` this object holds the evaluation points alone, all of them held out; `given` adds what an
    episode has observed.

    Args:
        simulator: Name in `SIMULATORS`, or a simulator (in YAML by `class_path`). It is copied.
        seed: Seed of the simulator's instance, as in `SimulatedTask`.
        experiments: Budget of an episode, from 0.
        turns: Budget of an episode, the submission included, more than 0; by default `experiments` and three.
        evaluation_points: Designs whose responses are predicted, from 1.
        thoughts: What becomes of a model's thoughts: `"latent"` keeps them in the trajectory, `"stripped"`
            neither shows them again nor counts them, `"none"` asks for none.
        domain_knowledge: Whether the prompt says what the data are; see `Task`.
        name: Short name; the simulator's by default.

    Raises:
        ValueError: If a simulator is unknown or a number is out of range.
    """

    def __init__(
        self,
        simulator: str | Simulator,
        seed: int = 0,
        experiments: int = 5,
        turns: int | None = None,
        evaluation_points: int = 10,
        thoughts: Thoughts = "none",
        domain_knowledge: bool = True,
        name: str | None = None,
    ) -> None:
        self.turns = experiments + SPARE_TURNS if turns is None else turns
        lowest = {"experiments": 0, "turns": 1, "evaluation_points": 1}
        for setting, value in {
            "experiments": experiments,
            "turns": self.turns,
            "evaluation_points": evaluation_points,
        }.items():
            if value < lowest[setting]:
                raise ValueError(f"{setting} must be at least {lowest[setting]}, got {value}")
        if thoughts not in ("none", "latent", "stripped"):
            raise ValueError(f"thoughts must be 'none', 'latent' or 'stripped', got {thoughts!r}")
        self.simulator = make_simulator(simulator)
        self.simulator.reset(seed)
        self.seed = seed
        self.experiments = experiments
        self.thoughts: Thoughts = thoughts
        self._points = self.simulator.evaluation_points(evaluation_points)
        self._described: dict[str, Any] = {
            "name": name or self.simulator.name,
            "description": self.simulator.description,
            "response": self.simulator.response,
            "units": dict(self.simulator.units),
            "response_kind": self.simulator.response_kind,
            "rounding": self.simulator.rounding,
            "limits": self.simulator.limits,
            "held_out": len(self._points[self.simulator.response]),
            "total": self.simulator.total,
            "ranges": _ranges(self.simulator),
            "plain_description": self.simulator.plain_description,
            "domain_knowledge": domain_knowledge,
        }
        super().__init__(data=self._points, **self._described)
        self.fields = self._fields()
        columns = dict(self.columns)
        response = columns.pop(self.response)
        request = render_episode_request(
            self.description, list(columns.values()), response, self.fields, experiments, self.turns
        )
        if self.simulator.design_notes:
            request += f"\n{self.simulator.design_notes}"
        self.written_prompt = (RULES, request, thoughts != "none")

    def begin(self) -> ExperimentEpisode:
        """A new episode on this instance; its experiments get the same noise as those of any other."""
        return ExperimentEpisode(self)

    def replay(self, state: EpisodeState) -> ExperimentEpisode:
        """An episode again, from what the policy wrote in it.

        Args:
            state: What `ExperimentEpisode.state` returned.
        """
        episode = self.begin()
        for text in state["turns"]:
            episode.answer(text)
        if state["cut"] is not None:
            episode.cut(*state["cut"])
        return episode

    def given(self, episode: ExperimentEpisode) -> Task:
        """The data that an episode's program is scored on: its observed rows, then the evaluation points.

        The observed rows are shown ones: they condition and do not count.

        Args:
            episode: An episode of this task.
        """
        if not episode.observed:
            return self
        observed = stacked(episode.observed, self.simulator.columns)
        data = stacked([observed, self._points], self.simulator.columns)
        return self.holding_out(data, self.held_out)

    def holding_out(self, data: Observed, rows: int) -> Task:
        """Other data of the same environment; the rows that are not held out are shown ones.

        Args:
            data: Under the simulator's own column names.
            rows: Last rows, which are held out.
        """
        shown = len(data[self.simulator.response]) - rows
        settings = {**self._described, "name": self.name, "held_out": rows}
        return Task(data=data, shown_rows=shown, **settings)

    def shown(self, rows: Observed) -> Observed:
        """Rows under the names that the prompt gives their columns."""
        return {self.column_names[name]: values for name, values in rows.items()}

    def read_design(self, design: Any) -> Design:
        """Reads and checks a design under the names that the prompt gives its fields.

        Args:
            design: A design as `Simulator.validate` takes it: text, JSON, a mapping or a sequence.

        Raises:
            DesignError: With one line for the policy.
        """
        if self.domain_knowledge:
            return self.simulator.validate(design)
        own = read_design(design, self.fields)
        names = {
            field.name: true.name for field, true in zip(self.fields, self.simulator.fields, strict=True)
        }
        try:
            return self.simulator.validate({names[name]: value for name, value in own.items()})
        except DesignError as error:
            raise DesignError(_renamed(str(error), {true: name for name, true in names.items()})) from None

    def _fields(self) -> tuple[DesignField, ...]:
        """The design's fields as the prompt names them."""
        if self.domain_knowledge:
            return self.simulator.fields
        return tuple(
            replace(field, name=self.column_names.get(field.name, f"d{number}"), unit="", description="")
            for number, field in enumerate(self.simulator.fields, start=1)
        )


class ExperimentTasks(TaskCollection):
    """Many instances of one environment, each a task of its own.

    Their prompts are the same, so that the policy cannot tell them apart before it experiments; each has a
    log Z of its own. Where instances differ in what they are worth, no policy is in balance with all of them
    in its first turn: trajectory balance then finds the compromise of least squared residual.

    Args:
        simulator: The environment; see `ExperimentTask`.
        instances: How many instances there are.
        first_seed: Seed of the first instance; they are called `NAME/SEED`.
        name: What stands before the slash; the simulator's name by default.
        **settings: The other arguments of `ExperimentTask`.

    Raises:
        ValueError: If `instances` is below 1, or see `ExperimentTask`.
    """

    def __init__(
        self,
        simulator: str | Simulator,
        instances: int = 4,
        first_seed: int = 0,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        if instances < 1:
            raise ValueError(f"instances must be at least 1, got {instances}")
        stem = name or make_simulator(simulator).name
        super().__init__(
            [
                ExperimentTask(simulator, seed=seed, name=f"{stem}/{seed}", **settings)
                for seed in range(first_seed, first_seed + instances)
            ]
        )


def _ranges(simulator: Simulator) -> dict[str, tuple[float, float]]:
    """What is known before any experiment: of covariates that are no design field, what designs give."""
    ranges = prior_ranges(simulator)
    rng = np.random.default_rng(0)
    others = [name for name in simulator.columns if name not in ranges]
    rows = [simulator.covariates(simulator.random_design(rng)) for _ in range(RANGE_DRAWS if others else 0)]
    for name in others:
        values = np.concatenate([row[name] for row in rows]).astype(np.float64)
        ranges[name] = (float(f"{values.min():.3g}"), float(f"{values.max():.3g}"))
    return ranges


def _renamed(message: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        message = re.sub(rf"\b{re.escape(old)}\b", new, message)
    return message
