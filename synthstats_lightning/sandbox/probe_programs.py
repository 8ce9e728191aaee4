"""What a hostile program would try first, as small functions that succeed only where confinement fails.

The source below runs as a program in the sandbox. Each function is one probe: it ends normally if the attempt
succeeded and raises if it was refused. Its first line says what it attempts. `TARGET` (a process id),
`CANARY` (the path of a file) and `DATA` (that of a bundled data set) are put in front.
"""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "tasks" / "data" / "dugongs.csv"
"""A file of this package's that holds a response."""

LIBRARY = """\
import ctypes, os, platform, resource, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = platform.machine() == "x86_64"
def system_call(x86, arm, *arguments):
    number = x86 if X86 else arm
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def open_socket(family, kind=1, protocol=0):
    system_call(41, 198, family, kind, protocol)
def answer(action, path):
    try:
        action(path)
    except OSError as error:
        return error.errno
def tell_apart(path, absent):
    if all(answer(action, path) == answer(action, absent) for action in (os.stat, open, os.readlink)):
        raise OSError
"""

_EXEC = """\
try:
    system_call(59, 221, None, None, None)
except OSError as error:
    # a bad address (EFAULT) means that the kernel got as far as reading the arguments
    if error.errno != 14: raise
"""
_SHARED_MEMORY = """\
number = libc.syscall(ctypes.c_long(29 if X86 else 194), 0, 4096, 0o1600)
if number < 0: raise OSError
system_call(31, 195, number, 0, None)
"""
_MESSAGE_QUEUE = """\
system_call(240, 180, NAME.encode(), 0o102, 0o600, None)
system_call(241, 181, NAME.encode())
"""

PROBES: dict[str, tuple[str, str]] = {
    "read": ("read a file of the user", "open(CANARY).read()"),
    "data": ("read the package's own data", "open(DATA).read()"),
    "existence": ("see whether a file of the user exists", "tell_apart(CANARY, CANARY + NAME)"),
    "processes": ("see whether the trainer runs, in /proc", "tell_apart(f'/proc/{TARGET}', '/proc/0')"),
    "write": ("overwrite a file of the user", "open(CANARY, 'r+').write('x')"),
    "chmod": ("change the mode of a file", "os.chmod(CANARY, 0o777)"),
    "times": ("change the times of a file", "os.utime(CANARY, (0, 0))"),
    "unlink": ("delete a file of the user", "os.unlink(CANARY)"),
    "create": ("create a file beside one of the user's", "open(CANARY + '.new', 'w')"),
    "temporary": ("create a file in the folder for temporary files", "open('/tmp/' + NAME, 'x')"),
    "passwords": ("read the list of the machine's users", "open('/etc/passwd').read()"),
    "inet": ("open a TCP socket", "open_socket(2)"),
    "inet6": ("open a UDP socket over IPv6", "open_socket(10, 2)"),
    "unix": ("open a UNIX socket", "open_socket(1)"),
    "netlink": ("open a netlink socket", "open_socket(16, 3)"),
    "packet": ("open a raw packet socket", "open_socket(17, 3)"),
    "vsock": ("open a socket to the hypervisor", "open_socket(40)"),
    "signal": ("signal the trainer", "os.kill(TARGET, 0)"),
    "limits": ("read the trainer's resource limits", "resource.prlimit(TARGET, resource.RLIMIT_CORE)"),
    "affinity": ("see whether the trainer runs", "os.sched_getaffinity(TARGET)"),
    "priority": ("change the trainer's priority", "os.setpriority(os.PRIO_PROCESS, TARGET, 0)"),
    "environment": ("read the trainer's environment", "open(f'/proc/{TARGET}/environ', 'rb').read()"),
    "own environment": ("read the worker's environment", "open('/proc/self/environ', 'rb').read()"),
    "variables": ("find environment variables", "if not os.environ: raise OSError"),
    "fork": ("fork", "if os.fork() == 0: os._exit(0)"),
    "ptrace": ("trace the trainer", "system_call(101, 117, 0x4206, TARGET, None, None)"),
    "memory": ("read the trainer's memory", "system_call(310, 270, TARGET, None, 0, None, 0, 0)"),
    "keyring": ("use the kernel's keyring", "system_call(250, 219, 0, -3, 1)"),
    "io_uring": ("set up io_uring", "system_call(425, 425, 4, ctypes.create_string_buffer(120))"),
    "bpf": ("load a kernel program", "system_call(321, 280, 0, ctypes.create_string_buffer(128), 128)"),
    "userfaultfd": ("handle page faults", "system_call(323, 282, 1)"),
    "memory file": ("make a file in memory", "system_call(319, 279, b'x', 0)"),
    "shared memory": ("make a shared memory segment", _SHARED_MEMORY),
    "message queue": ("make a message queue", _MESSAGE_QUEUE),
    "death signal": ("outlive the worker", "if libc.prctl(1, 0, 0, 0, 0): raise OSError"),
    "dumpable": ("become readable for others", "if libc.prctl(4, 1, 0, 0, 0): raise OSError"),
    "descriptors": (
        "find an open descriptor",
        "OPEN = [d for d in range(4, 4096) if is_open(d)]\nif not OPEN: raise OSError",
    ),
    "root": ("become root", "os.setresuid(0, 0, 0)"),
    # last: it changes what the process is to others
    "user namespace": ("enter a user namespace", "system_call(272, 97, 0x10000000)"),
    "exec": ("run another executable", _EXEC),
}
"""Name to what is attempted and how: a statement that raises where it is refused."""

UNSEEN = frozenset({"existence", "processes"})
"""Probes that level `standard` refuses only in a tree of its own: without one the kernel says what exists."""

DEADLY: dict[str, tuple[str, str]] = {
    "int 0x80": (
        "use the 32-bit system call interface",
        """\
import mmap
if not X86: raise OSError
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
if call() != os.getpid(): raise OSError
""",
    ),
    "x32": (
        "use the x32 system call interface",
        "if not X86 or libc.syscall(ctypes.c_long(0x40000000 + 39)) != os.getpid(): raise OSError",
    ),
}
"""The same for attempts that end the process where they are refused; each is a program of its own."""

HELPERS = """\
def is_open(descriptor):
    try:
        return os.get_inheritable(descriptor) is not None
    except OSError:
        return False
"""


def program(names: list[str], target: int, canary: str, mark: str) -> str:
    """A program that tries some probes and prints the name of each that succeeds, after a mark.

    Args:
        names: Keys of `PROBES` or `DEADLY`.
        target: Process id that the probes aim at.
        canary: Path of a file that they aim at.
        mark: Printed in front of each name; a line of its own says that all were tried.
    """
    lines = [
        LIBRARY,
        HELPERS,
        f"TARGET, CANARY, NAME, DATA = {target!r}, {canary!r}, {mark!r}, {str(DATA)!r}",
    ]
    known = PROBES | DEADLY
    for name in names:
        body = "\n".join("    " + line for line in known[name][1].splitlines())
        lines.append(f"try:\n{body}\n    print({mark!r}, {name!r}, flush=True)\nexcept BaseException: pass")
    lines.append(f"print({mark!r}, 'done', flush=True)")
    return "\n".join(lines)
