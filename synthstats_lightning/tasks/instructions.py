"""Rules for models that follow instructions: what counts, which distributions exist and what fails.

Names come from the tables that the scorer itself reads, so that the text never promises what it lacks.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import REFUSED, FailureCategory

Instructions = Literal["short", "full"]
"""What both prompts say of programs: their shape alone, or also what counts, what exists and what fails."""

RULES = """\
Write one PyMC program that models the response of a data set.
Answer with Python source only, a single `with pm.Model() as model:` block.
In scope: pm, np, pt (pytensor.tensor), math and every column by its own name, a NumPy array.
The response may be used only as `observed=`. Give every parameter a proper prior. Do not sample."""

COUNTS = """\
What counts: how probable the program makes the response, its parameters averaged over their priors.
Priors far wider than the data need and parameters that explain nothing cost; a better mean, distribution,
link or grouping gains. A program that fails earns less than any that has a score."""

GROUPS: dict[str, tuple[Support, ...]] = {
    "any number": (Support.REAL,),
    "positive": (Support.POSITIVE, Support.ABOVE),
    "between 0 and 1": (Support.UNIT,),
    "between bounds": (Support.INTERVAL, Support.CIRCLE),
    "counts": (Support.NATURAL, Support.POSITIVE_COUNT, Support.INTEGER_RANGE),
    "counts out of a total": (Support.COUNT_TO,),
    "yes or no, categories": (Support.BINARY, Support.CATEGORIES),
}
"""What a prompt calls distributions of one number, by the values that they may take."""

VECTORS = "vectors and matrices"
PYMC_NAMES = {"ZeroSumMatrix": "ZeroSumNormal", "LKJCorrCholesky": "LKJCholeskyCov"}
"""What the table calls otherwise than PyMC does."""
MADE_OF_THEM = {
    "Mixture": ("Mixture", "NormalMixture", "ZeroInflatedPoisson", "ZeroInflatedNegativeBinomial"),
    "Hurdle": ("HurdlePoisson", "HurdleNegativeBinomial", "HurdleGamma", "HurdleLogNormal"),
    "Truncated": ("Truncated", "TruncatedNormal"),
    "Censored": ("Censored",),
    "RandomWalk": ("RandomWalk", "GaussianRandomWalk"),
    "AR": ("AR",),
    "LKJCholeskyCov": ("LKJCholeskyCov",),
    "Ordered": ("OrderedLogistic", "OrderedProbit"),
    "Exponentiated": (),
}
"""Composite distributions of a model graph to what makes them in PyMC: the last is that of a logarithm."""

FAILS = {
    FailureCategory.TRUNCATED: "an answer that does not end",
    FailureCategory.SYNTAX: "text that is not Python",
    FailureCategory.RAISED: "source that raises an error",
    FailureCategory.TIMEOUT: "waiting",
    FailureCategory.MEMORY: "arrays too large for memory",
    FailureCategory.CPU: "long loops",
    FailureCategory.BAD_GRAPH: "no model, or not exactly one response that is observed once",
    FailureCategory.UNSUPPORTED: "what the scorer lacks, as pm.Potential and pm.DensityDist",
    FailureCategory.SCORER_LIMIT: "models that cannot be integrated in time",
    FailureCategory.NON_FINITE: "a score that is not finite",
    FailureCategory.UNBOUNDED: "a noise scale that may vanish",
    FailureCategory.IMPROPER: "densities that are not normalised",
    FailureCategory.MEMORISED: "constants that repeat the response",
}
"""What a program's text can fail by, in the words of the prompt."""


@cache
def full_rules() -> str:
    """The rules with what counts, what exists and what fails."""
    lines = [RULES, COUNTS, "Distributions, by PyMC's names:"]
    for group, names in distribution_names().items():
        lines.append(f"- {group}: {', '.join(names)}")
    lines.append("Discrete parameters are summed out where they take few values.")
    refused = (f"pm.{name} ({reason})" for name, reason in REFUSED.items())
    lines.append(f"What fails: {'; '.join((*FAILS.values(), *refused))}.")
    return "\n".join(lines)


@cache
def distribution_names() -> dict[str, tuple[str, ...]]:
    """Names of distributions as a program writes them behind `pm.`, by what they are of."""
    found: dict[str, list[str]] = {group: [] for group in (*GROUPS, VECTORS)}
    group_of = {support: group for group, supports in GROUPS.items() for support in supports}
    for name, law in DISTRIBUTIONS.items():
        group = VECTORS if law.event_rank else group_of[law.support]
        if (spelled := PYMC_NAMES.get(name, name)) not in found[group]:
            found[group].append(spelled)
    known = {name for names in found.values() for name in names}
    made = [name for names in MADE_OF_THEM.values() for name in names if name not in known]
    return {group: tuple(names) for group, names in {**found, "made of these": made}.items()}


def rules(instructions: str) -> str:
    """What a prompt says of programs.

    Args:
        instructions: How much, one of `Instructions`.
    """
    return full_rules() if instructions == "full" else RULES
