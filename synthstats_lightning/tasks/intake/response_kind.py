"""Whether a response counts something, measures something, or is yes or no."""

from __future__ import annotations

import re

import numpy as np

from synthstats_lightning.tasks.intake.encodings import Numbers
from synthstats_lightning.tasks.intake.roles import snake

_MEASURES = re.compile(
    r"(.*_)?(weight|height|length|width|depth|mass|price|cost|income|salary|wage|wages|sales|revenue|profit|gdp|gnp"
    r"|temperature|temp|pressure|volume|area|distance|speed|concentration|score|index|rate|ratio|percent|pct|yield"
    r"|bmi|iq|dose|energy|power|voltage|current|age|survival|diameter|thickness|strength|ozone|dist|loss"
    r"|b?wt|ht|len|time|duration|latency|lifetime|angle|pulse|heart_?rate|mpg|approval"
    r"|percentage|altitude|elevation)(_.*)?"
)
_RATINGS = re.compile(
    r"(.*_)?(ratings?|likert|satisf\w*|agree\w*|opinion|attitude|severity|stars|quality|importance|grade|stage"
    r"|likelihood|confidence|happiness|happy|pain)(_.*)?"
)
MOST_RATINGS = 7
"""Levels of an ordered scale of numbers that is recognised by its name."""
OFTEN = 0.1
"""Share of the rows that a single value at an end has too often for a continuous law."""
HEAPED = 2
"""Times as often as any other value it has to stand there: rounded ones repeat, too."""
FEW_VALUES = 10
"""Fewer different values than this are a coarse scale."""
FAR_FROM_NOTHING = 10
"""Smallest value from which on a spread that no count has is that of a measurement."""
ENOUGH = 12
"""Rows from which on that says anything."""
UNDERDISPERSED = 0.5
"""Variance over mean below which whole numbers are taken for a measurement: that of a Poisson count is 1."""
TWO_VALUED = 12
"""Rows from which on a response of two different numbers is yes or no."""
_MEASURED_IN = re.compile(
    r"[%‰$€£¥₹°]|US\$|USD|EUR|GBP|CHF|JPY|°?[CFK]|deg.*|[kKmcμµn]?[mgls]|lbs?|oz|kg|in|ft|yd|mi|ha|acres?|ml|"
    r"m[²³23]|[cmk]m[²³23]?|min|hr?s?|mph|kn|km/h|m/s|[kM]?Pa|bar|psi|mmHg|Hz|[kM]?Hz|[kM]?[WJVN]|kWh|cal|kcal|"
    r"ppm|ppb|[mnuµμ]?mol.*|[mµμnu]?g/.*|mg/.*|percent|pct"
)
LARGE_COUNTS = 1000
"""Whole numbers none of which is smaller are measured: counts of that size spread like measurements."""
SMALL = 30
"""Whole numbers up to this count something."""


def guess_response_kind(
    name: str, values: Numbers, whole: bool, survival: bool, trials: bool = False, unit: str = ""
) -> tuple[str, str]:
    """Kind of a numeric response, and a question to the user where the values leave it open.

    Args:
        name: Name of the response.
        values: Its values, without gaps.
        whole: Whether they are whole numbers as they are written.
        survival: Whether another column looks as if it told which rows are censored.
        trials: Whether another column looks like totals, of which successes may spread less than counts.
        unit: What cells or header say of its unit.
    """
    if not (values == np.rint(values)).all() or values.min() < 0:
        return "continuous", ""
    if set(np.unique(values).tolist()) == {0.0, 1.0}:
        return "binary", ""
    low, high = float(values.min()), float(values.max())
    distinct = len(np.unique(values))
    if low <= 1 and 3 <= distinct == high - low + 1 <= MOST_RATINGS and _RATINGS.fullmatch(snake(name)):
        question = (
            f"{name} holds {low:g} to {high:g} and is taken for ordered categories; if it counts something,"
            " say response_kind: count"
        )
        return "ordinal", question
    measured = (
        not whole
        or survival
        or (not trials and bool(_MEASURED_IN.fullmatch(unit.strip())))
        or (not trials and high > 100_000)
        or (not trials and low > 100 and 4 * low > high)
        or (not trials and low >= LARGE_COUNTS)
        or (not trials and _spreads_less(values))
        or (high > SMALL and _heaped(values))
        or (high > SMALL and bool(_MEASURES.fullmatch(snake(name))))
    )
    if measured:
        question = (
            f"{name} holds whole numbers ({low:g} to {high:g}) and is taken for a measurement;"
            " if it counts something, say response_kind: count"
        )
        return "continuous", question
    if high <= SMALL:
        scale = low <= 1 and 3 <= distinct == high - low + 1 <= MOST_RATINGS
        question = (
            f"{name} holds {low:g} to {high:g} and is taken for a count; if these are ordered categories,"
        )
        return "count", f"{question} say response_kind: ordinal" if scale else ""
    question = (
        f"{name} holds whole numbers ({low:g} to {high:g}) and is taken for a count;"
        " if it is a measurement, say response_kind: continuous"
    )
    return "count", question


def heaped_end(name: str, values: Numbers) -> str:
    """What to look at where a measurement often has its smallest or largest value; empty otherwise.

    Args:
        name: Name of the response.
        values: Its values, without gaps.
    """
    ends = (("lower", float(values.min())), ("upper", float(values.max())))
    side, end = max(ends, key=lambda each: int((values == each[1]).sum()))
    share = float((values == end).mean())
    distinct, counts = np.unique(values, return_counts=True)
    others = int(counts[distinct != end].max(initial=0))
    if share < OFTEN or len(distinct) < FEW_VALUES or share * len(values) < HEAPED * others:
        return ""
    hurdle = " a hurdle, such as pm.HurdleGamma or pm.HurdleLogNormal, has a probability for it;"
    return (
        f"{name} is exactly {end:g} in {100 * share:.3g} % of the rows, to which continuous laws give no"
        f" probability:{hurdle if end == 0 == values.min() else ''} if it was cut off there, say"
        f" limits: {{{side}: {end:g}}}, which pm.Censored may have"
    )


def _spreads_less(values: Numbers) -> bool:
    """Whether whole numbers far from 0 spread less than counts do."""
    enough = len(values) >= ENOUGH and float(values.min()) >= FAR_FROM_NOTHING
    return enough and float(values.var()) < UNDERDISPERSED * float(values.mean())


def _heaped(values: Numbers) -> bool:
    """Whether all values are multiples of 5 or 10, as rounded measurements are."""
    return len(np.unique(values)) > 5 and bool((values % 5 == 0).all())
