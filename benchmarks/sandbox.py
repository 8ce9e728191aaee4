"""The whole corpus of hostile and honest programs against the sandbox, with effects observed from outside.

Runs as root and as an ordinary user, each on a plain machine, under an imitation of Docker's default filter,
and with Landlock answered by ENOSYS; then removes one layer and one argument rule after the other, each of
which must let a program through. Without root only the ordinary user's part runs.

Usage: `python benchmarks/sandbox.py --corpus programs.json --json sandbox.json` (about ten minutes);
`--mixed 10000` adds a long run of honest programs with one hostile in ten.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console
from rich.table import Table
from sandbox_parts.sandbox_canaries import Canaries
from sandbox_parts.sandbox_corpus import CorpusRunner, read_cases
from sandbox_parts.sandbox_forge import FORGED
from sandbox_parts.sandbox_machines import OUTER, become, imitate, ordinary_user, remove_user
from sandbox_parts.sandbox_mixed import mixed_run
from sandbox_parts.sandbox_mutations import MUTATIONS, make_setuid, remove_setuid, run_mutation
from sandbox_parts.sandbox_reading import passes_reading
from sandbox_parts.sandbox_timing import child_megabytes, milliseconds, throughput

from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.scoring.process.client import ScoringClient

LIMITS = SandboxLimits(cpu_seconds=2, wall_seconds=3.0)
OWN_CASES = Path(__file__).parent / "sandbox_parts" / "sandbox_cases.json"
SUMMARIES = {"ok-az-summary"}
"""Honest programs that need not be accepted in level strict."""
TARGETS = {
    "effects": ("", 0.0),
    "hacks_with_gain": ("", 0.0),
    "leaked": ("", 0.0),
    "confinement_ms": (" ms", 3.0),
    "trivial_ms": (" ms", 12.0),
    "overhead_ms": (" ms", 40.0),
    "child_mb": (" MB", 30.0),
}


def run_part(options: argparse.Namespace) -> dict[str, Any]:
    """One part of the benchmark, in a process of its own."""
    warnings.simplefilter("ignore")
    if options.part == "timing":
        with Sandbox(level=options.level) as sandbox:
            return {
                **milliseconds(sandbox, options.repeats),
                "child_mb": child_megabytes(sandbox),
                "two_workers": throughput(options.repeats),
            }
    cases = read_cases(Path(options.corpus), OWN_CASES) + FORGED
    if options.part == "mixed":
        return mixed_run(cases, options.mixed)
    canaries = Canaries()
    try:
        if options.part == "mutation":
            return run_mutation(options.mutation, cases, canaries)
        imitate(options.outer)
        # which the filter just installed would be asked about for every call of PyTorch's
        scoring = ScoringClient() if options.outer == "plain" else None
        with Sandbox(LIMITS, level=options.level) as sandbox:
            report = CorpusRunner(sandbox, canaries, scoring).run(
                [case for case in cases if not options.only or case["id"] in options.only]
            )
        if scoring is not None:
            scoring.close()
        return asdict(report)
    finally:
        canaries.close()


def start_part(arguments: list[str], user: int) -> dict[str, Any]:
    """Has a part run as some user and returns what it found."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        result = Path(folder) / "part.json"
        command = [sys.executable, __file__, "--user", str(user), "--json", str(result), *arguments]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return found


