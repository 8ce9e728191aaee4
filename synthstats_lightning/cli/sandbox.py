"""`synthstats-lightning sandbox`: whether programs can be confined on this machine, proved by attacking."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.cli.errors import FAILED
from synthstats_lightning.confinement import Level
from synthstats_lightning.sandbox import Sandbox, SandboxError, SandboxLimits
from synthstats_lightning.sandbox.self_check import SelfCheck, self_check


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("--sandbox", type=Level, default="strict", help="how strictly programs are confined")
    parser.add_argument("--json", type=str | None, default=None, help="write the outcome to this file")
    parser.add_class_arguments(SandboxLimits, "limits")


def run(options: Namespace) -> SelfCheck:
    """Runs the self-check and prints it.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Raises:
        SystemExit: With `FAILED` if a probe succeeded, or if this machine cannot confine programs at that
            level.
    """
    console = Console(soft_wrap=True)
    try:
        with Sandbox(options.limits, level=options.sandbox) as sandbox:
            check = self_check(sandbox)
    except SandboxError as error:
        console.print(f"no sandbox at level {options.sandbox}: {escape(str(error))}")
        raise SystemExit(FAILED) from None
    if options.json is not None:
        target = Path(options.json)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(asdict(check), indent=2) + "\n", encoding="utf-8")
    console.print(_table(check))
    for layer, reason in check.missing.items():
        console.print(f"{layer} is off: {escape(reason)}")
    held = len(check.outcomes) - len(check.succeeded) - len(check.remaining)
    console.print(
        f"level {check.level}: {held} of {len(check.outcomes)} attempts refused in {check.seconds:.2f} s"
    )
    if check.succeeded:
        raise SystemExit(FAILED)
    return check


def _table(check: SelfCheck) -> Table:
    table = Table("a confined process tried to", "outcome", title="Sandbox self-check")
    for name, (text, success) in check.outcomes.items():
        held = "possible on this machine" if name in check.remaining else "[bold red]SUCCEEDED[/]"
        table.add_row(escape(text), held if success else "refused")
    return table
