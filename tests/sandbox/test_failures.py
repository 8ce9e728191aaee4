"""Every way in which a program can fail costs one failure of the right category, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox import Sandbox, SandboxLimits, UnconfinedWarning
from tests.sandbox.conftest import COVARIATES, LINEAR, SCHEMA
from tests.sandbox.observe import descendants, scratch_files

CASES = {
    # source is not Python
    "not python": ("with pm.Model( as model:", FailureCategory.SYNTAX, "line 1: "),
    "prose": ("Here is the model you asked for:", FailureCategory.SYNTAX, "line 1: "),
    "nul byte": ("a = 1\0", FailureCategory.SYNTAX, "null byte"),
    "surrogate": ("a = '\ud800'", FailureCategory.SYNTAX, "surrogates"),
    "deep minus": ("-" * 6000 + "1", FailureCategory.SYNTAX, "too deeply nested"),
    "deep brackets": ("[" * 5000, FailureCategory.SYNTAX, ""),
    "deep sum": ("+".join(["1"] * 40_000), FailureCategory.SYNTAX, "too deeply nested"),
    "too long": ("#" * 200_000, FailureCategory.SYNTAX, "200000 bytes of source"),
    "huge number": ("a = " + "9" * 10_000, FailureCategory.SYNTAX, "digits"),
    # it raises
    "raises": ("x = 1\nraise ValueError('no good')", FailureCategory.RAISED, "line 2: ValueError: no good"),
    "name error": (
        "a = undefined",
        FailureCategory.RAISED,
        "line 1: NameError: name 'undefined' is not defined",
    ),
    "keyboard interrupt": ("raise KeyboardInterrupt", FailureCategory.RAISED, "KeyboardInterrupt"),
    "exit 3": ("import sys; sys.exit(3)", FailureCategory.RAISED, "SystemExit: 3"),
    "recursion": ("def f(): f()\nf()", FailureCategory.RAISED, "RecursionError"),
    "escapes": (
        "raise ValueError('\\x1b[2J\\x00\\r\\nfine')",
        FailureCategory.RAISED,
        r"ValueError: \x1b[2J\x00 fine",
    ),
    "long message": ("raise ValueError('x' * 10**7)", FailureCategory.RAISED, "ValueError: xxx"),
    "message raises": (
        "class E(Exception):\n    def __str__(self): raise KeyError\nraise E",
        FailureCategory.RAISED,
        "E: (an exception whose text raises)",
    ),
    "host path": (
        "import os; open('/etc/passwd/x')",
        FailureCategory.RAISED,
        "PermissionError: [Errno 1] Operation not permitted: '<path>'",
    ),
    "torch": ("import torch", FailureCategory.RAISED, "No module named 'torch'"),
    "no model": ("x = 1", FailureCategory.BAD_GRAPH, "leaves no pm.Model"),
    # it uses too much
    "loops": ("while True: pass", FailureCategory.CPU, "more than 2 s of CPU time"),
    "loops, deaf": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        FailureCategory.CPU,
        "",
    ),
    "loops, catches all": (
        "def f():\n    while True:\n        try:\n            while True: pass\n        except: pass\nf()",
        FailureCategory.CPU,
        "",
    ),
    "allocates": (
        "a = []\nwhile True: a.append(bytearray(10**7))",
        FailureCategory.MEMORY,
        "address-space limit",
    ),
    "allocates at once": ("np.ones(10**11)", FailureCategory.MEMORY, "address-space limit"),
    "broadcasts": (
        "with pm.Model() as model:\n  pm.Normal('y', pt.zeros((10**6, 10**6)).sum(), 1, observed=length)",
        FailureCategory.MEMORY,
        "",
    ),
    "writes a file": ("open('x', 'wb').write(b'0')", FailureCategory.RAISED, "PermissionError"),
    "opens many files": (
        "import os; a = [os.dup(0) for _ in range(999)]",
        FailureCategory.RAISED,
        "Too many open files",
    ),
    "forks": ("import os\nwhile True: os.fork()", FailureCategory.RAISED, "PermissionError"),
    "starts threads": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
        FailureCategory.RAISED,
        "can't start new thread",
    ),
    "subprocess": ("import subprocess; subprocess.run(['sleep', '99'])", FailureCategory.RAISED, "Error"),
    "prints without end": ("while True: print('x' * 100)", FailureCategory.OUTPUT, "bytes printed"),
    "floods stderr": (
        "import os\nwhile True: os.write(2, b'x' * 9999)",
        FailureCategory.OUTPUT,
        "bytes printed",
    ),
    # it ends itself, or lies about its result
    "exits": ("import os; os._exit(0)", FailureCategory.KILLED, "exited without a result"),
    "exits 7": ("import os; os._exit(7)", FailureCategory.KILLED, "status 7"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", FailureCategory.KILLED, "SIGKILL"),
    "crashes": ("import ctypes; ctypes.string_at(0)", FailureCategory.KILLED, "SIGSEGV"),
    "aborts": ("import os; os.abort()", FailureCategory.KILLED, "SIGABRT"),
    "execs": ("import os; os.execv('/bin/true', ['true'])", FailureCategory.RAISED, "PermissionError"),
    "garbage as result": (
        "import os; os.write(3, b'garbage'); os._exit(0)",
        FailureCategory.OUTPUT,
        "not one JSON",
    ),
    "garbage and result": (
        "import os; os.write(3, b'garbage')\n" + LINEAR,
        FailureCategory.OUTPUT,
        "not one JSON",
    ),
    "two results": ("import os; os.write(3, b'{}{}'); os._exit(0)", FailureCategory.OUTPUT, "not one JSON"),
    "deep result": (
        "import os; os.write(3, b'[' * 60000); os._exit(0)",
        FailureCategory.OUTPUT,
        "not one JSON",
    ),
    "list as result": (
        "import os; os.write(3, b'[1]'); os._exit(0)",
        FailureCategory.OUTPUT,
        "not a JSON object",
    ),
    "floods result": ("import os\nwhile True: os.write(3, b'[' * 9999)", FailureCategory.OUTPUT, "bytes"),
    "made-up failure": (
        'import os; os.write(3, b\'{"failure": "scorer_limit", "message": ""}\'); os._exit(0)',
        FailureCategory.OUTPUT,
        "does not exist",
    ),
    "escapes in failure": (
        'import os; os.write(3, b\'{"failure": "raised", "message": "\\\\u001b[2J /a/b"}\'); os._exit(0)',
        FailureCategory.RAISED,
        r"\x1b[2J <path>",
    ),
    "result, then status 1": (
        "import os; os.write(3, b'{}'); os._exit(1)",
        FailureCategory.KILLED,
        "status 1",
    ),
    "closes result": ("import os; os.close(3)\n" + LINEAR, FailureCategory.KILLED, "exited with status 1"),
}


@pytest.mark.parametrize("name", CASES)
def test_category_and_message(name: str, sandbox: Sandbox) -> None:
    source, category, message = CASES[name]
    worker, restarts = sandbox.pid, sandbox.restarts
    with pytest.raises(ProgramFailure) as caught:
        sandbox.build(source, SCHEMA, COVARIATES)
    failure = caught.value
    assert failure.category is category, failure
    assert message in failure.message
    assert len(failure.message) <= 300
    assert failure.message.isprintable()
    # the worker took no harm, nothing runs on, nothing lies about
    assert (sandbox.pid, sandbox.restarts) == (worker, restarts)
    assert descendants(sandbox.pid) == []
    assert scratch_files(sandbox) == []


IDLERS = {
    "sleeps": "import time; time.sleep(60)",
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "waits for nobody": "import os; os.read(os.pipe()[0], 1)",
    # shorter than what lies between two looks at it
    "naps": "import time\nwhile True:\n    time.sleep(0.01)\n    sum(range(2000))",
    "prints now and then": "import time\nwhile True:\n    time.sleep(0.005)\n    print(end='.', flush=True)",
}


@pytest.mark.parametrize("name", IDLERS)
@pytest.mark.timeout(60)
def test_idlers_are_ended(name: str, forking: Sandbox) -> None:
    """A program that computes next to nothing holds its worker for twice the wall-clock limit, no longer."""
    before, began = forking.restarts, time.monotonic()
    with pytest.raises(ProgramFailure, match=r"not finished after 1 s without computing, twice") as caught:
        forking.build(IDLERS[name], SCHEMA, COVARIATES)
    assert caught.value.category is FailureCategory.TIMEOUT
    assert time.monotonic() - began < 30
    assert descendants(forking.pid) == []
    assert forking.execute("print('on')") == "on\n"
    assert forking.restarts == before


@pytest.mark.long
def test_what_only_waits_for_a_processor_is_not_ended(sandbox: Sandbox) -> None:
    """Half a second's work on a core that five others want takes longer than the wall-clock limit."""
    core, loop = {min(os.sched_getaffinity(0))}, [sys.executable, "-I", "-S", "-c", "while True: pass"]
    allowed = os.sched_getaffinity(sandbox.pid)
    busy = [subprocess.Popen(loop, start_new_session=True) for _ in range(5)]
    try:
        for process in (sandbox.pid, *(process.pid for process in busy)):
            os.sched_setaffinity(process, core)
        began = time.monotonic()
        printed = sandbox.execute("print(sum(i * i for i in range(5_000_000)) % 7)")
        took = time.monotonic() - began
    finally:
        for process in busy:
            process.kill()
            process.wait()
        os.sched_setaffinity(sandbox.pid, allowed)
    assert printed == f"{sum(i * i for i in range(5_000_000)) % 7}\n"
    assert took > sandbox.limits.wall_seconds, "otherwise this shows nothing"


