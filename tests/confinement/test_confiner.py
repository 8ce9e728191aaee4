"""Layers in live processes: what a confined process can do, seen from the other end of a pipe."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from synthstats_lightning.confinement import ConfinementUnavailable, Confiner, check_level, landlock, seccomp
from synthstats_lightning.confinement.confiner import LAYERS
from synthstats_lightning.confinement.filters import Rule, assemble
from synthstats_lightning.confinement.privileges import no_new_privileges, set_dumpable
from synthstats_lightning.confinement.system_calls import ARCHITECTURES, machine, system_call, system_calls
from tests.sandbox.observe import gone

USER = 1_900_000_000 if os.geteuid() == 0 else None


def in_child(action: Callable[[], object], before: Callable[[], object] = lambda: None) -> str:
    """What an action gives in a forked process: its result, or the name of its exception, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            said = str(action())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return said if status == 0 else f"status {os.waitstatus_to_exitcode(status)}"


def confined(confiner: Confiner, action: Callable[[], object]) -> str:
    """The same in a confined process."""
    parent = os.getpid()
    return in_child(action, lambda: confiner.apply(USER, parent, confiner.ruleset))


@pytest.fixture(scope="module")
def strict() -> Confiner:
    return Confiner("strict")


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Confiner:
    return Confiner("standard", [str(Path(os.__file__).parent), "/usr/lib", "/not/there"])


REFUSED: dict[str, Callable[[], object]] = {
    "open": lambda: os.open("/dev/null", os.O_RDONLY),
    "write": lambda: os.open("/dev/null", os.O_WRONLY),
    "list": lambda: os.listdir("/"),
    "exists": lambda: os.stat("/"),
    "fork": os.fork,
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "signal": lambda: os.kill(os.getppid(), 0),
    "signal all": lambda: os.kill(-1, 0),
    "limits": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
    "own cores": lambda: os.sched_setaffinity(0, {0}),
    "chmod": lambda: os.chmod("/tmp", 0o777),
    "socket": socket.socket,
    "user": lambda: os.setuid(0) or os.getuid() != 0 or 1 / 0,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_strict(strict: Confiner, name: str) -> None:
    assert confined(strict, REFUSED[name]).startswith("PermissionError")


@pytest.mark.parametrize("name", sorted(set(REFUSED) - {"exists"}))
def test_refused_in_standard(standard: Confiner, name: str) -> None:
    assert confined(standard, REFUSED[name]).startswith("PermissionError")


def test_standard_reads_the_interpreter_only(standard: Confiner, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    secret.chmod(0o644)
    assert int(confined(standard, lambda: len(os.listdir("/usr/lib")))) > 0
    assert confined(standard, lambda: secret.read_text()).startswith("PermissionError")
    assert confined(standard, lambda: os.stat("/").st_mode > 0) == "True"


def _through_a_pipe(content: bytes) -> bytes:
    reader, writer = os.pipe()
    os.write(writer, content)
    return os.read(reader, 9)


ALLOWED: dict[str, tuple[Callable[[], object], str]] = {
    "pipe": (lambda: _through_a_pipe(b"x"), "b'x'"),
    "clock": (lambda: time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) > 0, "True"),
    "random": (lambda: len(os.urandom(9)), "9"),
    "memory": (lambda: len(bytearray(50_000_000)), "50000000"),
    "own signal": (lambda: os.kill(os.getpid(), 0), "None"),
    "handler": (lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN) is not None, "True"),
    "own limits": (lambda: len(resource.getrlimit(resource.RLIMIT_AS)), "2"),
    # 0 where the session's leader lies outside the process-id namespace
    "session": (lambda: os.getsid(0) >= 0, "True"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_in_strict(strict: Confiner, name: str) -> None:
    action, expected = ALLOWED[name]
    assert confined(strict, action) == expected


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit interface is that of x86")
def test_other_interfaces_end_the_process(strict: Confiner) -> None:
    libc = ctypes.CDLL(None)
    assert confined(strict, lambda: libc.syscall(ctypes.c_long(0x40000000 + 39))) == "status -31"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_gives_up_everything(strict: Confiner) -> None:
    # read before seccomp closes /proc: the last two layers are left out
    confiner = Confiner("strict", without=("seccomp", "landlock"))
    lines = confined(confiner, lambda: Path(f"/proc/{os.getpid()}/status").read_text()).splitlines()
    status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    assert status["Uid"] == [str(USER)] * 4
    assert status["Gid"] == [str(USER)] * 4
    assert status["Groups"] == []
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind][0], 16) == 0
    assert status["NoNewPrivs"] == ["1"]


