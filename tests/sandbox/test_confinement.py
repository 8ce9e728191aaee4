"""Confined programs as a whole: the self-check, levels, recycling, and the scoring process."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import synthstats_lightning
from synthstats_lightning.cli.main import main
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox import Sandbox, SandboxError, SandboxLimits, UnconfinedWarning, client
from synthstats_lightning.sandbox.probe_programs import DATA, DEADLY, PROBES
from synthstats_lightning.sandbox.self_check import require_confinement, self_check
from synthstats_lightning.scoring.process.client import ScoringClient
from tests.sandbox.conftest import COVARIATES, LINEAR, SCHEMA
from tests.sandbox.observe import gone

UNREADABLE = r"PermissionError|FileNotFoundError"


def test_self_check(sandbox: Sandbox) -> None:
    check = self_check(sandbox)
    assert check.succeeded == []
    assert list(check.outcomes) == [*PROBES, *DEADLY]
    assert len(check.outcomes) >= 25
    # 0.05 s on a machine with nothing else to do
    assert check.seconds < 10.0
    assert check.level == "strict"
    require_confinement(sandbox)


@pytest.fixture(scope="module")
def open_sandbox() -> Sandbox:
    """One whose programs keep what the trainer may do."""
    with pytest.warns(UnconfinedWarning):
        sandbox = Sandbox(SandboxLimits(processes=50), level="none", without=["user"])
    with sandbox:
        yield sandbox.start()


def test_the_probes_can_succeed(open_sandbox: Sandbox) -> None:
    """Otherwise that they fail would prove nothing."""
    check = self_check(open_sandbox)
    # the rest needs what this machine may not have, or what every child gives up
    rarely = {
        "variables",
        "io_uring",
        "bpf",
        "message queue",
        "root",
        "x32",
        "vsock",
        "packet",
        "userfaultfd",
    }
    rarely |= {"user namespace", "keyring", "ptrace", "memory", "fork", "int 0x80", "inet6"}
    assert set(check.outcomes) - set(check.succeeded) <= rarely
    require_confinement(open_sandbox)  # level none promises nothing


@pytest.fixture(scope="module")
def holed() -> Iterator[Sandbox]:
    """One with a hole."""
    with Sandbox(without=["argument:prctl"]) as sandbox:
        yield sandbox.start()


def test_a_hole_is_refused(holed: Sandbox) -> None:
    assert set(self_check(holed).succeeded) == {"death signal", "dumpable"}
    with pytest.raises(
        SandboxError, match="does not hold here: a confined process could outlive the worker; become"
    ):
        require_confinement(holed)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "check.json"
    check = main(["sandbox", "--json", str(path)])
    assert check.succeeded == []
    written = json.loads(path.read_text())
    assert written["level"] == "strict"
    assert written["outcomes"]["fork"] == ["fork", False]
    assert f"{len(check.outcomes)} of {len(check.outcomes)} attempts refused" in capsys.readouterr().out


def test_command_fails_closed(
    holed: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("synthstats_lightning.cli.sandbox.Sandbox", lambda *_, **__: nullcontext(holed))
    with pytest.raises(SystemExit) as caught:
        main(["sandbox"])
    assert caught.value.code == 1
    assert "SUCCEEDED" in capsys.readouterr().out


def test_level_none_warns_every_time() -> None:
    for _ in range(2):
        with pytest.warns(UnconfinedWarning, match="programs run without the kernel's confinement"):
            Sandbox(level="none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Sandbox()


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match=r"max_age must be a positive number of seconds, got 0.0"):
        Sandbox(max_age=0.0)
    with pytest.raises(ValueError, match=r"max_growth must be a positive share, got -1.0"):
        Sandbox(max_growth=-1.0)


def _others_may_read(path: str) -> bool:
    """Programs of root's run as another user, who may be shut out of root's own interpreter."""
    return os.geteuid() != 0 or all(p.stat().st_mode & 0o001 for p in Path(path).resolve().parents)


@pytest.mark.parametrize("level", ["standard", "plus"])
def test_other_levels_build_the_same_graph(level: str, sandbox: Sandbox) -> None:
    with Sandbox(level=level) as other:
        assert other.build(LINEAR, SCHEMA, COVARIATES) == sandbox.build(LINEAR, SCHEMA, COVARIATES)
        assert other.level == level
        with pytest.raises(ProgramFailure, match=UNREADABLE):
            other.execute("open('/etc/passwd')")


def _own_standard(without: list[str]) -> Iterator[Sandbox]:
    with Sandbox(SandboxLimits(wall_seconds=1.0), level="standard", without=without) as own:
        yield own.start()


@pytest.fixture(scope="module")
def standard() -> Iterator[Sandbox]:
    """Level `standard` as this machine has it."""
    yield from _own_standard([])


@pytest.fixture(scope="module")
def treeless() -> Iterator[Sandbox]:
    """The same as on a machine that allows no mount namespaces."""
    yield from _own_standard(["tree"])


@pytest.fixture(params=["standard", pytest.param("treeless", marks=pytest.mark.slow)])
def reading(request: pytest.FixtureRequest) -> Sandbox:
    """Either."""
    found: Sandbox = request.getfixturevalue(request.param)
    return found


def test_standard_still_imports(reading: Sandbox) -> None:
    if "tree" in reading.missing and not _others_may_read(os.__file__):
        pytest.skip("programs' user may not read the interpreter")
    source = "import wave, sched, scipy.signal, this as _; print(wave.__name__, scipy.signal.__name__)"
    assert reading.execute(source).endswith("wave scipy.signal\n")


def test_standard_passes_its_self_check(reading: Sandbox) -> None:
    check = self_check(reading)
    assert check.succeeded == []
    assert set(check.remaining) <= ({"existence", "processes"} if "tree" in check.missing else set())
    require_confinement(reading)


def test_without_a_tree_what_exists_can_be_seen(treeless: Sandbox) -> None:
    assert self_check(treeless).remaining == ["existence", "processes"]


def _folders_beside_libraries() -> list[str]:
    """Where a user's data may lie so that a rule for a library's folder would cover them, too."""
    package = Path(synthstats_lightning.__file__).parent
    folders = [*map(sysconfig.get_path, ("stdlib", "purelib")), sys.prefix, sys.base_prefix, "/usr/lib"]
    return sorted({*folders, str(package), str(package.parent), tempfile.gettempdir()})


@pytest.mark.parametrize("folder", _folders_beside_libraries())
def test_data_beside_libraries_are_out_of_reach(folder: str, reading: Sandbox) -> None:
    if not os.access(folder, os.W_OK):
        pytest.skip("not a place for this user's data")
    with tempfile.TemporaryDirectory(dir=folder) as own:
        os.chmod(own, 0o755)
        path = Path(own) / "data.csv"
        path.write_text("length\n348.0\n")
        path.chmod(0o644)
        with pytest.raises(ProgramFailure, match=UNREADABLE):
            reading.execute(f"print(open({str(path)!r}).read())")


HOSTILE = {
    "bundled data": "import pandas as pd; print(pd.read_csv(DATA))",
    "bundled data, from C": "print(np.loadtxt(DATA, delimiter=',', skiprows=1))",
    "by the resources of the package": (
        "from importlib.resources import files\n"
        "print(files('synthstats_lightning.tasks').joinpath('data/dugongs.csv').read_text())"
    ),
    "by its loader": "import synthstats_lightning as s; print(s.__loader__.get_data(DATA))",
    "list of processes": "import os; print([int(name) for name in os.listdir('/proc') if name.isdigit()][0])",
    "the worker's memory": "import os; open(f'/proc/{os.getppid()}/mem', 'rb').seek(0)",
    "own maps": "print(open('/proc/self/maps').read())",
    "mounts": "print(open('/proc/self/mountinfo').read())",
    "upwards": "import os; print(open('../' * 40 + 'etc/passwd').read())",
    "write": "open('/new', 'w')",
    "write to a library": "import os; os.open(np.__file__, os.O_WRONLY)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_readers_at_standard(name: str, reading: Sandbox) -> None:
    with pytest.raises(ProgramFailure, match=rf"{UNREADABLE}|No module|IndexError") as caught:
        reading.execute(f"DATA = {str(DATA)!r}\n{HOSTILE[name]}")
    assert caught.value.category is FailureCategory.RAISED


@pytest.mark.long
@pytest.mark.parametrize(
    "settings", [pytest.param({"max_age": 0.001}, marks=pytest.mark.slow), {"max_growth": 1e-9}]
)
def test_recycling(settings: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PROGRAMS_BETWEEN_CHECKS", 1)
    monkeypatch.setattr(client.WorkerProcess, "resident", lambda worker: int(1e9 * time.monotonic()))
    with Sandbox(**settings) as sandbox:
        graph, first = sandbox.build(LINEAR, SCHEMA, COVARIATES), sandbox.pid
        deadline = time.monotonic() + 120
        while not sandbox.recycled:
            assert time.monotonic() < deadline
            assert sandbox.build(LINEAR, SCHEMA, COVARIATES) == graph
            time.sleep(0.1)
        assert sandbox.pid != first
        assert gone(first)
        assert sandbox.restarts == 0
        assert sandbox.build(LINEAR, SCHEMA, COVARIATES) == graph


def test_contamination(sandbox: Sandbox) -> None:
    graph = sandbox.build(LINEAR, SCHEMA, COVARIATES)
    for poison in (
        "pm.Normal = pm.Model = None",
        "np.log = lambda x: 0 * x\nnp.random.seed(0)",
        "import sys; sys.modules.clear()",
        "import builtins; builtins.len = lambda x: 7",
        "import gc\nfor found in gc.get_objects():\n    if type(found) is dict: found.clear()",
    ):
        try:
            sandbox.build(poison, SCHEMA, COVARIATES)
        except ProgramFailure as failure:
            assert failure.category in FailureCategory  # noqa: PT017
        assert sandbox.build(LINEAR, SCHEMA, COVARIATES) == graph


def test_the_scoring_process_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "canary")
    scoring = ScoringClient(memory_bytes=3 << 30)
    scoring.start()
    try:
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{scoring.pid}/status").read_text().splitlines()
        )
        assert status["Seccomp"] == "2"
        assert status["NoNewPrivs"] == "1"
        assert int(status["CapEff"], 16) == 0
        assert b"SECRET_TOKEN" not in Path(f"/proc/{scoring.pid}/environ").read_bytes()
        limits = Path(f"/proc/{scoring.pid}/limits").read_text()
        assert str(3 << 30) in next(line for line in limits.splitlines() if line.startswith("Max data size"))
    finally:
        scoring.close()
