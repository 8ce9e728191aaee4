"""What the documentation's pages hold: commands, and files named by their first line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = "synthstats-lightning"


def pages() -> list[Path]:
    """README, CONTRIBUTING and every page of the site that is written by hand."""
    written = [path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts]
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted(path for path in written if "_build" not in path.parts),
    ]


def blocks(page: Path, language: str) -> list[str]:
    """The texts of a page's code blocks in one language.

    Args:
        page: Markdown.
        language: As written after the backticks.
    """
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def files(page: Path) -> dict[str, str]:
    """Name to content of the files that a page shows: blocks that begin with `# NAME.py` or `# NAME.yaml`.

    Args:
        page: Markdown.
    """
    found = {}
    for language in ("python", "yaml"):
        for text in blocks(page, language):
            if match := re.match(r"# (\w+\.(?:py|yaml))\n", text):
                found[match[1]] = text
    return found


def commands(page: Path) -> list[list[str]]:
    """The arguments of every command of the package that a page shows.

    Args:
        page: Markdown.
    """
    found = []
    for text in blocks(page, "bash"):
        for line in text.replace("\\\n", " ").splitlines():
            for part in line.split(" && "):
                words = shlex.split(part, comments=True)
                names = [
                    n for n, word in enumerate(words) if word.endswith((PROGRAM, "synthstats_lightning"))
                ]
                if names and (words[names[0]].endswith(PROGRAM) or words[names[0] - 1] == "-m"):
                    found.append(words[names[0] + 1 :])
    return found
