"""Levels of categories: which words mean yes and no, and which have an order."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

TRUE_WORDS = frozenset({"true", "yes", "y", "t", "on", "ja", "oui", "si", "sí"})
FALSE_WORDS = frozenset({"false", "no", "n", "f", "off", "nein", "non"})
ORDERS = tuple(
    tuple(order.split("|"))
    for order in (
        "lowest|very low|low|lower|below average|medium low|medium|moderate|mid|middle|average|"
        "medium high|above average|high|higher|very high|highest",
        "none|tiny|extra small|xxs|xs|very small|small|s|medium|m|large|l|big|extra large|very large|"
        "xl|xxl|xxxl|huge",
        "never|almost never|very rarely|rarely|seldom|occasionally|sometimes|often|frequently|"
        "usually|very often|almost always|always",
        "terrible|awful|very poor|very bad|poor|bad|below average|fair|ok|okay|average|satisfactory|"
        "good|above average|very good|great|excellent|outstanding",
        "fair|good|very good|premium|ideal",
        "strongly disagree|disagree|somewhat disagree|slightly disagree|neutral|undecided|"
        "neither agree nor disagree|slightly agree|somewhat agree|agree|strongly agree",
        "very dissatisfied|dissatisfied|somewhat dissatisfied|neutral|somewhat satisfied|satisfied|"
        "very satisfied",
        "none|absent|minimal|trace|mild|slight|moderate|marked|severe|very severe|critical",
        "none|a few|few|a little|some|several|many|marked|a lot|most|all",
        "not at all|slightly|a little|somewhat|moderately|quite|very|very much|extremely",
        "underweight|normal|overweight|obese",
        "l|m|h",
        "lo|med|mid|hi",
        "very unlikely|unlikely|neutral|possible|likely|very likely|certain",
        "infant|child|teenager|adolescent|young|young adult|adult|middle-aged|middle aged|senior|old|elderly",
        "none|no education|primary|elementary|lower secondary|secondary|high school|some college|"
        "vocational|college|associate|university|bachelor|bachelors|bachelor's|graduate|postgraduate|"
        "master|masters|master's|doctorate|phd",
        "very slow|slow|medium|normal|fast|very fast",
        "very cold|cold|cool|mild|warm|hot|very hot",
        "very short|short|medium|long|very long",
        "very light|light|medium|moderate|heavy|very heavy",
        "minor|major",
        "before|during|after",
        "pre|post",
        "novice|beginner|intermediate|advanced|expert",
        "junior|senior",
        "bottom|middle|top",
        "less|same|more",
        "decreased|unchanged|increased",
        "worse|same|better",
        "bronze|silver|gold|platinum",
        "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth",
        "control|low|medium|high",
        "placebo|low|medium|high",
        "zero|one|two|three|four|five|six|seven|eight|nine|ten",
        "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
        "mon|tue|wed|thu|fri|sat|sun",
        "january|february|march|april|may|june|july|august|september|october|november|december",
        "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec",
        "winter|spring|summer|autumn",
        "winter|spring|summer|fall",
    )
)
"""Words that have an order, from the least to the most; a column may hold any of a row, two at least."""
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = {"month": MONTHS, "weekday": WEEKDAYS}
"""Parts of dates that may be asked for, and their levels."""
_CYCLES = frozenset({"january", "jan", "monday", "mon", "winter"})
_LETTERS = frozenset({"l"})
"""First words of orders of letters, of which two may be anything: `M` and `H` are also the sexes."""
_NUMBERED = re.compile(r"^(?P<before>\D*)(?P<number>\d+(?:\.\d+)?)(?P<after>\D*)$")
_BAND = re.compile(r"^\D*(?P<low>\d+(?:\.\d+)?)\s*(?:-|–|to|and)\s*(?P<high>\d+(?:\.\d+)?)\D*$")
_OPEN_BAND = re.compile(
    r"^(?:(?P<below><|under|below|less than|up to)|(?P<above>>|over|above|more than))?"
    r"\D*(?P<end>\d+(?:\.\d+)?)"
    r"\s*(?P<more>\+|and \w+|or \w+|)\s*(?:[^\W\d]\w*(?:/\w+)?)?$"
)


def truth_codes(levels: Sequence[str]) -> dict[str, int] | None:
    """Codes of levels that are spellings of yes and no, `None` if they are something else.

    Args:
        levels: Distinct texts of a column.
    """
    codes = {}
    for level in levels:
        word = level.lower()
        if word not in TRUE_WORDS | FALSE_WORDS:
            return None
        codes[level] = int(word in TRUE_WORDS)
    return codes if len(set(codes.values())) == 2 and len(codes) <= 4 else None


def arranged(levels: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Levels in the order that their words have, else in that of the alphabet, and whether they are ordinal.

    Words of size, frequency and the like are ordinal, and so are bands (`18-25`, `26-40`, `40+`); months,
    weekdays, seasons and numbered levels (`plot 2`, `plot 10`) are only put into their order.

    Args:
        levels: Distinct texts of a column.
    """
    texts = {re.sub(r"[_\s]+", " ", level.lower()).strip(): level for level in levels}
    for words in (texts, _without_last(texts)):
        for order in ORDERS if len(words) == len(levels) > 1 else ():
            if words.keys() <= set(order) and len(words) >= (3 if order[0] in _LETTERS else 2):
                return tuple(words[word] for word in order if word in words), order[0] not in _CYCLES
    if numbered := _numbered(levels):
        return numbered, False
    if bands := _bands(levels):
        return bands, True
    return tuple(sorted(levels)), False


def _without_last(words: Mapping[str, str]) -> dict[str, str]:
    """Words without the last one, if it is the same of all: `slightly worried` and `very worried`."""
    parts = {text: text.rsplit(" ", 1) for text in words}
    same = len({part[-1] for part in parts.values()}) == 1 and all(len(part) == 2 for part in parts.values())
    return {part[0]: words[text] for text, part in parts.items()} if same else {}


def _numbered(levels: Sequence[str]) -> tuple[str, ...] | None:
    matches = [_NUMBERED.match(level) for level in levels]
    found = [match for match in matches if match is not None]
    if len(found) < len(levels) or len({(match["before"], match["after"]) for match in found}) > 1:
        return None
    return tuple(sorted(levels, key=lambda level: float(_NUMBERED.match(level)["number"])))  # type: ignore[index]


def _bands(levels: Sequence[str]) -> tuple[str, ...] | None:
    """Levels that are intervals which do not overlap: two closed ones at least, or one between open ones."""
    ends: dict[str, tuple[float, float]] = {}
    closed = marked = 0
    for level in levels:
        text = level.replace(",", "").strip().lower()
        if match := _BAND.match(text):
            ends[level] = float(match["low"]), float(match["high"])
            closed += 1
        elif match := _OPEN_BAND.match(text):
            end = float(match["end"])
            ends[level] = (-math.inf, end) if match["below"] else (end, math.inf)
            marked += bool(match["below"] or match["above"] or match["more"])
        else:
            return None
    order = sorted(levels, key=lambda level: ends[level])
    apart = all(ends[one][1] <= ends[next_one][0] for one, next_one in pairwise(order))
    return tuple(order) if apart and (closed >= 2 or (closed == 1 and marked == 2)) else None
