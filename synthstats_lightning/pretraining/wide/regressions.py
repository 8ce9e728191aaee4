"""The regressions that an analyst would write first, in the words of the grammar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from synthstats_lightning.pretraining.draft import Axis, raw_axis
from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.locations.groups import MOST_APART, group_effects
from synthstats_lightning.pretraining.wide.locations.sums import MOST
from synthstats_lightning.pretraining.wide.locations.terms import REACH
from synthstats_lightning.pretraining.wide.request import MOST_LEVELS, Request, num_levels, request_of
from synthstats_lightning.pretraining.wide.responses import FAMILIES, family_weights
from synthstats_lightning.pretraining.wide.weights import WEIGHTS
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest.digest import CLEAR, Digest, task_digest
from synthstats_lightning.tasks.task import Task

FIRST = (
    *("known_errors", "Beta", "HurdleGamma", "HurdleLogNormal"),
    *("LogNormal", "Normal", "Gamma", "StudentT"),
    *("NegativeBinomial", "Poisson", "Binomial", "BetaBinomial", "Bernoulli", "OrderedLogistic"),
)
"""Families of a response in the order in which an analyst would try them."""
FIRST_OF_TIMES = ("LogNormal", "Weibull", "Gamma")
"""Those of a positive response that was cut short in some rows, at its upper end alone: before all others."""
MOST_FAMILIES = 3
"""Families that are tried of one response."""
MOST_GROUPS = 3
"""Columns of groups that a regression has effects of at most."""
MOST_UNITS = 600
"""Groups at most, of subjects and the like, whose effects a regression has; the grammar has fewer."""
PLAIN = replace(WEIGHTS, real_priors={"Normal": 1.0}, positive_priors={"Exponential": 1.0}, standardised=1.0)
"""One family of priors each, that of scales with a long tail, and every number standardised."""
GROUP_STEMS = ("u", "v", "w")


class _Typical(Random):
    """Draws nothing: every choice is a typical one, and constants are those that their jitter is around."""

    def random(self) -> float:
        """A little above the middle."""
        return 0.6

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """The centre."""
        return mu


def regressions(task: Task, most_families: int = MOST_FAMILIES) -> list[str]:
    """Regressions on the columns of a task, as programs of the grammar.

    For each of a few families that the response's kind allows: a slope of every number, standardised, and
    an effect of every category and group, up to twelve slopes and three columns of groups; the same of
    those columns alone that a least squares regression finds clear; and, where the family has a log link
    and positive columns range widely, with their logarithms. Of the groups that the grammar has too many of,
    subjects as a rule, one column has effects if it differs, and some regressions are without it. They are a
    proposal: what they weigh is up to their prior probability and their evidence, as of any other program.

    Args:
        task: Whose rows that count are looked at for which columns are clear, and nothing else of its
            response's values.
        most_families: Families of the response at most; 0 for no program.

    Returns:
        Different programs, those of all columns first; none where no column varies.

    Raises:
        ValueError: If no row of the task counts.
    """
    if not most_families:
        return []
    request, digest = request_of(task), task_digest(task, ("regression", "scan", "groups"))
    families = family_weights(request, PLAIN)
    times = FIRST_OF_TIMES if set(request.censoring) == {"upper"} and request.response.low > 0 else ()
    order = [name for name in dict.fromkeys((*times, *FIRST)) if name in families]
    found = []
    for columns, groups in _selections(request, digest):
        for family in order[:most_families]:
            found.append(_regression(request, family, columns, groups, False))
            if FAMILIES[family].link == "log" and any(_widely_positive(column) for column in columns):
                found.append(_regression(request, family, columns, groups, True))
    return list(dict.fromkeys(found))


def _selections(request: Request, digest: Digest) -> list[tuple[Sequence[Column], Sequence[Column]]]:
    """Columns with slopes and columns with effects: all, then those that are clear."""
    t = {name: abs(value) for name, value in (digest.regression or {}).items()}
    f = {each.name: each.f for each in digest.groups or ()}
    groups = [column for column in request.indices if column.levels or column.role == "group"]
    groups = sorted(groups, key=lambda column: -f.get(column.name, 0.0))[:MOST_GROUPS]
    names = {column.name for column in groups}
    slopes = [column for column in (*request.numeric, *request.binary) if column.name not in names]
    if len(slopes) > MOST:
        kept = sorted(slopes, key=lambda column: -digest.strength(column.name))[:MOST]
        slopes = [column for column in slopes if column in kept]
    clear = [column for column in slopes if t.get(column.name, 0.0) > CLEAR]
    different = [column for column in groups if f.get(column.name, 0.0) > CLEAR]
    offset = request.with_role("exposure") is not None and request.response.kind == "count"
    found = [(slopes, groups), (clear, different)]
    if units := _many_units(request, f):  # not in the reach of every family, so that one is without them
        of_all, of_clear = ([*units, *each][:MOST_GROUPS] for each in (groups, different))
        found = [(slopes, of_all), (clear, of_clear), (slopes, groups)]
    return [each for each in found if each[0] or each[1] or offset]


def _many_units(request: Request, f: Mapping[str, float]) -> list[Column]:
    """The clearest column of more groups than the grammar has, as of subjects, if they differ."""
    units = [
        column
        for column in request.covariates
        if column.role == "group"
        and MOST_LEVELS < num_levels(column) <= min(MOST_UNITS, request.num_rows / 2)
        and f.get(column.name, 0.0) > CLEAR
    ]
    return sorted(units, key=lambda column: -f[column.name])[:1]


def _widely_positive(column: Column) -> bool:
    return column.kind != "binary" and column.low > 0 and column.high > REACH * column.low


def _regression(
    request: Request, name: str, columns: Sequence[Column], groups: Sequence[Column], logarithms: bool
) -> str:
    family = FAMILIES[name]
    draft = Draft(_Typical(), request, PLAIN, family.target(request), family.link, intercept=family.intercept)
    terms = [draft.level()]
    for column in columns:
        if column.kind == "binary":
            axis = raw_axis(column)
        else:
            axis = _logarithm(column) if logarithms and _widely_positive(column) else draft.axis(column)
        terms.append(f"{draft.change(axis.span, len(columns))}*{axis.expression}")
    stems = iter(GROUP_STEMS)
    apart = next((column for column in groups if num_levels(column) <= MOST_APART), None)
    for column in groups:
        if column is apart:
            scale = text(coarse(0.4 * draft.target.span))
            effects = draft.state("g", f"Normal(0, {scale}, shape={num_levels(column)})")
            terms.append(f"{effects}[{column.name}]")
        else:
            terms.append(group_effects(draft, column, next(stems)))
    family.write(draft, draft.define("mu", plus(*terms)))
    return draft.source


def _logarithm(column: Column) -> Axis:
    return Axis(f"pt.log({column.name})", math.log(column.low), math.log(column.high))
