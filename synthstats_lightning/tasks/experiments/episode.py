"""One episode: experiments on an instance of a simulator, then a program."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.tasks.experiments.actions import ActionError, Submit, parse_action
from synthstats_lightning.tasks.experiments.messages import NONE_LEFT, Observed, observation, plain, refusal
from synthstats_lightning.tasks.simulators import Design, DesignError, Simulator
from synthstats_lightning.tasks.task import Task

Kind = Literal["observe", "submit", "invalid", "over_budget", "cut"]


class EpisodeState(TypedDict):
    """An episode in primitive types.

    Attributes:
        turns: What the policy wrote in turns that ended.
        cut: What it wrote of a turn that did not, and why that was cut; `None` if all ended.
    """

    turns: list[str]
    cut: tuple[str, str] | None


@dataclass(frozen=True)
class Turn:
    """What happened in a turn.

    Attributes:
        text: What the policy wrote.
        kind: An experiment, a submission, an action that could not be done, an experiment beyond the budget,
            or a turn that did not end.
        answer: What the environment said; empty if the episode was over.
        design: What was to be observed, where the action was an experiment.
    """

    text: str
    kind: Kind
    answer: str = ""
    design: Design | None = None


@runtime_checkable
class EpisodeTask(Protocol):
    """What an episode is an episode of: `ExperimentTask`.

    Attributes:
        simulator: The instance that experiments are performed on.
        experiments: Budget of an episode.
        turns: Budget of an episode, the submission included.
    """

    simulator: Simulator
    experiments: int
    turns: int

    def read_design(self, design: Any) -> Design:
        """A design that the policy wrote, checked."""
        ...

    def shown(self, rows: Observed) -> Observed:
        """Rows under the names that the prompt gives their columns."""
        ...

    def given(self, episode: ExperimentEpisode) -> Task:
        """The data that an episode's program is scored on."""
        ...

    def holding_out(self, data: Observed, rows: int) -> Task:
        """Other data of the same environment, of which the last rows are held out."""
        ...


class ExperimentEpisode:
    """A policy's experiments on the instance of a task; see `ExperimentTask` for the rules.

    What it observes depends on the instance and on the designs so far: the same turns get the same answers.

    Args:
        task: What it is an episode of.

    Attributes:
        task: The task that the episode belongs to.
        turns: What happened so far.
        observed: Rows of each experiment, in order: column name to values.
        program: What was submitted; empty if nothing was.
        failure: Why the episode ended without a program, with one line; `None` if it did not.
    """

    def __init__(self, task: EpisodeTask) -> None:
        self.task = task
        self.turns: list[Turn] = []
        self.observed: list[Observed] = []
        self.program = ""
        self.failure: tuple[FailureCategory, str] | None = None
        self._simulator: Any = None
        self._cut: tuple[str, str] | None = None

    @property
    def designs(self) -> list[Design]:
        """Designs of the experiments, in order."""
        return [turn.design for turn in self.turns if turn.design is not None]

    @property
    def experiments_left(self) -> int:
        """Of the budget."""
        return self.task.experiments - len(self.observed)

    @property
    def turns_left(self) -> int:
        """Of the budget."""
        return self.task.turns - len(self.turns)

    @property
    def over(self) -> bool:
        """Whether a program was submitted or the episode ended without one."""
        return bool(self.program) or self.failure is not None

    def answer(self, turn: str) -> str | None:
        """The environment's answer to the policy's next turn, or `None` if the episode is over.

        Args:
            turn: What the policy wrote, without the stop token.

        Raises:
            RuntimeError: If the episode was over before.
        """
        if self.over:
            raise RuntimeError("the episode is over: nothing can be said any more")
        left = self.turns_left - 1
        try:
            action = parse_action(turn)
            if isinstance(action, Submit):
                self.program = action.source
                self.turns.append(Turn(turn, "submit"))
                return None
            if not self.experiments_left:
                return self._end_or(Turn(turn, "over_budget", refusal(NONE_LEFT, left)))
            design = self.task.read_design(action.design)
        except ActionError as error:
            return self._end_or(Turn(turn, "invalid", refusal(str(error), left)))
        except DesignError as error:
            return self._end_or(Turn(turn, "invalid", refusal(plain(str(error)), left)))
        self.observed.append(self._observe(design))
        answer = observation(self.task.shown(self.observed[-1]), self.experiments_left)
        return self._end_or(Turn(turn, "observe", answer, design))

    def cut(self, turn: str, reason: str) -> None:
        """Ends the episode with the failure `TRUNCATED`.

        Args:
            turn: What the policy had written of its turn; empty if it could not begin one.
            reason: Why the episode ends, in one line.
        """
        self._cut = turn, reason
        self.failure = (FailureCategory.TRUNCATED, f"turn {len(self.turns) + 1}: {reason}")
        if turn:
            self.turns.append(Turn(turn, "cut"))

    def state(self) -> EpisodeState:
        """What the policy wrote: with it `ExperimentTask.replay` makes the same episode again."""
        return {"turns": [turn.text for turn in self.turns if turn.kind != "cut"], "cut": self._cut}

    def _observe(self, design: Design) -> Observed:
        if self._simulator is None:
            self._simulator = copy.deepcopy(self.task.simulator)
        rows: Observed = self._simulator.observe(design)
        return rows

    def _end_or(self, turn: Turn) -> str | None:
        """Takes a turn; its answer if there is another turn, otherwise the failure."""
        self.turns.append(turn)
        if self.turns_left > 0:
            return turn.answer
        beyond = sum(turn.kind == "over_budget" for turn in self.turns)
        count = f"{len(self.turns)} turns"
        if beyond:
            why = f"{count} without a program, {beyond} of them for experiments beyond the budget"
            self.failure = (FailureCategory.EXPERIMENTS, why)
        else:
            self.failure = (FailureCategory.TURNS, f"{count} without a program")
        return None
