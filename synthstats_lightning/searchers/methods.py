"""Every way of searching by its name: a command, a configuration, and what a budget makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthstats_lightning.runtime.shipped import shipped_configs

FRESH_SHARE = 0.25
"""Share of a budget that methods which train keep for fresh programs at the end."""
WARMUP_SHARE = 1 / 3
"""Share of the rest that is scored before the first training step."""
PER_STEP = 4
"""Programs that are scored for each training step after that."""
PARTICLE_SHARE = 0.25
"""Share of a budget that sequential Monte Carlo has as particles: what goes beyond only moves them."""
ROUND_STEPS = 4
"""Training steps from one round of programs to the next."""
NOT_FOR_PROGRAMS = frozenset({"supervised", "action_sub_trajectory_balance"})
"""Objectives that learn from given programs, or from episodes."""


@dataclass(frozen=True)
class Method:
    """A way of searching.

    Attributes:
        name: What it is called.
        command: The subcommand that runs it: `search`, or `fit` where it trains the policy.
        overlay: Name of its configuration.
    """

    name: str
    command: str
    overlay: str

    @property
    def trains(self) -> bool:
        """Whether it trains the policy."""
        return self.command == "fit"


def methods() -> dict[str, Method]:
    """Every method by its name: those of `configs/searchers`, then the objectives that `fit` can take."""
    found = {}
    for room, command in (("searchers", "search"), ("objective", "fit")):
        for path in sorted((shipped_configs() / room).glob("*.yaml")):
            if path.stem not in NOT_FOR_PROGRAMS:
                found[path.stem] = Method(path.stem, command, f"{room}/{path.stem}")
    return found


def named_method(name: str) -> Method:
    """The method of a name.

    Args:
        name: A name of `methods`.

    Raises:
        ValueError: If there is none.
    """
    known = methods()
    if name not in known:
        raise ValueError(f"method must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def budget_overlay(method: Method, programs: int) -> tuple[dict[str, Any], int | None]:
    """A configuration by which a method has no more distinct programs scored than a budget, and its steps.

    A method that trains keeps a quarter for fresh programs of the trained policy, which estimate what it has
    not found, has a third of the rest scored before it trains, and takes a step for every four that follow;
    programs that come again cost nothing. Particles are a quarter of it.

    Args:
        method: The way of searching.
        programs: Distinct programs of all tasks together.

    Returns:
        The configuration, and training steps; `None` for a method that does not train.

    Raises:
        ValueError: If the budget is too small for a method that trains.
    """
    if programs < 1:
        raise ValueError(f"programs must be at least 1, got {programs}")
    if not method.trains:
        found: dict[str, Any] = {"scoring": {"max_programs": programs}}
        if method.name == "model_smc":
            particles = max(2, int(PARTICLE_SHARE * programs))
            found["search"] = {"method": {"init_args": {"num_particles": particles}}}
        return found, None
    fresh = int(FRESH_SHARE * programs)
    trained = programs - fresh
    warmup = int(WARMUP_SHARE * trained)
    steps = (trained - warmup) // PER_STEP
    if steps < ROUND_STEPS:
        raise ValueError(f"programs must be at least 32 for {method.name}, which trains, got {programs}")
    scoring = {
        "max_programs": trained,
        "warmup_programs": warmup,
        "programs_per_step": PER_STEP * ROUND_STEPS,
        "every_n_steps": ROUND_STEPS,
    }
    return {"scoring": scoring, "report": {"num_programs": fresh}}, steps
