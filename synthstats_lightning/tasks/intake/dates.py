"""Dates as people write them, and the numbers that they become."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from synthstats_lightning.tasks.intake.raw_table import Cell

FORMATS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%m-%d-%Y",
    "%d-%m-%Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%B %d %Y",
    "%d%b%Y",
    "%b %Y",
    "%B %Y",
    "%b-%Y",
    "%b-%y",
    "%Y %b",
    "%Y-%m",
    "%YM%m",
    "%Y/%m",
    "%Y-%j",
    "%a %b %d %H:%M:%S %Y",
)
"""How dates are written, in order of preference; a time of day may follow."""
TIMES = (" %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
AMBIGUOUS = {
    "%m/%d/%Y": "%d/%m/%Y",
    "%m/%d/%y": "%d/%m/%y",
    "%m-%d-%Y": "%d-%m-%Y",
}
"""Formats with the month first, and those with the day first that the same texts may be."""
COMPACT = {"%Y%m%d": 8, "%Y%m": 6}
"""Dates that look like whole numbers, and how many digits these have."""
_NAMES_OF_DATES = re.compile(
    r"(.*[_\W])?(dates?|day|month|period|when|ymd|yyyymmdd|yyyymm|yearmon)([_\W].*)?"
)
_QUARTER = re.compile(r"(\d{4})[-/ ]?[Qq]([1-4])|[Qq]([1-4])[-/ ]?(\d{4})")
_DIGIT = re.compile(r"\d")
TWO_DIGIT_YEARS = frozenset({"%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y", "%b-%y"})


@dataclass(frozen=True)
class DateFormat:
    """How the dates of a column are written.

    Attributes:
        pattern: As `datetime.strptime` takes it; `"iso"` or `"quarter"`.
        ambiguous: Whether day and month could be the other way round.
    """

    pattern: str
    ambiguous: bool = False

    def read(self, cell: Cell) -> datetime | None:
        """The date that a cell is, without time zone (that of UTC where it names one); `None` if it is none.

        Args:
            cell: A cell that is not missing.
        """
        if isinstance(cell, datetime):
            return _plain(cell)
        if isinstance(cell, date):
            return datetime(cell.year, cell.month, cell.day)
        if self.pattern in COMPACT:
            cell = _digits(cell)
            if len(cell) != COMPACT[self.pattern]:
                return None
        if not isinstance(cell, str):
            return None
        if self.pattern == "quarter":
            match = _QUARTER.fullmatch(cell)
            if match is None:
                return None
            year, quarter = int(match[1] or match[4]), int(match[2] or match[3])
            return datetime(year, 3 * quarter - 2, 1)
        try:
            found = (
                datetime.fromisoformat(cell)
                if self.pattern == "iso"
                else datetime.strptime(cell, self.pattern)
            )
        except ValueError:
            return None
        return _plain(found)


def date_format(cells: Sequence[Cell]) -> DateFormat | None:
    """How a column's dates are written, `None` if it holds no dates.

    Args:
        cells: Cells that are not missing.
    """
    if all(isinstance(cell, date) for cell in cells):
        return DateFormat("iso")
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) != len(cells) or not _may_be_dates(texts):
        return None
    distinct = sorted(set(texts))
    for pattern in _patterns(distinct[0]):
        form = DateFormat(pattern)
        if all(form.read(text) is not None for text in distinct):
            base = next((first for first in AMBIGUOUS if pattern.startswith(first)), None)
            if base is None:
                return form
            other = DateFormat(pattern.replace(base, AMBIGUOUS[base]))
            return DateFormat(pattern, all(other.read(text) is not None for text in distinct))
    return None


def compact_format(name: str, cells: Sequence[Cell]) -> DateFormat | None:
    """How dates that look like whole numbers are written (`20240131`, `202401`), `None` if there are none.

    Args:
        name: Name of the column, which must say that it holds dates.
        cells: Cells that are not missing.
    """
    if not _NAMES_OF_DATES.fullmatch(name.strip().lower()):
        return None
    distinct = {_digits(cell) for cell in cells}
    if len(distinct) < 3 or not all(text[:2] in ("17", "18", "19", "20") for text in distinct):
        return None
    forms = (DateFormat(pattern) for pattern in COMPACT)
    return next((form for form in forms if all(form.read(text) is not None for text in distinct)), None)


def _digits(cell: Cell) -> str:
    """A whole number as its digits; empty for anything else."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = str(cell) if isinstance(cell, (int, str)) else ""
    return text if text.isdigit() else ""


