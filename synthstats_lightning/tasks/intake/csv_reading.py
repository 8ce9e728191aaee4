"""CSV files as people have them: any usual delimiter and encoding, quoted line breaks, names of rows."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from pathlib import Path

from synthstats_lightning.tasks.intake.numbers import (
    PLAIN,
    has_decimal_comma,
    has_point,
    may_be_decimal_comma,
)
from synthstats_lightning.tasks.intake.raw_table import Cell, RawTable, distinct_names

DELIMITERS = (",", ";", "\t", "|")
SNIFFED_ROWS = 200
MOST_TITLES = 5
"""Lines of one field above the header of a table of several, or below the table, at most."""
ROW_NAMES = "row_names"
"""What the first column is called where the header has one field less than every row."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_csv_table(path: Path, delimiter: str | None = None, encoding: str | None = None) -> RawTable:
    """Reads a file of delimited text with a header line; every cell stays a text.

    Args:
        path: Where the file lies.
        delimiter: One character; by default the one that cuts the lines evenly.
        encoding: By default that of its byte-order mark, else UTF-8, else Windows' Western one.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If it has no rows, a row has another number of fields than the header, or its bytes are no
            text.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no CSV file at {path}")
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, got {delimiter!r}")
    text, notes = _decode(path, encoding)
    text = text.rstrip("\x1a")  # how DOS ends a file
    lines_before = 0
    while text.startswith("#"):
        _, _, text = text.partition("\n")
        lines_before += 1
    if lines_before:
        notes.append(f"{lines_before} lines that begin with # before the header are left out")
    if text[:4] == "sep=":
        delimiter, text = delimiter or text[4], text.partition("\n")[2]
        lines_before += 1
    chosen = delimiter or _delimiter(text) or _delimiter(text, titles=True) or ","
    rows, numbers = _rows(path, text, chosen)
    rows = [[cell.strip() for cell in row] for row in rows]
    # a line of delimiters only is no row
    kept = [place for place, row in enumerate(rows) if place == 0 or any(row)]
    rows, numbers = [rows[place] for place in kept], [numbers[place] + lines_before for place in kept]
    rows, numbers = _without_remarks(rows, numbers, notes)
    if len(rows) < 2:
        raise ValueError(f"{path} needs a header line and at least one row")
    if chosen != ",":
        named = {"\t": "tabs", " ": "spaces"}.get(chosen, repr(chosen))
        notes.append(f"fields are separated by {named}")
    header = _fit_header(path, rows, numbers, notes)
    names = distinct_names(header)
    repeated = sorted(name for name, count in Counter(filter(None, header)).items() if count > 1)
    if repeated:
        notes.append(f"columns of the same name ({', '.join(repeated)}) are told apart by numbers")
    columns: dict[str, list[Cell]] = {
        name: [row[place] for row in rows[1:]] for place, name in enumerate(names)
    }
    comma = chosen != "," and _has_decimal_commas(columns, chosen, notes)
    return RawTable(str(path), columns, {}, numbers[1], tuple(notes), comma)


def _has_decimal_commas(columns: dict[str, list[Cell]], delimiter: str, notes: list[str]) -> bool:
    """Whether a comma stands before decimals, which is why many files are separated by semicolons."""
    few = [[str(cell) for cell in cells if cell][:SNIFFED_ROWS] for cells in columns.values()]
    if any(map(has_decimal_comma, few)):
        notes.append("numbers have decimal commas")
        return True
    if delimiter == ";" and any(map(may_be_decimal_comma, few)) and not any(map(has_point, few)):
        notes.append("1,234 is taken for 1.234, as in most files that are separated by semicolons")
        return True
    return False


def _decode(path: Path, encoding: str | None) -> tuple[str, list[str]]:
    raw = path.read_bytes()
    if encoding is not None:
        try:
            return raw.decode(encoding), []
        except (LookupError, UnicodeError) as error:
            raise ValueError(f"{path} cannot be read as encoding {encoding!r}: {error}") from None
    marked = next((name for mark, name in _MARKS if raw.startswith(mark)), None)
    if marked is None and b"\x00" in raw[:4096]:
        raise ValueError(f"{path} is no text file: it holds zero bytes (give `encoding` if it is text)")
    for name in (marked,) if marked else ("utf-8", "cp1252", "latin-1"):
        try:
            text = raw.decode(name)
        except UnicodeError:
            continue
        return text, [] if name.startswith("utf-8") else [f"read as {name}"]
    raise ValueError(f"{path} cannot be read as {marked}, which its first bytes name: give `encoding`")


def _delimiter(text: str, titles: bool = False) -> str:
    """The delimiter that cuts the first lines, after titles or not, into the same number of fields.

    Empty where none makes more than one.
    """
    sample = text[:200_000]
    best, most = "", 1
    for delimiter in (*DELIMITERS, " "):
        if delimiter == " " and most > 1:  # only where nothing else separates anything
            break
        counts = []
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True):
            if row:
                counts.append(len(row))
            if len(counts) == SNIFFED_ROWS:
                break
        counts = _of_table(counts) if titles and delimiter != " " else counts
        if not counts:
            continue
        fields, number = Counter(counts).most_common(1)[0]
        # the header may lack the name of the rows' names
        fits = counts[0] == fields or (counts[0] == fields - 1 > 1)
        if fields > most and fits and number >= 0.9 * len(counts):
            best, most = delimiter, fields
    return best


def _of_table(counts: list[int]) -> list[int]:
    """Numbers of fields without those of a few lines of one field above the header or below the table."""
    first, last = 0, len(counts)
    while first < min(MOST_TITLES, last) and counts[first] == 1:
        first += 1
    while last > first and len(counts) - last < MOST_TITLES and counts[last - 1] == 1:
        last -= 1
    return counts[first:last] if last - first >= 3 and 2 * (last - first) > len(counts) else counts


def _rows(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Rows that are not empty, and the lines that they end on."""
    csv.field_size_limit(10_000_000)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows, numbers = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                numbers.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
    return rows, numbers


