"""Simulated environments: the interface that every one of them has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows
from synthstats_lightning.tasks.simulators.design import Design, DesignError, DesignField, read_design
from synthstats_lightning.tasks.simulators.design_space import all_designs, grid, random_entry, spread
from synthstats_lightning.tasks.simulators.goal import Goal, prediction_goal

__all__ = ["Array", "Design", "DesignError", "DesignField", "FloatArray", "Goal", "Simulator", "Variant"]

Variant = Literal["corrected", "boxing_gym"]
"""`"boxing_gym"` is the public definition as it stands; `"corrected"` mends what is broken in it."""

BLOCK = 16
"""Evaluation points drawn at a time, each block from its own stream: fewer points are a prefix of more."""


class Simulator(ABC):
    """One environment; after `reset` one instance of it, with its own latent parameters.

    An instance has five independent streams of random numbers, children of its seed: latents, what is fixed
    at the start (patients, response tables), observations, evaluation points and designs. Drawing from one
    never changes another, in this process or any other.

    A subclass sets the attributes below, defines the generative model in `sample_latents`, `covariates`,
    `simulate`, `log_likelihood`, `mean` and `evaluation_rows`, and may check a design as a whole in `check`.
    In all of these, latents have a leading axis `size`; covariates have shape `[rows]`, shared by all draws,
    or `[size, rows]`.

    Attributes:
        name: Key in `SIMULATORS`.
        description: The environment in words of its domain.
        plain_description: The environment without domain knowledge.
        question: What the goal of prediction asks, in words of the domain.
        plain_question: The same without domain knowledge.
        fields: What a design consists of.
        columns: Covariates of an observed row, then the response; all identifiers.
        response: The last of `columns`.
        units: Column name to unit.
        response_kind: `"continuous"`, `"count"` or `"binary"`.
        rounding: Spacing of the values of a continuous response, or `None` if they are exact.
        limits: Where a continuous response is cut off: `"lower"`, `"upper"`, both or neither.
        rows_per_design: Rows that one observation yields.
        total: What a count response is out of: a number, or the name of a covariate; `None` if it has no
            limit.
        index_column: Which column numbers those rows, where there are several.
        repeatable: Whether a design observed again gives a new response; if not, it gives the same one.
        independent_latents: Whether all real numbers among the latents are independent a priori.
        variant: The definition in use.
    """

    name: ClassVar[str]
    description: str
    plain_description: str
    question: ClassVar[str]
    plain_question: ClassVar[str] = "What is the response at new inputs?"
    fields: tuple[DesignField, ...]
    columns: tuple[str, ...]
    units: Mapping[str, str]
    response_kind: Literal["continuous", "count", "binary"]
    rounding: float | None = None
    limits: ClassVar[Mapping[str, float]] = {}
    total: str | int | None = None
    rows_per_design: ClassVar[int] = 1
    index_column: ClassVar[str | None] = None
    repeatable: ClassVar[bool] = True
    independent_latents: ClassVar[bool] = True

    def __init__(self, variant: Variant = "corrected") -> None:
        if variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {variant!r}")
        self.variant: Variant = variant
        self._latents: dict[str, Array] = {}
        self._streams: dict[str, np.random.Generator] = {}

    # instances

    def reset(self, seed: int) -> None:
        """Starts a new instance: draws its latents and rewinds all its streams.

        Args:
            seed: Seed from 0 on; the same seed gives the same instance in every process.

        Raises:
            ValueError: If the seed is negative.
        """
        if seed < 0:
            raise ValueError(f"seed must be 0 or larger, got {seed}")
        self.seed = int(seed)
        children = np.random.SeedSequence(self.seed).spawn(5)
        latents, fixed, observations, self._evaluation_seed, designs = children
        drawn = self.sample_latents(np.random.default_rng(latents), 1)
        self._latents = {key: np.asarray(values[0]) for key, values in drawn.items()}
        self._streams = {
            "observations": np.random.default_rng(observations),
            "designs": np.random.default_rng(designs),
        }
        self.start(np.random.default_rng(fixed))

    @property
    def latents(self) -> dict[str, Array]:
        """Parameters of the current instance, without the leading axis.

        Raises:
            RuntimeError: Before the first `reset`.
        """
        self._require_instance()
        return self._latents

    @property
    def design_rng(self) -> np.random.Generator:
        """The instance's own stream of random designs.

        Raises:
            RuntimeError: Before the first `reset`.
        """
        return self._stream("designs")

    def _stream(self, name: str) -> np.random.Generator:
        self._require_instance()
        return self._streams[name]

    def _require_instance(self) -> None:
        if not self._streams:
            raise RuntimeError(f"{self.name} has no instance yet: call reset(seed) first")

    @property
    def latents_batch(self) -> dict[str, Array]:
        """Parameters of the current instance with a leading axis of one, as `simulate` takes them."""
        return {key: np.asarray(values)[None] for key, values in self.latents.items()}

    def start(self, rng: np.random.Generator) -> None:  # noqa: B027
        """Draws what an instance fixes at its start besides its latents; nothing by default.

        Args:
            rng: The stream for it.
        """

    @property
    def reference(self) -> str:
        """Name of the program in `tasks/reference` that this environment is, in its present settings."""
        return self.name

    @property
    def design_notes(self) -> str:
        """What a policy that chooses designs must be told of this instance, in one line; empty by default.

        It uses no words of the domain, since it is also shown without domain knowledge.
        """
        return ""

    # designs and observations

    @property
    def response(self) -> str:
        """Name of the response column."""
        return self.columns[-1]

    def validate(self, design: object) -> Design:
        """Reads and checks a design; see `read_design` for the accepted forms.

        Args:
            design: A mapping, a sequence in the order of `fields`, JSON or other text, or a bare number;
                anything else is refused like any other mistake.

        Returns:
            Field name to value.

        Raises:
            DesignError: With one line that says what is wrong and what is allowed.
        """
        checked = read_design(design, self.fields)
        return self.check(checked)

    def check(self, design: Design) -> Design:
        """Checks a design across its fields; every field by itself is already right.

        Args:
            design: Field name to value.

        Returns:
            The design, which it may put in a normal form.

        Raises:
            DesignError: If the fields do not go together.
        """
        return design

    def observe(self, design: object) -> dict[str, Array]:
        """Performs one experiment.

        Args:
            design: As for `validate`.

        Returns:
            Column name to values `[rows_per_design]`, in the order of `columns`.

        Raises:
            DesignError: If the design is refused.
        """
        checked = self.validate(design)
        covariates = self.covariates(checked)
        return {**covariates, self.response: self.respond(checked, covariates, self._stream("observations"))}

    def respond(self, design: Design, covariates: dict[str, Array], rng: np.random.Generator) -> Array:
        """The response of the current instance to a checked design, `[rows_per_design]`.

        Args:
            design: Field name to value.
            covariates: Covariates of the rows to respond to.
            rng: Source of the noise.
        """
        drawn: Array = self.simulate(self.latents_batch, covariates, rng)[0]
        return drawn

    def random_design(self, rng: np.random.Generator) -> Design:
        """A design from the environment's own distribution of designs: uniform over its fields by default."""
        return {field.name: random_entry(field, rng) for field in self.fields}

    def random_designs(self, n: int, rng: np.random.Generator) -> list[Design]:
        """Random designs; all different where `repeatable` is false.

        Args:
            n: How many designs are drawn.
            rng: Source of them; `design_rng` is the instance's own.

        Raises:
            ValueError: If a design cannot be repeated and there are fewer than `n`.
        """
        if self.repeatable:
            return [self.random_design(rng) for _ in range(n)]
        designs = self._at_least(n)
        return [designs[index] for index in rng.permutation(len(designs))[:n]]

    def all_designs(self) -> list[Design]:
        """Every design, where all fields are whole numbers in a range.

        Raises:
            TypeError: If a field is not.
        """
        return [design for design in all_designs(self.fields) if self._is_valid(design)]

    def grid(self, n: int) -> list[Design]:
        """`n` designs spread evenly over the design space.

        Args:
            n: How many, from 1.

        Raises:
            ValueError: If `n` is below 1, or a design cannot be repeated and there are fewer than `n`.
        """
        if n < 1:
            raise ValueError(f"a grid needs at least one design, got {n}")
        if self.repeatable:
            return grid(self.fields, n)
        designs = self._at_least(n)
        return [designs[index] for index in spread(len(designs), n)]

    def _at_least(self, n: int) -> list[Design]:
        designs = self.all_designs()
        if n > len(designs):
            raise ValueError(
                f"{self.name} has {len(designs)} designs, each with one response; {n} were asked for"
            )
        return designs

    def _is_valid(self, design: Design) -> bool:
        try:
            self.check(design)
        except DesignError:
            return False
        return True

    # evaluation

    def evaluation_points(self, n: int) -> dict[str, Array]:
        """Evaluation points of this instance with their true responses.

        The same points come whenever and however often they are asked for, and fewer are a prefix of more.

        Args:
            n: Number of designs, from 1; there are `n * rows_per_design` rows.

        Returns:
            Column name to values, in the order of `columns`.

        Raises:
            ValueError: If `n` is below 1.
        """
        self._require_instance()
        if n < 1:
            raise ValueError(f"evaluation needs at least one point, got {n}")
        blocks = [self.evaluation_rows(BLOCK, rng) for rng in self._evaluation_streams(math.ceil(n / BLOCK))]
        rows = n * self.rows_per_design
        return {key: np.concatenate([block[key] for block in blocks])[:rows] for key in self.columns}

    def _evaluation_streams(self, count: int) -> Iterator[np.random.Generator]:
        parent = self._evaluation_seed
        for block in range(count):
            # by key, not by spawn(): a seed sequence counts its children, and asking twice would differ
            child = np.random.SeedSequence(parent.entropy, spawn_key=(*parent.spawn_key, block))
            yield np.random.default_rng(child)

    @abstractmethod
    def evaluation_rows(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws `n` evaluation designs and their true responses.

        Args:
            n: Number of designs.
            rng: The stream of random numbers for evaluation points.

        Returns:
            Column name to values `[n * rows_per_design]`.
        """

    # the generative model

    @abstractmethod
    def covariates(self, design: Design) -> dict[str, Array]:
        """The rows of a checked design without the response: column name to values `[rows_per_design]`."""

    @abstractmethod
    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """Draws from the prior: parameter name to values `[size, ...]`."""

    @abstractmethod
    def simulate(self, latents: Latents, covariates: Rows, rng: np.random.Generator) -> Array:
        """Draws responses given latents, `[size, rows]`."""

    @abstractmethod
    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """Log probability of responses, or log density if they are continuous and exact, `[size, rows]`.

        Args:
            latents: Parameters `[size, ...]`.
            covariates: Rows `[rows]` or `[size, rows]`.
            response: Values `[rows]` or `[size, rows]`.
        """

    @abstractmethod
    def mean(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Expected response given latents, `[size, rows]`: the prediction of an oracle."""

    def errors(self, prediction: ArrayLike, truth: ArrayLike) -> FloatArray:
        """The environment's own error of each row; squared error by default.

        Args:
            prediction: Predicted responses; for a binary response the probability of 1.
            truth: Responses of the same shape.
        """
        predicted, actual = np.asarray(prediction, dtype=np.float64), np.asarray(truth)
        if self.response_kind == "binary":
            return np.asarray((predicted > 0.5) != actual, dtype=np.float64)
        return np.asarray((predicted - actual) ** 2)

    # goals

    @property
    def goals(self) -> dict[str, Goal]:
        """What can be asked: `"prediction"`, and each parameter goal by its name."""
        goals = [prediction_goal(self.question, self.plain_question, self.errors), *self.parameter_goals()]
        return {goal.name: goal for goal in goals}

    def parameter_goals(self) -> list[Goal]:
        """The goals besides prediction; none by default."""
        return []
