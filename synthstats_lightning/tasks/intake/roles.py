"""What columns are for, from their names and values: groups, exposure, totals, identifiers."""

from __future__ import annotations

import re
import unicodedata

import numpy as np

from synthstats_lightning.tasks.intake.column_reading import Reading
from synthstats_lightning.tasks.intake.encodings import Numbers

ROLES = (
    "covariate",
    "group",
    "exposure",
    "total",
    "failures",
    "standard_error",
    "lower_limit",
    "upper_limit",
    "event",
    "censored",
    "label",
    "left_out",
)
"""What a column may be for, besides the response."""
EVENT_ROLES = ("event", "censored")
"""Roles of columns that are 1 where an event was seen, or where a time was cut short before it."""
LIMITS_OF_ROWS = ("lower_limit", "upper_limit")
"""Roles of columns that hold how far each row could be observed."""
MAY_BE_THE_SAME = (*LIMITS_OF_ROWS, "total", "failures", "standard_error", "exposure")
"""Roles that say something where one value holds for all rows, too."""
LIMIT_ROLES = (*LIMITS_OF_ROWS, *EVENT_ROLES)
"""Roles of columns that say where a response was cut short, so that they predict nothing."""

ROW_NUMBERS = "another number in every row: numbers of rows"
"""Why a column is left out that says which row is which."""
ROW_NAMES = "another text in every row: names of rows"
"""The same of texts."""
TOO_MANY_LEVELS = "too many to be levels"
"""How the reason ends where few rows have the same text."""
TOO_MANY_UNITS = "names of something that has hardly two rows each (roles: group, or covariate, if not)"
"""The same of numbers that name subjects, sites and the like."""
ENOUGH_UNITS = 8
"""Rows from which on numbers that hardly repeat are names of subjects or sites if their column says so."""
_IDENTIFIER = re.compile(
    r"(.*_)?(id\d?|idx|index|rowid|row_?names?|row_?numbers?|uuid|guid|serial|record|unnamed_\d+|column_1|s_?no)"
)
_ROW_NUMBER = re.compile(
    r"(.*_)?(row|rows|no|nr|num|number|obs|observation|case|seq|sequence|key|v1|column_\d+)"
)
_CODES = re.compile(
    r"(.*_)?(zip|zip_?code|post_?code|postal_?code|fips|sic|naics)"
    r"|(sch|schl|dist|prov|hosp|subj|pat|pt|inst|cust|emp|stud|teach|tch|fac|prod|hh|pers|fam|clust|vill|member"
    r"|house|acct)_?(id|cod|code|num|no|nr)[a-z]{0,2}|[pusct]id"
)
"""Numbers that say which school, county or branch a row is of, in names that are cut short."""
_GROUP = re.compile(
    r"(.*_)?(id\d?|subject|subj|patient|participant|person|individual|student|pupil|child|teacher|school|class|classroom"
    r"|site|batch|group|cluster|county|district|region|state|country|city|firm|company|plate|litter|block|plot|lab"
    r"|laboratory|rater|judge|hospital|clinic|centre|center|ward|family|household|item|animal|rat|mouse|dog|team"
    r"|player|store|shop|machine|operator|culture|tank|cage|nest|field|farm|herd|village|tribe|dept"
    r"|department|cask|worker|observer|brood|pig|cow|sheep|rabbit|bird|replicate|stratum|strata|location|station"
    r"|institution|inst|province|municipality|tract|tree|airline|carrier|vendor|supplier|customer|client|user|branch"
    r"|outlet|agency|employee|doctor|physician|surgeon|nurse|provider|lecturer|professor|instructor|course|experiment"
    r"|expt|event|pair|ship|vessel|sujet|sujeto|eleve|ecole|escuela|classe|clase|parcelle|parzelle|parcela|paciente"
    r"|proband|probandin|versuchsperson|person_?nr|schule|klasse|betrieb|firma|filiale|tier|gruppe|groupe|grupo"
    r"|sire|dam|colony|hive|pond|transect|quadrat|island)"
    r"(_?(id|no|nr|num|number|cod|code|index|fips))?"
)
_EXPOSURE = re.compile(
    r"(.*_)?(exposure|population|pop|person_?years|patient_?years|person_?time|at_?risk|offset|effort|expected"
    r"|vehicle_?(km|kilomet(er|re)s|miles)|vmt|(policy_?)?holders|policies|insured|vehicle_?years|man_?years|car_?years)"
)
_TRIED = (
    "trials|tries|attempts|shots|putts|throws|tosses|at_?bats|tests|visits|visitors|impressions|sessions|sent"
    "|enrolled|examined|inspected|exposed|surveyed|respondents|sampled"
)
_TOTAL = re.compile(
    rf"(num_|number_of_|n_)?({_TRIED}|total|totals|n|tested|operations|denominator|size|sample_size)"
)
_TRIALS = re.compile(rf"(num_|number_of_|n_)?({_TRIED}|tested)|n|total")
_STANDARD_ERROR = re.compile(r"(.*_)?(se|sem|s_e|std_?err(or)?|standard_?errors?|stderr)(_.*)?")


_OUTCOME = "event"
"""A name of what happened, or of how something ended."""
MOST_OUTCOMES = 6
"""Numbers of a column that may say how a time ended."""