def test_the_parent_check(strict: Confiner) -> None:
    """A parent that is gone when the death signal is asked for ends the process at once."""
    assert in_child(lambda: 1, lambda: strict.apply(USER, os.getpid() + 1, strict.ruleset)) == "status 1"


def test_not_dumpable_and_dies_with_its_parent() -> None:
    code = (
        "import os, time\n"
        "from synthstats_lightning.confinement import Confiner\n"
        "confiner = Confiner('strict')\n"
        "parent = os.getpid()\n"
        "reader, writer = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    confiner.apply(None, parent, confiner.ruleset)\n"
        "    os.write(writer, b'confined')\n"
        "    time.sleep(60)\n"
        "assert os.read(reader, 99) == b'confined'\n"
        "print(child, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        child = int(process.stdout.readline())
        # what belongs to a process that is not dumpable belongs to root
        assert Path(f"/proc/{child}/environ").stat().st_uid == 0
        process.kill()
    assert gone(child)


def _without_landlock() -> None:
    name = machine()
    assert name is not None
    calls = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
    rules = [(system_calls(name)[call], Rule((), error=38)) for call in calls]
    no_new_privileges()
    seccomp.install(assemble(rules, ARCHITECTURES[name], 0x7FFF0000).for_process(0))


def test_a_kernel_without_landlock() -> None:
    def strict() -> object:
        confiner = Confiner("strict")
        return confiner.missing, confined(confiner, REFUSED["open"])

    assert in_child(strict, _without_landlock) == (
        "({'landlock': 'not in this kernel, or switched off (Function not implemented)'},"
        " \"PermissionError: [Errno 1] Operation not permitted: '/dev/null'\")"
    )
    said = in_child(lambda: Confiner("standard"), _without_landlock)
    assert said.startswith("ConfinementUnavailable: level standard needs Landlock: not in this kernel")


def test_a_machine_without_seccomp(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(code: bytes) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(seccomp, "install", refuse)
    with pytest.raises(ConfinementUnavailable, match="no seccomp: Function not implemented"):
        Confiner("strict")
    # one that pretends: what counts is what happens
    monkeypatch.setattr(seccomp, "install", lambda code: None)
    with pytest.raises(ConfinementUnavailable, match="no seccomp: seccomp let chdir through"):
        Confiner("strict")
    assert Confiner("none").missing["seccomp"] == "level none"


def test_landlock_that_only_pretends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "restrict", lambda ruleset: None)
    confiner = Confiner("strict")
    assert confiner.missing == {"landlock": "Landlock let a folder be opened"}
    assert confiner.ruleset is None


def test_plus_has_no_network_and_no_files() -> None:
    confiner = Confiner("plus", folder="/tmp", without=("seccomp", "landlock"))
    if "namespaces" in confiner.missing:
        pytest.skip(confiner.missing["namespaces"])
    assert confined(confiner, lambda: os.listdir("/")) == "[]"
    assert "Read-only" in confined(confiner, lambda: os.mkdir("/x"))
    assert confined(confiner, lambda: [name for _, name in socket.if_nameindex()]) == "['lo']"
    assert confined(Confiner("plus", folder="/tmp"), REFUSED["open"]).startswith("PermissionError")


def test_removed_layers_are_named() -> None:
    assert Confiner("strict", without=LAYERS).missing == dict.fromkeys(LAYERS, "removed by a test")


def test_level_names() -> None:
    assert [check_level(level) for level in ("strict", "standard", "plus", "none")]
    with pytest.raises(ValueError, match="sandbox must be one of strict, standard, plus, none, got 'off'"):
        check_level("off")


def test_dumpable_can_be_asked_for() -> None:
    assert in_child(lambda: system_call(system_calls(machine() or "x86_64")["prctl"], 3, 0, 0, 0)) == "1"
    assert (
        in_child(lambda: system_call(system_calls(machine() or "x86_64")["prctl"], 3, 0, 0, 0), _off) == "0"
    )


def _off() -> None:
    set_dumpable(False)