ONCE = """
import os, time
try:
    os.rename("{mark}", "{mark}.seen")
except FileNotFoundError:
    print("again")
else:
    {trouble}
"""


@pytest.mark.parametrize("trouble", ["time.sleep(60)", "os.kill(os.getpid(), 9)"])
def test_what_the_machine_may_be_to_blame_for_is_tried_again(trouble: str, forking: Sandbox) -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    (folder / "mark").touch()
    try:
        assert forking.execute(ONCE.format(mark=folder / "mark", trouble=trouble)) == "again\n"
    finally:
        shutil.rmtree(folder)


BOMBS = {
    "double fork in a session of its own": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
""",
    "orphans that ignore signals": """
import os, signal, time
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
""",
    "fork without end": """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    "always a new process": """
import os
while True:
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        pass
""",
}


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only for root does the kernel count a program's own processes alone"
)
@pytest.mark.parametrize("name", BOMBS)
def test_nothing_survives_where_forks_are_allowed(name: str, forking: Sandbox) -> None:
    try:
        forking.execute(BOMBS[name])
    except ProgramFailure as failure:
        assert failure.category in {FailureCategory.CPU, FailureCategory.TIMEOUT, FailureCategory.KILLED}  # noqa: PT017
    assert descendants(forking.pid) == []
    assert scratch_files(forking) == []
    assert forking.execute("print('on')") == "on\n"
    assert forking.restarts == 0