def snake(name: str) -> str:
    """A name in lower case with `_` between its words.

    Args:
        name: A name as a table has it: `"SubjectID"`.
    """
    name = unicodedata.normalize("NFKD", name)
    name = "".join(letter for letter in name if not unicodedata.combining(letter))
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def reason_to_leave_out(name: str, reading: Reading) -> str | None:
    """Why a column is of no use to any program, `None` if it may be.

    Args:
        name: Name of the column.
        reading: What it holds.
    """
    values = reading.values[~np.isnan(reading.values)]
    rows = len(reading.values)
    if reading.kind == "empty":
        return "every cell is missing"
    if reading.kind == "text":
        return reading.warnings[0] if reading.warnings else "text"
    distinct = len(np.unique(values))
    if distinct < 2:
        return f"the same in every row ({_shown(reading, values)})"
    if reading.kind in ("category", "ordinal") and 2 * distinct > len(values):
        if distinct == len(values):
            return ROW_NAMES
        return f"{distinct} different texts in {len(values)} rows: {TOO_MANY_LEVELS}"
    if 2 * len(values) < rows:
        return f"{rows - len(values)} of {rows} cells are missing"
    whole = reading.kind == "number" and bool((values == np.rint(values)).all())
    runs = whole and distinct == len(values) == values.max() - values.min() + 1 and values.min() in (0, 1)
    named = _IDENTIFIER.fullmatch(snake(name)) or (runs and _ROW_NUMBER.fullmatch(snake(name)))
    if whole and distinct == len(values) and named:
        return ROW_NUMBERS
    units = _IDENTIFIER.fullmatch(snake(name)) or (len(values) >= ENOUGH_UNITS and names_units(name))
    if whole and units and values.min() >= 0 and 2 * distinct > len(values):
        if distinct == len(values):
            return ROW_NUMBERS
        return f"{distinct} different numbers in {len(values)} rows: {TOO_MANY_UNITS}"
    return None


def names_units(name: str) -> bool:
    """Whether a column is called like subjects, firms, sites: its numbers say which one a row is of.

    Args:
        name: Name of the column.
    """
    return bool(_GROUP.fullmatch(snake(name)) or _CODES.fullmatch(snake(name)))


def is_group(name: str, reading: Reading) -> bool:
    """Whether a column says which rows belong together.

    Args:
        name: Name of the column.
        reading: What it holds.
    """
    values = reading.values[~np.isnan(reading.values)]
    distinct = len(np.unique(values))
    if distinct < 3 or 2 * distinct > len(values):
        return False
    if reading.kind == "category":
        return distinct >= 5 or (distinct == 4 and names_units(name))
    if snake(name) == _OUTCOME and distinct <= MOST_OUTCOMES:
        return False
    whole = reading.kind == "number" and bool((values == np.rint(values)).all())
    return whole and names_units(name)


def guess_role(name: str, reading: Reading, response: str, kind: str, values: Numbers) -> str:
    """What a column is for.

    Args:
        name: Name of the column.
        reading: What it holds.
        response: Name of the response.
        kind: Kind of the response.
        values: Values of the response, NaN where it is missing.
    """
    if is_group(name, reading):
        return "group"
    if reading.kind != "number":
        return "covariate"
    plain = snake(name)
    here = reading.values[~np.isnan(reading.values) & ~np.isnan(values)]
    whole = bool((here == np.rint(here)).all())
    positive = len(here) > 0 and bool((here > 0).all())
    if kind == "count" and may_be_total(name, reading, values):
        return "total"
    if kind == "count" and positive and _EXPOSURE.fullmatch(plain):
        return "exposure"
    own = plain in (f"{snake(response)}_se", f"se_{snake(response)}", f"{snake(response)}_sd")
    if kind == "continuous" and positive and not whole and (own or _STANDARD_ERROR.fullmatch(plain)):
        return "standard_error"
    return "covariate"


def may_be_total(name: str, reading: Reading, values: Numbers) -> bool:
    """Whether a column may hold numbers of trials of which the response counts the successes.

    Args:
        name: Name of the column.
        reading: What it holds.
        values: Values of the response, NaN where it is missing.
    """
    if reading.kind != "number" or not _TOTAL.fullmatch(snake(name)):
        return False
    both = ~np.isnan(reading.values) & ~np.isnan(values)
    here, there = reading.values[both], values[both]
    whole = bool((here == np.rint(here)).all())
    return whole and len(here) > 0 and bool((here > 0).all() and (there <= here).all())


def same_total(name: str, reading: Reading, kind: str, values: Numbers) -> bool:
    """Whether a column is a number of trials that is the same in every row.

    Args:
        name: Name of the column.
        reading: What it holds.
        kind: Kind of the response.
        values: Values of the response, NaN where it is missing.
    """
    trials = np.unique(reading.values)
    if kind != "count" or reading.kind != "number" or len(trials) != 1 or not _TRIALS.fullmatch(snake(name)):
        return False
    return bool(trials[0] == np.rint(trials[0]) and np.nanmax(values) <= trials[0])


def _shown(reading: Reading, values: Numbers) -> str:
    first = float(values[0])
    return reading.levels[int(first)] if reading.levels else f"{first:g}"