def _may_be_dates(texts: Sequence[str]) -> bool:
    """A cheap look at a few texts: digits, and something between them."""
    few = [texts[0], texts[len(texts) // 2], texts[-1]]
    return all(5 <= len(text) <= 40 and _DIGIT.search(text) and not text.isdigit() for text in few)


def _patterns(text: str) -> list[str]:
    iso = ["iso"] if re.match(r"\d{4}-\d{2}-\d{2}", text) else []
    untimed = [form for form in FORMATS if "%H" not in form]
    timed = [form + tail for form in untimed for tail in TIMES] if ":" in text else []
    return [*iso, *FORMATS, *timed, "quarter"]


def _plain(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


MONTHS_OF = {"years": 12, "quarters": 3, "months": 1}
"""Unit to how many months it has, the longest first."""
SECONDS_OF = {"weeks": 604_800.0, "days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
"""Unit to how many seconds it has."""
STEPS = ("weeks", "hours")
"""Units of series beside months and days."""
FEWEST_STEPS, MOSTLY_THERE = 8, 0.8
"""Different months or quarters of a series, and the share of them between its ends that it has."""
FIRST_DAYS, LAST_DAYS = 5, 25
"""Days up to which, and from which on, a date stands for the first or last (working) day of its month."""
FIRST_YEAR, LAST_YEAR = 1500, 2200
"""Between which decimal numbers may be years."""
OFF = 0.061
"""Months that a decimal year may be off: 1920.08 is February 1920 to two decimals."""


@dataclass(frozen=True)
class DateScale:
    """Dates as numbers.

    Attributes:
        origin: The date that is 0.
        unit: `"years"`, `"quarters"`, `"months"`, `"weeks"`, `"days"`, `"hours"`, `"minutes"` or `"seconds"`.
        by_month: Whether a date counts as its month, whatever its day: those of a series of ends of months.
    """

    origin: datetime
    unit: str
    by_month: bool = False

    @property
    def text(self) -> str:
        """Unit and origin: `years since 1959-01-01`."""
        origin = self.origin
        shown = origin.date().isoformat() if origin.time() == time(0) else origin.isoformat(" ")
        return f"{self.unit} since {shown}"

    def number(self, moment: datetime) -> float:
        """The number of a date; parts of a month count by its own length, of a year by twelve months.

        Args:
            moment: A date without time zone.
        """
        if self.by_month:
            months = 12 * (moment.year - self.origin.year) + moment.month - self.origin.month
            return round(months / MONTHS_OF[self.unit], 9)
        if self.unit in MONTHS_OF:
            return round((_months(moment) - _months(self.origin)) / MONTHS_OF[self.unit], 9)
        seconds = (moment - self.origin) / timedelta(seconds=1)
        return seconds / SECONDS_OF[self.unit]


def date_scale(moments: Sequence[datetime]) -> DateScale:
    """Unit and origin that suit a column's dates: numbers that are neither huge nor all the same.

    Args:
        moments: Dates without time zone; at least one.
    """
    first, last = min(moments), max(moments)
    days = (last - first) / timedelta(days=1)
    months = days > 365 and all(moment.day == 1 and moment.time() == time(0) for moment in moments)
    if months and (regular := _regular_unit([round(_months(moment)) for moment in moments])):
        unit = regular
    elif days > 365 and (regular := _a_day_a_month(moments)):
        return DateScale(datetime(first.year, first.month, first.day), regular, by_month=True)
    elif regular := next((unit for unit in STEPS if _goes_by(moments, SECONDS_OF[unit])), ""):
        return DateScale(first, regular)
    elif months or days > 3653:
        unit = "years"
    elif days >= 10 or (days >= 2 and all(moment.time() == time(0) for moment in moments)):
        unit = "days"
    elif days * 24 >= 10:
        unit = "hours"
    else:
        unit = "days" if days == 0 else ("minutes" if days * 1440 >= 10 else "seconds")
    whole_days = unit in ("days", *MONTHS_OF)
    return DateScale(datetime(first.year, first.month, first.day) if whole_days else first, unit)


def _a_day_a_month(moments: Sequence[datetime]) -> str:
    """The unit of a series with one date a month or quarter: in its last days, its first, or always the same.

    Empty of any other, as of one with several dates in a month.
    """
    dates = {moment.date() for moment in moments}
    months = {12 * each.year + each.month - 1 for each in dates}
    days = {each.day for each in dates}
    alike = len(days) == 1 or max(days) <= FIRST_DAYS or min(days) >= LAST_DAYS
    timed = any(moment.time() != time(0) for moment in moments)
    return "" if timed or not alike or len(months) < len(dates) else _regular_unit(sorted(months))


def _goes_by(moments: Sequence[datetime], seconds: float) -> bool:
    """Whether dates are a series that goes on by so many seconds."""
    first = min(moments)
    steps = np.unique([(moment - first) / timedelta(seconds=seconds) for moment in moments])
    whole = bool((steps == np.rint(steps)).all())
    return whole and len(steps) >= max(FEWEST_STEPS, MOSTLY_THERE * float(steps[-1] + 1))


def _regular_unit(months: Sequence[int]) -> str:
    """The unit of a series that goes month by month or quarter by quarter; empty of any other.

    In this unit the steps are whole numbers, so that programs may have a season, or a state of each step.
    """
    steps = np.unique(months)
    if len(steps) < FEWEST_STEPS:
        return ""
    unit = next((name for name, length in MONTHS_OF.items() if not (np.diff(steps) % length).any()), "")
    whole = (steps[-1] - steps[0]) / MONTHS_OF[unit] + 1 if unit else np.inf
    return unit if len(steps) >= MOSTLY_THERE * whole else ""


def decimal_years(values: Sequence[float]) -> DateScale | None:
    """The scale of decimal years of months or quarters, 1960.25, as R writes them; `None` of other numbers.

    Args:
        values: Numbers of one column.
    """
    if not len(values) or min(values) < FIRST_YEAR or max(values) >= LAST_YEAR:
        return None
    months = 12 * np.asarray(values)
    near = np.rint(months)
    if np.abs(months - near).max() > OFF:
        return None
    unit = _regular_unit(near.astype(int).tolist())
    first = int(near.min())
    return (
        DateScale(datetime(first // 12, first % 12 + 1, 1), unit) if unit in ("quarters", "months") else None
    )


def _months(moment: datetime) -> float:
    length = calendar.monthrange(moment.year, moment.month)[1]
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond * 1e-6
    return 12 * moment.year + moment.month - 1 + (moment.day - 1 + seconds / 86_400.0) / length