@pytest.fixture(scope="module")
def forking() -> Any:
    """A sandbox whose programs may start processes and write files: without the kernel's confinement."""
    limits = SandboxLimits(processes=20, cpu_seconds=1, wall_seconds=1.0)
    with pytest.warns(UnconfinedWarning, match="sandbox: none"):
        sandbox = Sandbox(limits, level="none")
    with sandbox:
        yield sandbox.start()


def test_file_size_limit(forking: Sandbox) -> None:
    with pytest.raises(ProgramFailure, match="File too large"):
        forking.execute("open('x', 'wb').write(b'0' * 10**8)")


LITTER = {
    "files": "for i in range(50): open(f'f{i}', 'w').write('x')",
    "deep folders": "import os\nfor _ in range(1100):\n    os.mkdir('d')\n    os.chdir('d')",
    "locked folders": "import os\nos.makedirs('a/b/c')\nos.chmod('a/b', 0)\nos.chmod('a', 0)",
    "links": "import os\nos.symlink('/', 'root')\nos.symlink('.', 'self')\nos.mkfifo('fifo')",
    "locked itself": "import os\nos.mkdir('a')\nos.chmod('.', 0)",
}


@pytest.mark.parametrize("name", LITTER)
def test_scratch_files_are_removed(name: str, forking: Sandbox) -> None:
    forking.execute(LITTER[name])
    assert scratch_files(forking) == []
    assert Path("/etc").is_dir()


def test_what_a_program_finds_around_it(sandbox: Sandbox) -> None:
    printed = sandbox.execute(
        """
import os, sys, resource
def is_open(descriptor):
    try:
        return os.get_inheritable(descriptor) is not None
    except OSError:
        return False
print([descriptor for descriptor in range(99999) if is_open(descriptor)])
print(dict(os.environ))
print(os.getsid(0) == os.getpid(), sys.stdin.read() == "")
print([name for name in ("torch", "lightning", "transformers") if name in sys.modules])
print(resource.getrlimit(resource.RLIMIT_CORE), __name__)
"""
    ).splitlines()
    assert printed[0] == "[0, 1, 2, 3]"
    assert printed[1] == "{}"
    assert printed[2] == "True True"
    assert printed[3] == "[]"
    assert printed[4] == "(0, 0) __main__"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_programs_run_as_nobody_else(sandbox: Sandbox) -> None:
    user, groups, kill = sandbox.execute(
        f"""
import os
print(os.getresuid()[0] if len(set(os.getresuid())) == 1 else "mixed")
print(os.getgroups())
try:
    os.kill({os.getpid()}, 0)
except PermissionError:
    print("refused")
"""
    ).splitlines()
    assert int(user) >= 65534
    assert groups == "[]"
    assert kill == "refused"


def test_the_trainer_imports_neither_pymc_nor_torch() -> None:
    """Checked in a fresh interpreter: this one has both."""
    import subprocess

    code = "import sys, synthstats_lightning.sandbox; print({'pymc', 'torch'} & {*sys.modules})"
    root = str(Path(__file__).parents[2])
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={"PATH": os.defpath},
    )
    assert result.stdout == "set()\n"
