"""The house in figures: files, folders, circles, and whether every pair of overlays keeps the target.

    python benchmarks/rooms.py --json rooms.json

JSON: `{root_files, largest_folder, circles, files_over_500, median_lines, readme_lines, overlay_pairs,
overlay_pairs_failing}`. A folder's files are its own, not those of its folders; circles are sets of modules
that import each other, also where the import stands in a function or only types need it.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import numpy as np
from figures_file import Options, figures_file
from rich.console import Console
from rich.table import Table
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from synthstats_lightning.testing.overlays import failing_pairs, overlay_pairs

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "synthstats_lightning"
SHIPPED = (PACKAGE, "configs", "tests", "benchmarks", "docs")
MADE = {"__pycache__", "_build", ".ipynb_checkpoints"}
"""Folders that tools leave behind."""


def files_of(folder: Path) -> Iterator[Path]:
    """Every file below a folder that somebody wrote."""
    for path in folder.rglob("*"):
        if path.is_file() and not MADE.intersection(path.parts):
            yield path


def circles(package: str) -> list[set[str]]:
    """Sets of modules that import each other, directly or through others.

    Args:
        package: An importable package.
    """
    graph = grimp.build_graph(package)
    modules = sorted(graph.modules)
    number = {module: index for index, module in enumerate(modules)}
    edges = [
        (number[module], number[imported])
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
    ]
    rows, columns = np.array(edges).T
    matrix = coo_matrix((np.ones(len(edges)), (rows, columns)), shape=(len(modules), len(modules)))
    _, labels = connected_components(matrix, directed=True, connection="strong")
    shared = {label for label, size in Counter(labels.tolist()).items() if size > 1}
    return [{m for m in modules if labels[number[m]] == label} for label in sorted(shared)]


def folders() -> Counter[Path]:
    """How many files of its own each folder of this checkout has."""
    return Counter(path.parent for name in SHIPPED for path in files_of(ROOT / name))


def measure() -> dict[str, Any]:
    """The figures of this checkout."""
    largest, files = folders().most_common(1)[0]
    pairs = list(overlay_pairs())
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / PACKAGE).rglob("*.py")}
    return {
        "root_files": sum(path.is_file() for path in (ROOT / PACKAGE).iterdir()),
        "largest_folder": files,
        "largest_folder_name": str(largest.relative_to(ROOT)),
        "circles": len(circles(PACKAGE)),
        "files_over_500": sum(count > 500 for count in lines.values()),
        "median_lines": statistics.median(lines.values()),
        "readme_lines": len((ROOT / "README.md").read_text().splitlines()),
        "overlay_pairs": len(pairs),
        "overlay_pairs_failing": len(failing_pairs(pairs)),
    }


def main() -> None:
    """Measures, prints and writes."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    arguments = parser.parse_args()
    figures = measure()
    table = Table(title="Rooms")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, str(value))
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
