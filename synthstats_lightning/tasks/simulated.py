"""A task whose data a simulator makes: one instance, observed at some designs."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import numpy as np

from synthstats_lightning.tasks.columns import Array
from synthstats_lightning.tasks.reference_programs import reference_names
from synthstats_lightning.tasks.simulators import SIMULATORS, Design, Simulator
from synthstats_lightning.tasks.task import Task

DesignValue = dict[str, Any] | list[Any] | float | str
"""A design as `Simulator.validate` reads it: by field name, in the order of the fields, a number, or text."""

OBSERVATIONS = 20
"""Designs observed by default."""
RANGE_DRAWS = 256
"""Instances from which the range of the response under the prior is estimated."""
RANGE_QUANTILES = (0.01, 0.99)


class SimulatedTask(Task):
    """Observations of one instance of an environment.

    The instance is that of `seed`: its latents, its observations and its evaluation points come from separate
    streams, so that neither the design nor `held_out` changes any other. Held-out rows are evaluation points
    of the same instance with their true responses; with `score: heldout_lpd` in the reward they are what
    programs are scored by, otherwise they only report.

    Args:
        simulator: Name in `SIMULATORS`, or a simulator (in YAML by `class_path`, also one outside the
            package). It is copied.
        seed: Seed of the simulator's instance.
        num_observations: Observed designs, from 0; some environments yield several rows for each. By default
            20, or all of an environment that has fewer designs.
        design: `"random"`: from the environment's distribution of designs; `"grid"`: spread evenly; or the
            designs themselves, of which there are then `num_observations` at most.
        held_out: Evaluation points that follow the observations as held-out rows.
        shown_rows: Observed rows of the response that the prompt shows; see `Task`.
        goal: Name in `Simulator.goals`. For a parameter goal the prompt asks for a `pm.Deterministic` of the
            goal's name for it, and a program without one fails.
        domain_knowledge: Whether the prompt says what the data are; see `Task`.
        response_range: Ranges in the prompt: of the observed rows (`"observed"`), or of the environment's
            designs and responses (`"prior"`), which are the same for every instance and tell nothing of this
            one.
        name: Short name; the simulator's by default.

    Raises:
        ValueError: If a simulator or goal is unknown, a number is negative, there are no rows at all, or a
            given design is not valid.
    """

    def __init__(
        self,
        simulator: str | Simulator,
        seed: int = 0,
        num_observations: int | None = None,
        design: Literal["random", "grid"] | list[DesignValue] = "random",
        held_out: int = 0,
        shown_rows: int = 0,
        goal: str = "prediction",
        domain_knowledge: bool = True,
        response_range: Literal["observed", "prior"] = "observed",
        name: str | None = None,
    ) -> None:
        self.simulator = make_simulator(simulator)
        for setting, value in {"num_observations": num_observations or 0, "held_out": held_out}.items():
            if value < 0:
                raise ValueError(f"{setting} must be 0 or more, got {value}")
        if response_range not in ("observed", "prior"):
            raise ValueError(f"response_range must be 'observed' or 'prior', got {response_range!r}")
        if goal not in self.simulator.goals:
            raise ValueError(
                f"goal {goal!r} of {self.simulator.name} is not one of: {', '.join(self.simulator.goals)}"
            )
        self.simulator.reset(seed)
        self.seed = seed
        self.goal = self.simulator.goals[goal]
        number = default_observations(self.simulator) if num_observations is None else num_observations
        self.designs = choose_designs(self.simulator, design, number)
        blocks = [self.simulator.observe(each) for each in self.designs]
        if held_out:
            blocks.append(self.simulator.evaluation_points(held_out))
        if not blocks:
            raise ValueError("num_observations and held_out must not both be 0")
        columns = {key: np.concatenate([block[key] for block in blocks]) for key in self.simulator.columns}
        response = self.simulator.response
        held_rows = held_out * self.simulator.rows_per_design
        from_prior = response_range == "prior" or len(columns[response]) == held_rows
        ranges = prior_ranges(self.simulator) if from_prior else None
        question = self.goal.question if domain_knowledge else self.goal.plain_question
        shape = f" (shape {self.goal.shape})" if self.goal.shape else ""
        super().__init__(
            name=name or self.simulator.name,
            description=self.simulator.description,
            data=columns,
            response=response,
            units=dict(self.simulator.units),
            shown_rows=shown_rows,
            response_kind=self.simulator.response_kind,
            rounding=self.simulator.rounding,
            limits=self.simulator.limits,
            held_out=held_rows,
            total=self.simulator.total,
            ranges=ranges,
            plain_description=self.simulator.plain_description,
            domain_knowledge=domain_knowledge,
            quantities={self.goal.quantity: question + shape} if self.goal.quantity else None,
        )

    @property
    def reference(self) -> str:
        """Name of the file in `tasks/reference` with the environment's own generating program.

        A variant that observes by another law than the default has a program of its own.
        """
        own = f"{self.simulator.reference}_{self.simulator.variant}"
        return own if own in reference_names() else self.simulator.reference


def make_simulator(simulator: str | Simulator) -> Simulator:
    """A simulator of its own: the named one with its defaults, or a copy of the given one.

    Args:
        simulator: Name in `SIMULATORS`, or a simulator.

    Raises:
        ValueError: If no simulator has that name.
    """
    if isinstance(simulator, Simulator):
        return copy.deepcopy(simulator)
    if simulator not in SIMULATORS:
        raise ValueError(
            f"simulator {simulator!r} is not one of: {', '.join(sorted(SIMULATORS))};"
            " give your own by class_path"
        )
    return SIMULATORS[simulator]()


def choose_designs(simulator: Simulator, design: str | list[DesignValue], number: int) -> list[Design]:
    """Designs to observe the current instance at.

    Args:
        simulator: A simulator that has an instance, after `reset`.
        design: `"random"`, `"grid"`, or the designs.
        number: How many; of given designs the first ones.

    Raises:
        ValueError: If `design` is another word, or a given design is not valid (`DesignError`).
    """
    if number == 0:
        return []
    if design == "random":
        return simulator.random_designs(number, simulator.design_rng)
    if design == "grid":
        return simulator.grid(number)
    if isinstance(design, str):
        raise ValueError(f"design must be 'random', 'grid' or a list of designs, got {design!r}")
    return [simulator.validate(each) for each in design[:number]]


def default_observations(simulator: Simulator) -> int:
    """As many designs as are observed by default: 20, or all if there are fewer.

    Args:
        simulator: A simulator that has an instance, after `reset`.
    """
    return OBSERVATIONS if simulator.repeatable else min(OBSERVATIONS, len(simulator.all_designs()))


def prior_ranges(simulator: Simulator) -> dict[str, tuple[float, float]]:
    """What is known of columns before any observation: bounds of design fields, and where responses lie.

    The response's range holds all but the outermost per cent of responses of random instances at random
    designs. Ranges depend on the environment's settings and not on the instance.

    Args:
        simulator: A simulator that has an instance, after `reset`.
    """
    bounded = {
        field.name: (field.low, field.high)
        for field in simulator.fields
        if field.name in simulator.columns and math.isfinite(field.high - field.low)
    }
    return {**bounded, simulator.response: response_range(simulator)}


def response_range(simulator: Simulator) -> tuple[float, float]:
    """The response's range in `prior_ranges`."""
    rng = np.random.default_rng(0)
    draws = simulator.sample_latents(rng, RANGE_DRAWS)
    values: list[Array] = []
    for index in range(RANGE_DRAWS):
        latents = {key: value[index : index + 1] for key, value in draws.items()}
        rows = simulator.covariates(simulator.random_design(rng))
        values.append(simulator.simulate(latents, rows, rng)[0])
    pooled = np.concatenate(values).astype(np.float64)
    if simulator.response_kind == "binary":
        return 0.0, 1.0
    low, high = np.quantile(pooled[np.isfinite(pooled)], RANGE_QUANTILES)
    if simulator.response_kind == "count":
        return float(np.floor(low)), float(np.ceil(high))
    return float(f"{low:.3g}"), float(f"{high:.3g}")
