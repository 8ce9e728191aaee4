"""Columns that say of which rows an event was seen, and of which a time was cut short before it."""

from __future__ import annotations

import re

import numpy as np

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks.intake.column_reading import Reading
from synthstats_lightning.tasks.intake.encodings import Numbers
from synthstats_lightning.tasks.intake.roles import snake

_EVENT = re.compile(
    r"(.*_)?(event|events|died|dead|death|deaths|failed|failure|relapse|relapsed|uncensored|event_observed)"
)
_CENSORED = re.compile(r"(is_|right_|was_)*(censored|cens|censoring)(_flag)?")
_EITHER = re.compile(r"(.*_)?(cens\w*|status|delta|observed)")
_TIME = re.compile(
    r"(.*_)?(time|times|t|survival|surv|duration|days|weeks|months|years|hours|lifetime|tte|los|age_at_.*)"
    r"(_.*)?"
    r"|futime|rectime|start_stop"
)
_SEEN_WORDS = frozenset(
    {
        *("dead", "died", "death", "deceased", "event", "failed", "failure", "fail"),
        *("relapse", "relapsed", "uncensored", "observed", "seen"),
    }
)
_CUT_WORDS = frozenset(
    {*("alive", "living", "censored", "survived", "lost", "none"), *("working", "running", "right-censored")}
)


def event_role(name: str, reading: Reading, response: str, values: Numbers) -> str | None:
    """Whether a column says which times ended with the event: `"event"`, `"censored"`, or `None` for neither.

    Of names that leave open which of two numbers means the event, such as `status`, the times decide: they
    are longer where they were cut short.

    Args:
        name: Name of the column.
        reading: What it holds.
        response: Name of the response.
        values: The response, NaN where it is missing.
    """
    plain, codes = snake(name), event_codes(reading)
    seen, cut = _EVENT.fullmatch(plain), _CENSORED.fullmatch(plain)
    if codes is None or not (seen or cut or _EITHER.fullmatch(plain)):
        return None
    known = values[~np.isnan(values)]
    timed = _TIME.fullmatch(snake(response)) or "cens" in plain
    if not timed or not len(known) or known.min() < 0:
        return None
    if seen or _says_itself(reading):
        return "event"
    if cut:
        return "censored"
    ends = [values[(codes == code) & ~np.isnan(values)] for code in (1.0, 0.0)]
    if not all(len(each) for each in ends):
        return None
    return "event" if ends[0].mean() <= ends[1].mean() else "censored"


def event_codes(reading: Reading) -> Numbers | None:
    """A column of two values as 0 and 1, NaN where a cell is missing; `None` of any other.

    Words are 1 where they say that the event was seen; of numbers the larger one is 1 (`status` is 1 and 2 in
    many tables).

    Args:
        reading: What the column holds.
    """
    known = ~np.isnan(reading.values)
    values = np.unique(reading.values[known])
    if len(values) != 2 or reading.encoding is None:
        return None
    if _says_itself(reading):
        seen = np.array([_word(level) in _SEEN_WORDS for level in reading.levels], dtype=np.float64)
        return np.where(known, seen[np.where(known, reading.values, 0).astype(int)], np.nan)
    if reading.kind not in ("number", "boolean") or not set(values.tolist()) <= {0.0, 1.0, 2.0}:
        return None
    return np.where(known, reading.values == values[1], np.nan)


def event_limits(name: str, reading: Reading, role: str, response: Numbers) -> Numbers:
    """The largest value that each row's response could be observed at: its own where it was cut short.

    Args:
        name: Name of the column, for messages.
        reading: What it holds.
        role: `"event"` where 1 means that the event was seen, `"censored"` where it means that it was not.
        response: The response, NaN where it is missing.

    Raises:
        ValueError: If the column does not hold two values.
    """
    codes = event_codes(reading)
    if codes is None:
        raise ValueError(
            f"column {name!r} of role {role!r} must hold two values, such as 0 and 1, or words such as alive"
            " and dead"
        )
    limits = np.where(codes == (0.0 if role == "event" else 1.0), response, NO_LIMIT)
    return np.where(np.isnan(codes), np.nan, limits)


def how_read(name: str, reading: Reading, role: str, response: str, limits: Numbers) -> str:
    """A sentence on how a column of events was read, and how to say otherwise.

    Args:
        name: Name of the column.
        reading: What it holds.
        role: `"event"` or `"censored"`.
        response: Name of the response.
        limits: What `event_limits` made of it.
    """
    first = reading.values[np.flatnonzero(limits == NO_LIMIT)[:1]]
    shown = reading.levels[int(first[0])] if reading.levels else f"{first[0]:g}" if len(first) else "never"
    other = "censored" if role == "event" else "event"
    cut, rows = int((limits < NO_LIMIT).sum()), len(limits)
    return (
        f"{name} is taken to be {shown} where the event was seen; {response} was cut short in the other {cut}"
        f" of {rows} rows, which count by the probability of a longer one. The other way round:"
        f" roles: {{{name}: {other}}}; something else: {{{name}: covariate}}"
    )


def _says_itself(reading: Reading) -> bool:
    """Whether two words say which of them is the event, as yes and no do not."""
    words = {_word(level) for level in reading.levels}
    return len(words) == 2 and bool(words & _SEEN_WORDS) and bool(words & _CUT_WORDS)


def _word(level: str) -> str:
    return level.lower().strip()
