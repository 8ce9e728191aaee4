"""Made-up requests: what a table may hold, in the layouts that tables have."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from synthstats_lightning.pretraining.datasets import made_up_covariate, made_up_response
from synthstats_lightning.pretraining.wide.draft import choice
from synthstats_lightning.pretraining.wide.naming import name_with, names_of_columns
from synthstats_lightning.pretraining.wide.request import MOST_STEPS, Request
from synthstats_lightning.pretraining.wide.weights import WEIGHTS, Weights
from synthstats_lightning.programs.graph import View
from synthstats_lightning.tasks.columns import Column

MOST_COLUMNS = 16
"""Covariates of a request at most."""
FEWEST_ROWS = 10
MOST_ROWS = 300
GROUP_WORDS = ("id", "group", "site", "school", "subject", "region", "batch", "plot", "team", "litter")
LEVELS = ("low", "mid", "high", "north", "south", "east", "west", "old", "new", "red", "blue", "green")
RATINGS = ("never", "rarely", "sometimes", "often", "usually", "nearly always", "always")


class _Table:
    """A request while it is drawn.

    Args:
        rng: Source of all randomness.
        weights: How often each choice is made.
    """

    def __init__(self, rng: Random, weights: Weights) -> None:
        self.rng = rng
        self.weights = weights
        self.rows = round(FEWEST_ROWS * (MOST_ROWS / FEWEST_ROWS) ** rng.random())
        self.columns: list[Column] = []
        self.kind = choice(rng, weights.responses)
        self.total: str | int | None = None
        self.censored = ""
        self.range: tuple[float, float] | None = None
        (self.response_name,) = names_of_columns(rng, 1)

    @property
    def taken(self) -> list[str]:
        """Names that are used already."""
        return [self.response_name, *(column.name for column in self.columns)]

    def name(self, endings: tuple[str, ...]) -> str:
        """A new name that ends in one of some words."""
        return name_with(self.rng, endings, self.taken)

    def plain(self, count: int) -> None:
        """Adds covariates without a role."""
        for name in names_of_columns(self.rng, count + len(self.taken) + 1):
            if count > 0 and name not in self.taken:
                self.columns.append(made_up_covariate(self.rng, name))
                count -= 1

    def index(self, levels: int, role: str = "group") -> Column:
        """Adds codes of groups or categories."""
        told = role == "group" or self.rng.random() < 0.5
        name = self._index_name(role, told)
        while name in self.taken:
            name = self._index_name(role, told)
        words = tuple(
            f"{self.rng.choice(LEVELS)}{place}" if levels > len(LEVELS) else LEVELS[place]
            for place in range(levels)
        )
        kind = "count" if levels > 2 else "binary"
        column = Column(
            name, kind, 0.0, levels - 1.0, levels=words if told else (), role=role if told else ""
        )
        self.columns.append(column)
        return column

    def _index_name(self, role: str, told: bool) -> str:
        name = self.name(GROUP_WORDS if role == "group" else ("type", "kind", "class"))
        if not told or name.endswith("_code") or self.rng.random() < 0.3:
            return name
        return f"{name}_code"

    def number(self, endings: tuple[str, ...], kind: str, low: float, high: float, role: str = "") -> Column:
        """Adds a number with its range."""
        column = Column(self.name(endings), kind, low, high, role=role)
        self.columns.append(column)
        return column


def _regression(table: _Table) -> None:
    table.plain(table.rng.choices(range(1, 13), (30, 20, 14, 10, 6, 5, 4, 3, 3, 2, 2, 1))[0])
    if table.rng.random() < 0.25:
        table.index(table.rng.choice((3, 3, 4, 5, 8)), role="")


def _predictors(table: _Table, none: float, grouped: float) -> None:
    """Adds what may explain the response beside a total or an exposure: nothing, covariates or groups.

    Args:
        table: The request while it is drawn.
        none: Chance that there is nothing else, as in a table of operations and deaths.
        grouped: Chance of groups where there is something.
    """
    if table.rng.random() >= none:
        _grouped(table) if table.rng.random() < grouped else _regression(table)


def _grouped(table: _Table) -> None:
    table.rows = max(table.rows, 12)
    table.index(table.rng.randint(4, max(4, min(40, table.rows // 3))))
    table.plain(table.rng.choices(range(5), (15, 40, 25, 12, 8))[0])
    if table.rng.random() < 0.2:
        table.index(table.rng.choice((2, 3, 4)), role="")


def _crossed(table: _Table) -> None:
    table.rows = max(table.rows, 24)
    outer = table.rng.randint(4, max(4, min(12, table.rows // 5)))
    table.index(outer)
    inner = table.rng.randint(3, 8)
    table.index(min(outer * inner, table.rows // 2) if table.rng.random() < 0.3 else max(inner, 4))
    table.plain(table.rng.choices(range(4), (40, 35, 15, 10))[0])


def _series(table: _Table) -> None:
    table.rows = max(table.rows, 16)
    repeats = table.rng.choice((1, 1, 1, 2, 3, 5))
    steps = max(12, min(MOST_STEPS, table.rows // repeats))
    table.rows = max(table.rows, steps)
    start = table.rng.choice((0, 0, 1, 1, 1, table.rng.randint(1900, 2010)))
    endings = ("year",) if start > 1 else ("day", "week", "month", "time", "t", "period")
    table.number(endings, "count", float(start), float(start + steps - 1))
    table.plain(table.rng.choices(range(4), (45, 30, 15, 10))[0])
    if table.rng.random() < 0.2:
        table.index(table.rng.choice((4, 5, 7)), role="")


def _rates(table: _Table) -> None:
    table.kind = "count"
    size = 10 ** table.rng.uniform(0.5, 4.5)
    table.number(
        ("exposure", "population", "effort", "person_years"),
        "continuous" if table.rng.random() < 0.5 else "count",
        float(max(1, round(size * table.rng.uniform(0.05, 0.5)))),
        float(round(size) + 2),
        "exposure",
    )
    _predictors(table, none=0.12, grouped=0.5)


def _totals(table: _Table) -> None:
    table.kind = "count"
    high = round(10 ** table.rng.uniform(0.5, 2.7)) + 1
    if table.rng.random() < 0.75:
        low = max(1, round(high * table.rng.choice((0.1, 0.3, 0.7))))
        table.total = table.number(
            ("trials", "n", "total", "tests"), "count", float(low), float(high + 1), "total"
        ).name
    else:
        table.total = high
    shares = sorted(table.rng.random() for _ in range(2))
    lowest, highest = round(shares[0] * high * 0.5), max(1, round(shares[1] * high))
    table.range = (float(min(lowest, highest - 1)), float(highest))
    _predictors(table, none=0.2 if isinstance(table.total, str) else 0.0, grouped=0.5)


def _errors(table: _Table) -> None:
    table.kind = "continuous"
    table.rows = min(table.rows, 60)
    table.plain(table.rng.choice((0, 0, 1, 2)))
    response = made_up_response(table.rng, table.response_name)
    while response.kind != "continuous":
        response = made_up_response(table.rng, table.response_name)
    table.range = (float(response.low), float(response.high))
    span = response.high - response.low
    low = span * 10 ** table.rng.uniform(-1.6, -0.7)
    high = low * table.rng.choice((1.5, 3.0, 5.0))
    table.number(
        ("se", "stderr", "std_error"),
        "continuous",
        float(f"{low:.3g}"),
        float(f"{high:.3g}"),
        "standard error",
    )


def _events(table: _Table) -> None:
    table.kind = "continuous"
    high = 10 ** table.rng.uniform(0.3, 3.3)
    table.range = (float(f"{high * 10 ** table.rng.uniform(-2.5, -1.0):.2g}"), float(f"{high:.3g}"))
    table.rows = max(table.rows, 24)
    table.censored = "upper" if table.rng.random() < 0.85 else "lower"
    _predictors(table, none=0.0, grouped=0.3)


def _persons_and_items(table: _Table) -> None:
    table.kind = "binary"
    persons, items = table.rng.randint(4, 30), table.rng.randint(3, 15)
    table.rows = min(max(persons * items, 40), MOST_ROWS)
    table.index(persons, table.rng.choice(("group", "")))
    table.index(max(items, 4), table.rng.choice(("group", "")))


def _pairs(table: _Table) -> None:
    table.kind = "binary" if table.rng.random() < 0.8 else "continuous"
    table.rows = max(table.rows, 24)
    levels = table.rng.randint(4, max(4, min(20, table.rows // 4)))
    for ending in (("home", "first", "left"), ("away", "second", "right")):
        table.columns.append(Column(table.name(ending), "count", 0.0, levels - 1.0))
    if table.rng.random() < 0.3:
        table.plain(1)


def _options(table: _Table) -> None:
    table.kind = "binary"
    table.rows = max(table.rows, 30)
    size = float(round(10 ** table.rng.uniform(1.0, 3.0)))
    table.number(("now", "sooner", "small"), "count", float(round(size * 0.1)), round(size * 0.9) + 1.0)
    table.number(("later", "large", "reward"), "count", float(round(size * 0.3)), size + 2.0)
    table.number(
        ("delay", "days", "wait"), "count", float(table.rng.choice((0, 1))), float(table.rng.randint(10, 200))
    )
    if table.rng.random() < 0.3:
        table.index(table.rng.randint(4, 10))


def _places(table: _Table) -> None:
    table.rows = max(table.rows, 20)
    size = 10 ** table.rng.uniform(0.0, 2.5)
    low = -size if table.rng.random() < 0.5 else 0.0
    for ending in (("x", "x1", "east", "lon"), ("y", "x2", "north", "lat")):
        table.number(ending, "continuous", float(f"{low:.3g}"), float(f"{size:.3g}"))


def _species(table: _Table) -> None:
    table.kind = table.rng.choice(("count", "continuous"))
    steps = table.rng.randint(10, 40)
    table.rows = 2 * (steps + 1)
    table.number(("time", "year", "day", "t"), table.rng.choice(("count", "continuous")), 0.0, float(steps))
    table.number(("species", "kind", "is_predator"), "binary", 0.0, 1.0)
    high = round(10 ** table.rng.uniform(1.3, 3.0)) + 3.0
    table.range = (float(max(1, round(high * 10 ** table.rng.uniform(-2.0, -0.8)))), high)


LAYOUTS: dict[str, Callable[[_Table], None]] = {
    "regression": _regression,
    "grouped": _grouped,
    "crossed": _crossed,
    "series": _series,
    "rates": _rates,
    "totals": _totals,
    "errors": _errors,
    "events": _events,
    "persons_and_items": _persons_and_items,
    "pairs": _pairs,
    "options": _options,
    "places": _places,
    "species": _species,
}
"""What tables are about, by name."""


def draw_request(rng: Random, weights: Weights = WEIGHTS) -> Request:
    """Draws a request: columns with kinds, ranges, roles and levels, and the number of rows.

    Columns stand in no order that would tell what they are for, and a part of what tables hold comes without
    the role that it has: codes of groups as plain counts, no standardised views.

    Args:
        rng: Source of all randomness: the same state gives the same request.
        weights: How often each choice is made.
    """
    table = _Table(rng, weights)
    LAYOUTS[choice(rng, weights.layouts)](table)
    table.columns = table.columns[:MOST_COLUMNS]
    rng.shuffle(table.columns)
    response, ordered = _response(table)
    limits = {}
    if table.censored:
        limits = {table.censored: table.name((f"{table.response_name}_limit", "limit", "censored_at"))}
    views = {}
    if rng.random() < 0.7:
        views = {
            f"{column.name}_z": View(
                column.name, (column.low + column.high) / 2, (column.high - column.low) / 3.4
            )
            for column in table.columns
            if column.kind != "binary"
            and not column.levels
            and column.role in ("", "exposure")
            and f"{column.name}_z" not in [*table.taken, *limits.values()]
        }
    events = table.censored == "upper" and rng.random() < 0.7
    return Request(tuple(table.columns), response, table.rows, ordered, limits, events, views)


def _response(table: _Table) -> tuple[Column, tuple[str, ...]]:
    rng, name, kind = table.rng, table.response_name, table.kind
    if kind == "ordinal":
        levels = rng.choice((3, 4, 5, 5, 5, 7))
        words = RATINGS[:levels] if rng.random() < 0.5 else tuple(str(level) for level in range(levels))
        return Column(name, "count", 0.0, levels - 1.0, total=levels - 1), words
    if kind == "binary":
        return Column(name, kind, 0.0, 1.0), ()
    if kind == "proportion":
        low, high = sorted(rng.random() for _ in range(2))
        low, high = 0.6 * low, max(high, 0.6 * low + 0.1)
        return Column(name, "continuous", round(low + 0.001, 3), round(min(high, 0.999), 3)), ()
    wanted = "count" if kind == "count" else "continuous"
    if table.range is not None:
        return Column(name, wanted, *table.range, total=table.total), ()
    column = made_up_response(rng, name)
    while column.kind != wanted or (wanted == "count" and column.low > 1800):
        column = made_up_response(rng, name)
    if kind == "semicontinuous":
        column = Column(name, "continuous", 0.0, float(column.high) if column.high > 0 else 1.0)
    return column, ()
