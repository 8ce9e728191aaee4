"""What requests hold, checked before anything is done with it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from synthstats_lightning.scoring.settings import LastScore

MOST_ROWS = 100_000
"""Rows of a column that a request holds."""
MOST_SIMULATED = 2_000
"""Observations, held-out points and experiments that a simulator makes for a request."""
MOST_SEED = 2**31 - 1
Number = int | float
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Simulated = Annotated[int, Field(ge=0, le=MOST_SIMULATED)]


class Message(BaseModel):
    """What every message has: no unknown keys, and numbers that are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class DataTask(Message):
    """A data set of the client's own; see `Task` for what the keys mean."""

    name: str = "task"
    description: str = ""
    data: dict[str, Annotated[list[Number], Field(min_length=1, max_length=MOST_ROWS)]]
    response: str
    units: dict[str, str] | None = None
    shown_rows: int = 0
    response_kind: str | None = None
    rounding: float | None = None
    held_out: int = 0
    total: str | int | None = None
    ranges: dict[str, tuple[float, float]] | None = None
    plain_description: str | None = None
    domain_knowledge: bool = True
    quantities: dict[str, str] | None = None
    limits: dict[str, float] | None = None
    response_transform: str | None = None
    censoring: dict[str, str] | None = None
    ordered: list[str] = []


class InstanceTask(Message):
    """Observations of an instance of a simulated environment; see `SimulatedTask` for what the keys mean."""

    simulator: str
    seed: Seed = 0
    num_observations: Simulated | None = None
    design: Literal["random", "grid"] = "random"
    held_out: Simulated = 0
    shown_rows: int = 0
    goal: str = "prediction"
    domain_knowledge: bool = True
    response_range: Literal["observed", "prior"] = "observed"


class EpisodeTask(Message):
    """An instance to experiment on; see `ExperimentTask` for what the keys mean."""

    simulator: str
    seed: Seed = 0
    experiments: Simulated = 5
    turns: Annotated[int, Field(ge=1, le=MOST_SIMULATED)] | None = None
    evaluation_points: Annotated[int, Field(ge=1, le=MOST_SIMULATED)] = 10
    thoughts: Literal["none", "latent", "stripped"] = "none"
    domain_knowledge: bool = True


def _kind(task: Any) -> str | None:
    """Which kind of a task a request means, so that what is wrong with it is said of that kind alone."""
    if isinstance(task, str | DataTask | InstanceTask | EpisodeTask):
        return "name" if isinstance(task, str) else type(task).__name__
    if isinstance(task, dict):
        return "InstanceTask" if "simulator" in task and "data" not in task else "DataTask"
    return None


def _episode_kind(task: Any) -> str | None:
    kind = _kind(task)
    return kind if kind in (None, "name") else "EpisodeTask"


WRONG_KIND = {
    "custom_error_type": "task",
    "custom_error_message": "Input should be a task's name or an object",
}


class ScoreRequest(Message):
    """One program to score.

    Attributes:
        task: Name of a task that the server has, or the task itself.
        program: Source text of the program.
        scores: Which scores are wanted; all that the server computes by default.
    """

    task: Annotated[
        Annotated[str, Tag("name")]
        | Annotated[DataTask, Tag("DataTask")]
        | Annotated[InstanceTask, Tag("InstanceTask")],
        Discriminator(_kind, **WRONG_KIND),
    ]
    program: str
    scores: Annotated[list[LastScore], Field(min_length=1)] | None = None


class RolloutRequest(Message):
    """One episode: as a policy writes it, or as designs and a program.

    Attributes:
        task: Name of a simulated environment, or the task itself.
        turns: What a policy wrote in each turn; instead of `experiments` and `program`.
        experiments: Designs to observe, in order.
        program: Source text that is submitted after them; without one the episode is not over.
        predictions: Whether the program's predictions of the evaluation points are wanted.
    """

    task: Annotated[
        Annotated[str, Tag("name")] | Annotated[EpisodeTask, Tag("EpisodeTask")],
        Discriminator(_episode_kind, **WRONG_KIND),
    ]
    turns: list[str] | None = None
    experiments: list[Any] | None = None
    program: str | None = None
    predictions: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> "RolloutRequest":
        if (self.turns is None) == (self.experiments is None and self.program is None):
            raise ValueError("give either turns, or experiments and program")
        return self