def all_parts(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Every part, one after the other; ordinary users get only their own."""
    root = os.geteuid() == 0
    ordinary = ordinary_user() if root else 0
    corpus = ["--corpus", options.corpus]
    reports: dict[str, dict[str, Any]] = {}
    try:
        if root:
            make_setuid()
        for outer in options.outers:
            for name, user in (("root", 0), ("user", ordinary))[0 if root else 1 :]:
                key = f"{name}, {outer}"
                reports[key] = start_part(["--part", "corpus", "--outer", outer, *corpus], user)
                console.print(f"strict, {key}: {_short(reports[key])}")
        standard = start_part(["--part", "corpus", "--level", "standard", *corpus], ordinary)
        console.print(f"standard, user, plain: {_short(standard)}")
        mutations = {}
        for mutation in MUTATIONS:
            if mutation.root and not root:
                continue
            arguments = ["--part", "mutation", "--mutation", mutation.name, *corpus]
            mutations[mutation.name] = start_part(arguments, 0 if mutation.root else ordinary)
            console.print(f"without {mutation.name}: {mutations[mutation.name]}")
        timing = start_part(["--part", "timing", "--repeats", str(options.repeats), *corpus], 0)
        mixed = None
        if options.mixed:
            mixed = start_part(["--part", "mixed", "--mixed", str(options.mixed), *corpus], 0)
    finally:
        if root:
            remove_user()
            remove_setuid()
    return {
        "reports": reports,
        "standard": standard,
        "mutations": mutations,
        "timing": timing,
        "mixed": mixed,
        "read": _reading(options),
    }


def figures(parts: dict[str, Any]) -> dict[str, Any]:
    """The benchmark's figures, over all parts."""
    reports = list(parts["reports"].values())
    keys = ("confinement_ms", "trivial_ms", "overhead_ms", "overhead_ms_p99", "child_mb")
    mixed = parts["mixed"]
    return {
        "cases": sum(report["cases"] for report in reports),
        "effects": sum(len(report["effects"]) for report in reports),
        "honest": sum(len(report["honest"]) for report in reports),
        "honest_accepted": sum(len(report["honest_accepted"]) for report in reports),
        "hacks": sum(len(report["hacks"]) for report in reports),
        "hacks_with_gain": sum(len(report["hacks_with_gain"]) for report in reports),
        **{key: round(parts["timing"][key], 3) for key in keys},
        "leaked": sum(report["leaked"] for report in reports) + (mixed["leaked"] if mixed else 0),
        "layers_removed": len(parts["mutations"]),
        "layers_that_matter": sum(found["matters"] for found in parts["mutations"].values()),
    }


def _short(report: dict[str, Any]) -> str:
    refused = sorted(set(report["honest"]) - set(report["honest_accepted"]))
    return (
        f"{report['cases']} cases, effects {report['effects'] or 'none'}, honest refused {refused or 'none'},"
        f" {len(report['hacks'])} hacks of which gained {report['hacks_with_gain'] or 'none'},"
        f" leaked {report['leaked']}"
    )


def _reading(options: argparse.Namespace) -> tuple[int, int]:
    hostile = [c for c in read_cases(Path(options.corpus)) if c["effect"]["kind"] not in ("benign", "none")]
    return sum(passes_reading(case["code"]) for case in hostile), len(hostile)


def main() -> None:
    """Runs the benchmark, or one part of it."""
    parser = Options(description=__doc__)
    parser.add_argument("--json", type=figures_file, required=True, help="where the figures are written")
    parser.add_argument("--corpus", required=True, help="the corpus's programs.json")
    parser.add_argument("--outers", nargs="+", choices=OUTER, default=OUTER, help="machines to imitate")
    parser.add_argument("--mixed", type=int, default=0, help="programs of the long run")
    parser.add_argument("--repeats", type=int, default=100, help="programs a timing")
    parser.add_argument("--level", default="strict", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=("corpus", "mutation", "timing", "mixed"), help=argparse.SUPPRESS)
    parser.add_argument("--outer", choices=OUTER, default="plain", help=argparse.SUPPRESS)
    parser.add_argument("--mutation", help=argparse.SUPPRESS)
    parser.add_argument("--user", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", default=[], help="ids of cases, with --part corpus")
    options = parser.parse_args()
    if options.part:
        if options.user:
            become(options.user)
        options.json.write_text(json.dumps(run_part(options)), encoding="utf-8")
        return
    console = Console(soft_wrap=True)
    parts = all_parts(options, console)
    found = figures(parts)
    table = Table("figure", "value", "target", title="Sandbox")
    for name, value in found.items():
        unit, target = TARGETS.get(name, ("", None))
        table.add_row(name, f"{value}{unit}", "" if target is None else f"at most {target:g}{unit}")
    console.print(table)
    console.print(f"two workers: {parts['timing']['two_workers']:.2f} times one (target 1.7)")
    passed, hostile = parts["read"]
    console.print(f"reading the source alone lets {passed} of {hostile} hostile programs through")
    if parts["mixed"]:
        console.print(f"mixed run: {parts['mixed']}")
    options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