def _without_remarks(
    rows: list[list[str]], numbers: list[int], notes: list[str]
) -> tuple[list[list[str]], list[int]]:
    """Rows without titles above the header and remarks below the table, which fill one field of several."""
    filled = [sum(map(bool, row)) for row in rows]
    width = Counter(filled).most_common(1)[0][0] if rows else 0
    first = 0
    while first < min(MOST_TITLES, len(rows)) and filled[first] == 1 < width and rows[first][0]:
        first += 1
    named = first < len(rows) and filled[first] >= width - 1 and not any(map(_is_number, rows[first]))
    if not first or not named:
        first = 0
    last = len(rows)
    below = max(len(rows) - MOST_TITLES, first + 2)
    while last > below and len(rows[last - 1]) == 1 < width and not _is_number(rows[last - 1][0]):
        last -= 1
    for where, left in (("above the header", rows[:first]), ("below the table", rows[last:])):
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            notes.append(f"left out {where}: the line {left[0][0][:60]!r}{more}")
    return rows[first:last], numbers[first:last]


def _is_number(text: str) -> bool:
    return PLAIN.read(text) is not None


def _fit_header(path: Path, rows: list[list[str]], numbers: list[int], notes: list[str]) -> list[str]:
    """The header, with rows and it made to agree where a delimiter ends each line or rows have names."""
    header = rows[0]
    lengths = {len(row) for row in rows[1:]}
    if lengths == {len(header) + 1} and any(row[-1] for row in rows[1:]):
        notes.append(f"the header has one name less than there are fields: the first is called {ROW_NAMES}")
        return [ROW_NAMES, *header]
    width = len(header)
    # delimiters at the ends of lines
    while width > 1 and not header[width - 1] and not any("".join(row[width - 1 :]) for row in rows[1:]):
        width -= 1
    if width < len(header):
        notes.append("delimiters at the ends of lines are left out")
    for place, row in enumerate(rows[1:], start=1):
        if len(row) < width or any(row[width:]):
            raise ValueError(
                f"{path}, line {numbers[place]}: {len(row)} fields, the header has {len(header)}"
            )
        del row[width:]
    return header[:width]
