"""A population of programs that is bred: new ends by the policy, edits by the grammar, crossover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from synthstats_lightning.searchers.edits.crossover import crossed
from synthstats_lightning.searchers.edits.mutations import mutated
from synthstats_lightning.searchers.proposal import Proposal, Scored
from synthstats_lightning.searchers.searcher import Searcher

Effort = Literal["low", "medium", "high"]
Fitness = Literal["posterior", "evidence", "elpd"]
BY_POLICY: dict[str, float] = {"low": 0.1, "medium": 1 / 3, "high": 2 / 3}
"""Effort of the proposer to the share of children whose ends the policy writes anew."""
ATTEMPTS = 10
"""Edits that are tried for a child that the search has not seen yet."""


class Evolution(Searcher):
    """Breeds programs: the fittest of parents and children are the next parents.

    The first generation are draws of the policy, with which others' programs compete. A child is a parent's
    beginning with another end by the policy, a parent with one edit of its text by the grammar, or a
    crossover of the statements of two. Of programs with equal canonical form one is a parent.

    Args:
        population_size: Parents, and children of each generation.
        num_generations: Generations, the first one included; by default as many as the budget pays for.
        rollout_budget: Distinct programs that are scored at most; by default what the run's budget says.
        proposer_effort: How much the policy is asked: it writes the ends of a tenth (`"low"`), a third
            (`"medium"`) or two thirds (`"high"`) of the children.
        crossover_share: Share of the other children that have two parents.
        tournament_size: Programs of the population of which the fittest becomes a parent.
        fitness: What is bred for: prior times evidence (`"posterior"`), the `"evidence"`, or the `"elpd"`,
            which the run's reward must then be.

    Raises:
        ValueError: If a number is out of range, or there is no such effort or fitness.
    """

    log_z_from: ClassVar[str] = (
        "nothing: what breeding proposes has no known probability. Prior times evidence summed over what was"
        " found is a lower bound"
    )

    def __init__(
        self,
        population_size: int = 64,
        num_generations: int | None = None,
        rollout_budget: int | None = None,
        proposer_effort: Effort = "medium",
        crossover_share: float = 0.3,
        tournament_size: int = 3,
        fitness: Fitness = "posterior",
    ) -> None:
        counts = {"num_generations": num_generations, "rollout_budget": rollout_budget}
        counts |= {"population_size": population_size, "tournament_size": tournament_size}
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if proposer_effort not in BY_POLICY:
            raise ValueError(
                f"proposer_effort must be one of {', '.join(BY_POLICY)}, got {proposer_effort!r}"
            )
        if fitness not in get_args(Fitness):
            raise ValueError(f"fitness must be one of {', '.join(get_args(Fitness))}, got {fitness!r}")
        if not 0 <= crossover_share <= 1:
            raise ValueError(f"crossover_share must be from 0 to 1, got {crossover_share}")
        self.population_size, self.num_generations = population_size, num_generations
        self.rollout_budget, self.proposer_effort = rollout_budget, proposer_effort
        self.crossover_share, self.tournament_size = crossover_share, tournament_size
        self.fitness: Fitness = fitness
        self.generation = 0
        self.population: list[Scored] = []
        self._seen: set[str] = set()

    @property
    def most_programs(self) -> int | None:
        """The rollout budget."""
        return self.rollout_budget

    def ask(self) -> list[Proposal]:
        """The next generation: draws of the policy until one has a score, then children."""
        if self.num_generations is not None and self.generation >= self.num_generations:
            return []
        if self.generation == 0 or not self.population:
            return self.writer.draw(self.population_size)
        return self._children(self.population_size)

    def tell(self, scored: Sequence[Scored]) -> None:
        """Selects the next parents among these and the present ones.

        Args:
            scored: The last generation.
        """
        self.generation += 1
        self._select(scored)

    def learn(self, scored: Sequence[Scored]) -> None:
        """Has others' programs compete with the first generation.

        Args:
            scored: Programs of others with their scores.
        """
        self._select(scored)

    def _select(self, scored: Sequence[Scored]) -> None:
        self._seen |= {each.proposal.source for each in scored}
        able = [each for each in (*self.population, *scored) if self.fitness_of(each) > -math.inf]
        able.sort(key=self.fitness_of, reverse=True)  # stable: the earlier of equals stays
        kept: dict[str, Scored] = {}
        for each in able:
            kept.setdefault(each.score.canonical or each.proposal.source, each)
        self.population = list(kept.values())[: self.population_size]

    def fitness_of(self, each: Scored) -> float:
        """What a program is bred for, in nats; -inf where it cannot be a parent.

        Args:
            each: A program with its score.
        """
        if self.fitness == "posterior":
            return each.log_target
        if self.fitness == "evidence":
            return each.log_evidence
        elpd = each.score.elpd if each.score.scored else None
        return -math.inf if elpd is None else float(elpd)

    def _children(self, number: int) -> list[Proposal]:
        edited: list[str] = []
        for _ in range(number):
            if self.random.random() >= BY_POLICY[self.proposer_effort]:
                child = self._edited(set(edited))
                edited += [] if child is None else [child]
        children = [child for child in self.writer.read(edited) if child is not None] if edited else []
        parents = [self._parent().proposal for _ in range(number - len(children))]
        return children + (self.rewritten(parents) if parents else [])

    def _edited(self, siblings: set[str]) -> str | None:
        """A text that is new to the search; `None` if no attempt finds one."""
        for _ in range(ATTEMPTS):
            parent = self._parent().proposal.source
            if self.random.random() < self.crossover_share:
                child = crossed(parent, self._parent().proposal.source, self.task, self.random)
            else:
                child = mutated(parent, self.task, self.random)
            if child is not None and child not in self._seen and child not in siblings:
                return child
        return None

    def _parent(self) -> Scored:
        rivals = [self.random.randrange(len(self.population)) for _ in range(self.tournament_size)]
        return self.population[min(rivals)]  # the population is in order of fitness
