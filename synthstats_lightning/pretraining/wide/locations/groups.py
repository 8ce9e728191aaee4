"""Effects of categories and groups: apart, pooled, with slopes, crossed and nested."""

from __future__ import annotations

from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.locations.form import Form
from synthstats_lightning.pretraining.wide.locations.terms import other_terms, regressor
from synthstats_lightning.pretraining.wide.request import MOST_LEVELS, num_levels
from synthstats_lightning.tasks.columns import Column

MOST_APART = 8
"""Levels at most of a category whose effects share nothing."""
SPREAD = 0.3
"""Typical spread of groups, in lengths of the location's range."""


def group_effects(draft: Draft, group: Column, stem: str = "u", share: float = SPREAD) -> str:
    """States pooled effects of groups and returns the term of each row.

    Args:
        draft: The program so far.
        group: The column of codes.
        stem: What the effects' name is made of.
        share: Typical spread, in lengths of the location's range.
    """
    effects = draft.pooled(stem, str(num_levels(group)), share * draft.target.span)
    return f"{effects}[{group.name}]"


def write_categories(draft: Draft) -> str:
    """An effect for each level of a category, of a fixed scale, perhaps with slopes.

    Args:
        draft: The program so far.
    """
    column = draft.rng.choice(_apart(draft))
    level = draft.level()
    scale = text(coarse(0.4 * draft.target.span))
    effects = draft.state("g", f"Normal(0, {scale}, shape={num_levels(column)})")
    return plus(level, f"{effects}[{column.name}]", *other_terms(draft, {column.name}, 3))


def write_pooled(draft: Draft) -> str:
    """An effect for each group, of a scale that is learned, perhaps with slopes.

    Args:
        draft: The program so far.
    """
    group = draft.rng.choice(draft.request.pools)
    level = draft.level()
    return plus(level, group_effects(draft, group), *other_terms(draft, {group.name}, 3))


def write_varying_slopes(draft: Draft) -> str:
    """An effect and a slope for each group.

    Args:
        draft: The program so far.
    """
    rng = draft.rng
    group, column = rng.choice(_with_slopes(draft))
    level = draft.level()
    term = group_effects(draft, group)
    axis = regressor(draft, column)
    slope = draft.change(axis.span)
    spread = SPREAD * draft.target.span / axis.span
    slopes = draft.pooled("v", str(num_levels(group)), spread)
    others = other_terms(draft, {group.name, column.name}, 2)
    draft.features.add("interaction")
    return plus(level, term, f"({slope} + {slopes}[{group.name}])*{axis.expression}", *others)


def write_crossed(draft: Draft) -> str:
    """Effects of two columns of groups.

    Args:
        draft: The program so far.
    """
    first, second = _two(draft)
    level = draft.level()
    terms = group_effects(draft, first), group_effects(draft, second, "v")
    return plus(level, *terms, *other_terms(draft, {first.name, second.name}))


def write_nested(draft: Draft) -> str:
    """Effects of groups and of the groups within each of them, whose codes begin anew.

    Args:
        draft: The program so far.
    """
    outer, inner = draft.rng.choice(_nestable(draft))
    level = draft.level()
    term = group_effects(draft, outer)
    number = num_levels(inner)
    effects = draft.pooled("v", f"{num_levels(outer)}*{number}", 0.2 * draft.target.span)
    others = other_terms(draft, {outer.name, inner.name})
    return plus(level, term, f"{effects}[{outer.name}*{number} + {inner.name}]", *others)


def write_item_response(draft: Draft) -> str:
    """Abilities, and for each item a difficulty and how well it tells abilities apart.

    Args:
        draft: The program so far.
    """
    persons, items = _two(draft)
    ability = draft.state("u", f"Normal(0, 1, shape={num_levels(persons)})")
    number = num_levels(items)
    difficulty = draft.pooled("v", str(number), 1.0)
    sharpness = draft.state("k", f"LogNormal(0, 0.5, shape={number})")
    return f"{sharpness}[{items.name}]*({ability}[{persons.name}] - {difficulty}[{items.name}])"


def write_comparison(draft: Draft) -> str:
    """The difference of two contestants' strengths, perhaps with an advantage of the first.

    Args:
        draft: The program so far.
    """
    first, second = draft.rng.choice(_alike(draft))
    advantage = draft.change(3.0) if draft.rng.random() < 0.5 else ""
    effects = draft.pooled("u", str(num_levels(first)), 0.35 * draft.target.span)
    return plus(advantage, f"{effects}[{first.name}] - {effects}[{second.name}]")


def _apart(draft: Draft) -> list[Column]:
    return [column for column in draft.request.indices if num_levels(column) <= MOST_APART]


def _two(draft: Draft) -> tuple[Column, Column]:
    pools = draft.request.pools
    first, second = draft.rng.sample(range(len(pools)), 2)
    return pools[first], pools[second]


def _nestable(draft: Draft) -> list[tuple[Column, Column]]:
    return [
        (outer, inner)
        for outer in draft.request.pools
        for inner in draft.request.indices
        if outer is not inner
        and num_levels(outer) * num_levels(inner) <= min(2 * MOST_LEVELS, draft.request.num_rows / 2)
    ]


def _alike(draft: Draft) -> list[tuple[Column, Column]]:
    """Two columns of codes of the same things, in every way."""
    pools = draft.request.pools
    return [
        (first, second)
        for place, first in enumerate(pools)
        for second in pools[place + 1 :]
        if num_levels(first) == num_levels(second) and first.levels == second.levels
    ]


def _with_slopes(draft: Draft) -> list[tuple[Column, Column]]:
    return [
        (group, column)
        for group in draft.request.pools
        for column in draft.request.numeric
        if column.name != group.name
    ]


POOLED = ("hierarchy",)
FORMS = {
    "categories": Form(
        lambda draft: bool(_apart(draft)),
        write_categories,
        "an effect of each level of a category",
        groups=True,
    ),
    "pooled": Form(
        lambda draft: bool(draft.request.pools), write_pooled, "effects of groups, pooled", POOLED, True
    ),
    "varying_slopes": Form(
        lambda draft: bool(_with_slopes(draft)),
        write_varying_slopes,
        "effects and slopes of groups, pooled",
        POOLED,
        True,
    ),
    "crossed": Form(
        lambda draft: len(draft.request.pools) >= 2,
        write_crossed,
        "pooled effects of two groupings",
        POOLED,
        True,
    ),
    "nested": Form(
        lambda draft: bool(_nestable(draft)),
        write_nested,
        "pooled effects of groups within groups",
        POOLED,
        True,
    ),
    "item_response": Form(
        lambda draft: draft.request.response.kind == "binary" and len(draft.request.pools) >= 2,
        write_item_response,
        "abilities of persons, difficulty and discrimination of items",
        (*POOLED, "interaction"),
        True,
    ),
    "comparison": Form(
        lambda draft: draft.intercept and bool(_alike(draft)) and draft.target.low < 0 < draft.target.high,
        write_comparison,
        "differences of two contestants' strengths",
        POOLED,
        True,
    ),
}
