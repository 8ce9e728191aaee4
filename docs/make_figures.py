"""The page of measured figures, from the JSON files in `docs/figures`.

    python docs/make_figures.py              # writes docs/generated/measured.md; Sphinx does so by itself

A file holds one table: `title`, `order`, `scripts` (of `benchmarks/`), `note`, `columns`, and `rows` of
`figure`, `values` (one text a column) and `recorded` (the commit and day that wrote them down). A text may
hold fields in braces, such as `{quickstart[log_z_gap]:.2f} nats`: they are filled from what
`benchmarks/quickstart.py --json docs/figures/values/quickstart.json` wrote. An optional `first_column` names
the first column.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures"
HEAD = """\
# Measured figures

Two cores, Python 3.11, PyTorch 2.13, one run of each script in `benchmarks/`, which
`python benchmarks/NAME.py --json PATH` repeats. The last column says which commit wrote a figure down, and
when: what the code has become since was not measured again.
"""


def rendered(table: dict[str, Any], values: dict[str, Any]) -> str:
    """One table as Markdown.

    Args:
        table: Content of a file in `docs/figures`.
        values: Name of a benchmark to what its `--json` wrote.
    """
    columns = [table.get("first_column", "figure"), *table["columns"], "written down"]
    scripts = ", ".join(f"`{name}`" for name in table["scripts"])
    lines = [f"## {table['title']}", "", f"{table['note']} Made by {scripts}.".strip(), ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in table["rows"]:
        recorded = f"{row['recorded']['date']}, {row['recorded']['commit']}"
        cells = [row["figure"], *(text.format(**values) for text in row["values"]), recorded]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    values = {path.stem: json.loads(path.read_text()) for path in (FIGURES / "values").glob("*.json")}
    tables = [json.loads(path.read_text()) for path in FIGURES.glob("*.json")]
    tables.sort(key=lambda table: table["order"])
    return "\n".join([HEAD, *(rendered(table, values) for table in tables)])


def main() -> None:
    """Writes the page."""
    path = HERE / "generated" / "measured.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(page())


if __name__ == "__main__":
    main()
