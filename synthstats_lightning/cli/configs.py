"""`synthstats-lightning configs`: lists the package's configurations, prints one, or copies it out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import fail
from synthstats_lightning.runtime.shipped import shipped_configs, shipped_file


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument(
        "name",
        type=str | None,
        nargs="?",
        default=None,
        help="of a configuration, such as trainer/ddp: prints it; without a name, all are listed",
    )
    parser.add_argument("--output", type=str | None, default=None, help="copy it to this file instead")


def run(options: Namespace) -> dict[str, str] | str:
    """Lists configurations, prints one or copies it out.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        Names and first lines of all; of one its text.

    Raises:
        SystemExit: With `WRONG_USAGE` if there is no such configuration, or the output is there already.
    """
    if options.name is None:
        if options.output is not None:
            fail("--output needs the name of a configuration")
        found = first_lines()
        width = max(map(len, found))
        _print("".join(f"{name:<{width}}  {text}\n" for name, text in found.items()))
        return found
    path = shipped_file(options.name, ("", ".yaml"))
    if path is None:
        fail(f"no configuration {options.name!r} in the package; `synthstats-lightning configs` lists them")
    text = path.read_text(encoding="utf-8")
    if options.output is None:
        _print(text)
        return text
    target = Path(options.output)
    if target.exists():
        fail(f"{target} is there already")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{target} is a copy of {options.name}")
    return text


def _print(text: str) -> None:
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:  # who reads it, such as `head`, has enough; so that Python's end is quiet, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def first_lines() -> dict[str, str]:
    """Names of the shipped configurations, and what each says of itself in its first line."""
    folder = shipped_configs()
    return {
        str(path.relative_to(folder).with_suffix("")): path.read_text(encoding="utf-8")
        .partition("\n")[0]
        .removeprefix("# ")
        .removeprefix("Overlay: ")
        for path in sorted(
            folder.rglob("*.yaml"), key=lambda path: (len(path.relative_to(folder).parts), path)
        )
    }
