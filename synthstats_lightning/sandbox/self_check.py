"""Whether confinement holds on this machine, found by attacking it from inside before any program runs."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from synthstats_lightning.confinement import Level
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox.client import Sandbox
from synthstats_lightning.sandbox.probe_programs import DEADLY, PROBES, UNSEEN, program
from synthstats_lightning.sandbox.process import SandboxError


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What came of attacking a sandbox.

    Attributes:
        level: How strictly the kernel confines programs there.
        missing: Layer to why it is off.
        outcomes: Probe to what it attempted and whether it succeeded.
        seconds: How long it took.
    """

    level: Level
    missing: Mapping[str, str]
    outcomes: Mapping[str, tuple[str, bool]]
    seconds: float

    @property
    def succeeded(self) -> list[str]:
        """Probes that succeeded though the level promises that they do not; none should."""
        return [name for name in self._successes if name not in self.remaining]

    @property
    def remaining(self) -> list[str]:
        """Probes that succeeded because this machine lacks what level `standard` needs to refuse them."""
        known = UNSEEN if self.level == "standard" and "tree" in self.missing else frozenset()
        return [name for name in self._successes if name in known]

    @property
    def _successes(self) -> list[str]:
        return [name for name, (_, success) in self.outcomes.items() if success]


def self_check(sandbox: Sandbox) -> SelfCheck:
    """Attacks a sandbox from inside one of its confined processes.

    The probes' own word is not all that counts: a file that they should not reach is compared afterwards.

    Args:
        sandbox: It is started if need be.

    Raises:
        SandboxError: If the probes could not be run to their end, which proves nothing.
    """
    sandbox.start()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="synthstats-probe-") as folder:
        # within reach of every user, so that only confinement protects the file
        Path(folder).chmod(0o755)
        canary = Path(folder) / "canary"
        canary.write_text("canary", encoding="ascii")
        canary.chmod(0o666)
        before = _state(canary)
        succeeded = _run(sandbox, list(PROBES), canary)
        for name in DEADLY:
            succeeded |= _run(sandbox, [name], canary)
        if _state(canary) != before:
            succeeded.add("write")
    outcomes = {name: (text, name in succeeded) for name, (text, _) in (PROBES | DEADLY).items()}
    return SelfCheck(sandbox.level, sandbox.missing, outcomes, time.monotonic() - started)


def require_confinement(sandbox: Sandbox) -> None:
    """Refuses to go on with a sandbox that does not hold; does nothing in level `none`.

    Raises:
        SandboxError: If a probe succeeded.
    """
    if sandbox.level == "none":
        return
    check = self_check(sandbox)
    if check.succeeded:
        attempts = "; ".join(check.outcomes[name][0] for name in check.succeeded)
        raise SandboxError(
            f"the sandbox (level {check.level}) does not hold here: a confined process could {attempts}"
        )


def _run(sandbox: Sandbox, names: list[str], canary: Path) -> set[str]:
    mark = f"probe-{secrets.token_hex(8)}"
    temporary = Path(tempfile.gettempdir()) / mark
    try:
        printed = sandbox.execute(program(names, os.getpid(), str(canary), mark))
    except ProgramFailure as failure:
        if len(names) == 1 and failure.category is FailureCategory.KILLED:
            return set()
        raise SandboxError(f"the self-check could not be run: {failure}") from failure
    finally:
        temporary.unlink(missing_ok=True)
    lines = [line.partition(" ")[2] for line in printed.splitlines() if line.startswith(mark)]
    if "done" not in lines:
        raise SandboxError("the self-check did not run to its end")
    return {line for line in lines if line in names}


def _state(canary: Path) -> tuple[object, ...]:
    if not canary.exists():
        return ()
    found = canary.stat()
    names = sorted(os.listdir(canary.parent))
    return (canary.read_bytes(), stat.S_IMODE(found.st_mode), found.st_mtime_ns, names)
