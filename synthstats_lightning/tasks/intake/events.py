"""Columns that say of which rows an event was seen, and of which a time was cut short before it."""

from __future__ import annotations

import math
import re

import numpy as np

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks.intake.column_reading import Reading
from synthstats_lightning.tasks.intake.encodings import Numbers
from synthstats_lightning.tasks.intake.roles import MOST_OUTCOMES, snake

_EVENT = re.compile(
    r"(.*_)?(event|events|died|dead|death|deaths|failed|failure|relapse|relapsed|uncensored|event_observed)"
)
_CENSORED = re.compile(r"(is_|right_|was_)*censored(_flag)?")
_STATUS = re.compile(r"(.*_)?(status|(fu)?stat|delta|observed)")
"""Names of which the larger number is the event in nearly every table, as in R's `Surv(time, status)`."""
_EITHER = re.compile(r"(.*_)?cens\w*")
"""Names of which as many tables mean one thing as the other."""
_TIME = re.compile(
    r"(.*_)?(time|times|t|survival|surv|duration|days|weeks|months|years|hours|lifetime|tte|los|age_at_.*)"
    r"(_.*)?"
    r"|futime|rectime|start_stop|t_?stop|stop"
)
_SEEN_WORDS = frozenset(
    {
        *("dead", "died", "death", "deceased", "event", "failed", "failure", "fail"),
        *("relapse", "relapsed", "uncensored", "observed", "seen"),
        *("d", "f", "e"),
    }
)
_CUT_WORDS = frozenset(
    {
        *("alive", "living", "censored", "survived", "lost", "none"),
        *("working", "running", "right-censored", "suspended"),
        *("a", "l", "c", "s"),
    }
)
"""Single letters begin such words: A and D of the alive and dead, F and S of failures and suspensions."""
_ENTRY = re.compile(
    r"(.*_)?(t?start|entry|enter|entered|begin|start_?time|t0|left_?trunc(ation)?|delayed_?entry)"
    r"|(entry|start)_(time|age|day|year)|age_(at_)?(entry|start)"
)
"""Names of when a row begins to be watched."""


_DOUBTFUL, _CERTAIN = 2.0, 5.0
"""Standard errors by which times of one code are longer, from which on a name is read by them: one that means
either, and one that nearly always means the same."""


def event_role(name: str, reading: Reading, response: str, values: Numbers) -> str | None:
    """Whether a column says which times ended with the event: `"event"`, `"censored"`, or `None` for neither.

    Times decide what names such as `cens` leave open, for they are longer where they were cut short; a status
    counts for the event unless they say otherwise beyond doubt.

    Args:
        name: Name of the column.
        reading: What it holds.
        response: Name of the response.
        values: The response, NaN where it is missing.
    """
    plain, codes = snake(name), event_codes(reading)
    seen, cut = _EVENT.fullmatch(plain), _CENSORED.fullmatch(plain)
    status, either = _STATUS.fullmatch(plain), _EITHER.fullmatch(plain)
    pair = (plain, snake(response)) == ("e", "t")
    if codes is None or not (seen or cut or status or either or pair):
        return None
    known = values[~np.isnan(values)]
    timed = _TIME.fullmatch(snake(response)) or "cens" in plain
    if not timed or not len(known) or known.min() < 0:
        return None
    if seen or pair or _says_itself(reading):
        return "event"
    if cut:
        return "censored"
    longer = _longer(values, codes)
    if longer is None:
        return None
    if status:
        return "censored" if longer > _CERTAIN else "event"
    return "event" if longer < -_DOUBTFUL else "censored"


def _longer(values: Numbers, codes: Numbers) -> float | None:
    """By how many standard errors logarithms of times of code 1 are longer; `None` where a code has none."""
    logs = np.log1p(values)
    ends = [logs[(codes == code) & ~np.isnan(values)] for code in (0.0, 1.0)]
    if not all(len(each) for each in ends):
        return None
    variance = sum(each.var() / len(each) for each in ends)
    return float((ends[1].mean() - ends[0].mean()) / max(math.sqrt(variance), 1e-12))


def several_outcomes(name: str, reading: Reading, response: str) -> str:
    """What to look at in a column that seems to say in which of several ways times ended; empty of others.

    Args:
        name: Name of the column.
        reading: What it holds.
        response: Name of the response.
    """
    plain = snake(name)
    named = _EVENT.fullmatch(plain) or _STATUS.fullmatch(plain) or _EITHER.fullmatch(plain)
    values = np.unique(reading.values[~np.isnan(reading.values)])
    several = reading.kind == "number" and 2 < len(values) <= MOST_OUTCOMES
    if not (named and several and _TIME.fullmatch(snake(response))):
        return ""
    shown = ", ".join(f"{value:g}" for value in values)
    return (
        f"{name} holds {shown} beside {response} and is taken for a covariate; if it says how each time"
        " ended, give a column of 0 and 1 for the event in its place, or leave it out:"
        f" roles: {{{name}: left_out}}"
    )


def late_entry(name: str, entries: Numbers, response: str, values: Numbers) -> str:
    """What to look at in a column that seems to say from when on each time was watched; empty of others.

    Args:
        name: Name of the column.
        entries: What it holds, NaN where a cell is missing.
        response: Name of the response, of which another column says which were cut short.
        values: The response, NaN where it is missing.
    """
    known = ~(np.isnan(entries) | np.isnan(values))
    begun, ended = entries[known], values[known]
    if not (_ENTRY.fullmatch(snake(name)) and len(begun) and begun.min() >= 0):
        return ""
    if begun.max() == 0 or not (begun < ended).all():
        return ""
    later = int((begun > 0).sum())
    return (
        f"{name} is below {response} in every row and above 0 in {later}: if rows are watched from there on"
        " (late entry, left truncation), no bundled policy's program takes account of it; a column of"
        f" {response} - {name} as the response says how long each was watched"
    )


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
