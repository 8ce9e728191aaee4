"""Numbers as people write them: thousands separators, decimal commas, percent signs, currencies, units."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_COMMA_NUMBER = re.compile(r"[-+]?(?:\d+,?\d*|,\d+)(?:[eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_COMMA_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?")
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
"""`1,234`: a thousand and more, or one and some thousandths."""
_SPACES = re.compile("(?<=\\d)[  \u2009\u202f'’](?=\\d{3})")
_BRACKETS = re.compile(r"\(([^()-]+)\)")
_AFFIX = re.compile(
    r"^([^\d.,+\s()-]*)\s*([-+]?[\d.,](?:[\d.,\s'’  \u2009\u202f]*\d)?[.,]?(?:[eE][-+]?\d+)?)\s*(.*)$"
)
CURRENCIES = frozenset({"$", "€", "£", "¥", "₹", "US$", "USD", "EUR", "GBP", "CHF", "JPY"})
MAGNITUDES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "bn": 1e9, "Bn": 1e9}
"""What a letter behind a number multiplies it by, where several of them stand in one column."""
_UNIT = re.compile(r"[A-Za-zµμ°%‰/²³]{1,8}(?:/[A-Za-z0-9²³]{1,6})?")


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes:
        decimal_comma: Whether a comma stands before the decimals.
        thousands: Whether groups of three digits are set apart.
        prefix: What stands before each number, such as a currency.
        suffix: What stands after each number, such as a percent sign or a unit.
        magnitudes: Whether numbers may end in one of `MAGNITUDES`, `3.6K` beside `1.2M`.
    """

    decimal_comma: bool = False
    thousands: bool = False
    prefix: str = ""
    suffix: str = ""
    magnitudes: bool = False

    def read(self, text: str) -> float | None:
        """The number that a text is, `None` if it is none.

        Args:
            text: A cell, stripped.
        """
        body = text.replace("\u2212", "-").replace("–", "-") if not text.isascii() else text
        negative = _BRACKETS.fullmatch(body)
        body = f"-{negative[1]}" if negative else body
        if self.prefix:
            sign = body[:1] if body[:1] in "+-" else ""
            body = body[len(sign) :].strip()
            body = sign + body.removeprefix(self.prefix).strip()
        if self.suffix:
            body = body.removesuffix(self.suffix).strip()
        factor = 1.0
        if self.magnitudes and (last := next((each for each in MAGNITUDES if body.endswith(each)), "")):
            body, factor = body.removesuffix(last).strip(), MAGNITUDES[last]
        if self.thousands:
            body = _SPACES.sub("", body)
        if self.decimal_comma:
            if self.thousands and _COMMA_THOUSANDS.fullmatch(body):
                body = body.replace(".", "")
            if not _COMMA_NUMBER.fullmatch(body) and not _NUMBER.fullmatch(body):
                return None
            body = body.replace(",", ".")
        else:
            if self.thousands and _THOUSANDS.fullmatch(body):
                body = body.replace(",", "")
            if not _NUMBER.fullmatch(body):
                return None
        value = factor * float(body)
        return value if math.isfinite(value) else None

    @property
    def unit(self) -> str:
        """What the prefix or suffix says of the unit."""
        return self.prefix or self.suffix


PLAIN = NumberFormat()


def number_format(texts: Sequence[str], decimal_comma: bool = False) -> NumberFormat:
    """The format that reads most of a column's texts.

    Args:
        texts: Cells that are not missing.
        decimal_comma: Whether other columns of the same file have decimal commas.
    """
    if all(_NUMBER.fullmatch(text) for text in texts) and not (
        decimal_comma and all(_COMMA_THOUSANDS.fullmatch(text) for text in texts)
    ):
        return PLAIN
    prefix, suffix, bodies = _affixes(texts)
    magnitudes = _has_magnitudes(texts, prefix)
    suffix = "" if magnitudes else suffix
    candidates = [
        NumberFormat(comma, thousands, prefix, suffix, magnitudes)
        for comma in ((True, False) if decimal_comma else (False, True))
        for thousands in (False, True)
    ]
    # 1,234 is a thousand unless another cell can only be a decimal comma
    grouped = _COMMA_THOUSANDS if decimal_comma else _THOUSANDS
    if any(grouped.fullmatch(body) for body in bodies):
        candidates.sort(key=lambda each: (each.decimal_comma != decimal_comma, not each.thousands))
    read = [(sum(form.read(text) is not None for text in texts), form) for form in candidates]
    most = max(count for count, _ in read)
    return next(form for count, form in read if count == most)


def has_decimal_comma(texts: Sequence[str]) -> bool:
    """Whether a column can only be numbers with decimal commas.

    Args:
        texts: Cells that are not missing.
    """
    _, _, bodies = _affixes(texts)
    with_comma = [body for body in bodies if "," in body]
    if not with_comma or not all(
        _COMMA_NUMBER.fullmatch(body) or _COMMA_THOUSANDS.fullmatch(body) for body in bodies
    ):
        return False
    return any(not _THOUSANDS.fullmatch(body) for body in with_comma)


def may_be_decimal_comma(texts: Sequence[str]) -> bool:
    """Whether all numbers of a column have a comma before three digits, so that it may be either.

    Args:
        texts: Cells that are not missing.
    """
    _, _, bodies = _affixes(texts)
    return bool(bodies) and all(_EITHER.fullmatch(body) for body in bodies)


def has_point(texts: Sequence[str]) -> bool:
    """Whether a column holds numbers with a decimal point.

    Args:
        texts: Cells that are not missing.
    """
    _, _, bodies = _affixes(texts)
    return any("." in body and (_NUMBER.fullmatch(body) or _THOUSANDS.fullmatch(body)) for body in bodies)


def _affixes(texts: Sequence[str]) -> tuple[str, str, list[str]]:
    """What stands before and after most numbers, and the numbers without it."""
    parts = [match.groups() for text in texts if (match := _AFFIX.match(text.replace("\u2212", "-")))]
    if not parts:
        return "", "", []
    prefix = Counter(before for before, _, _ in parts).most_common(1)[0][0]
    suffix = Counter(after for _, _, after in parts).most_common(1)[0][0]
    prefix = prefix if prefix in CURRENCIES else ""
    suffix = suffix if suffix in CURRENCIES or _UNIT.fullmatch(suffix) else ""
    return prefix, suffix, [body.strip() for _, body, _ in parts]


def _has_magnitudes(texts: Sequence[str], prefix: str) -> bool:
    """Whether two magnitudes and more stand behind numbers, or one behind some amounts of money."""
    behind = {match[3] for text in texts if (match := _AFFIX.match(text))}
    return behind <= {"", *MAGNITUDES} and len(behind - ({""} if prefix not in CURRENCIES else set())) > 1
