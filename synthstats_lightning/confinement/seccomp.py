"""The system calls that a confined process may make: an allow-list with checked arguments."""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Collection

from synthstats_lightning.confinement.filters import OWN_PROCESS, Check, Filter, Rule, assemble
from synthstats_lightning.confinement.system_calls import ARCHITECTURES, machine, system_call, system_calls

PLAIN = (  # noqa: SIM905
    "read write mmap munmap futex brk mprotect madvise mremap close lseek fstat readv writev pread64 pwrite64"
    " rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack rt_sigpending set_robust_list get_robust_list rseq"
    " set_tid_address exit exit_group restart_syscall getpid gettid getppid getuid geteuid getgid getegid"
    " getresuid getresgid getpgrp getgroups nanosleep gettimeofday time times getrusage getrlimit sysinfo"
    " uname sched_yield getcpu getrandom poll ppoll select pselect6 pipe pipe2 dup dup2 dup3 setitimer"
    " getitimer alarm epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 timer_settime timer_gettime"
    " timer_delete"
).split()
"""Calls that act on the process itself and what it has open, whatever their arguments."""

PATHS = (  # noqa: SIM905
    "stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getcwd getdents64 statfs"
    " fstatfs fadvise64"
).split()
"""Calls that read paths; in level `standard` only."""

THREAD = 0x3D0F00
"""Flags with which pthreads makes a thread; a process has others."""
_OPEN_CHANGES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""Flags of `open` that write, create, truncate or append (O_TMPFILE without its O_DIRECTORY)."""
_CLOCKS = 15
"""Highest number of a clock that is not some process's."""


def _one_of(argument: int, *values: int) -> Rule:
    return Rule(tuple((Check(argument, value),) for value in values))


_SELF = _one_of(0, 0, OWN_PROCESS)
_CLOCK = Rule(((Check(0, _CLOCKS, at_most=True),),))

RULES: dict[str, Rule] = {
    "clone": Rule(((Check(0, THREAD, wide=True),),)),
    # its flags lie in memory, where no filter can see them; the C library then uses clone
    "clone3": Rule((), error=errno.ENOSYS),
    "kill": _one_of(0, OWN_PROCESS),
    "tgkill": _one_of(0, OWN_PROCESS),
    # TCGETS (isatty), FIONBIO, FIONREAD, FIONCLEX, FIOCLEX
    "ioctl": _one_of(1, 0x5401, 0x5421, 0x541B, 0x5450, 0x5451),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: no locks, leases, owners, pipe sizes
    "fcntl": _one_of(1, 0, 1, 2, 3, 4, 1030),
    # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA: nothing that undoes confinement
    "prctl": _one_of(0, 15, 16, 0x53564D41),
    "prlimit64": Rule(
        ((Check(0, 0), Check(2, 0, wide=True)), (Check(0, OWN_PROCESS), Check(2, 0, wide=True)))
    ),
    "sched_getaffinity": _SELF,
    "getpgid": _SELF,
    "getsid": _SELF,
    "clock_gettime": _CLOCK,
    "clock_getres": _CLOCK,
    "clock_nanosleep": _CLOCK,
    "timer_create": _CLOCK,
}
"""Calls whose arguments decide. A test removes each in turn, and must then see a program through."""

PATH_RULES: dict[str, Rule] = {
    "open": Rule(((Check(1, 0, mask=_OPEN_CHANGES),),)),
    "openat": Rule(((Check(2, 0, mask=_OPEN_CHANGES),),)),
}
"""The same for level `standard`: nothing is opened for anything but reading."""


def build_filter(
    paths: bool, without: Collection[str] = (), architecture: str | None = None
) -> Filter | None:
    """The filter of a level.

    Args:
        paths: Whether paths may be read.
        without: Names in `RULES` and `PATH_RULES` whose arguments are not checked; for tests only.
        architecture: A key of `ARCHITECTURES`; this machine's by default.

    Returns:
        The filter, or `None` on an architecture without a table.
    """
    name = architecture or machine()
    if name is None:
        return None
    numbers = system_calls(name)
    rules: dict[str, Rule] = dict.fromkeys(PLAIN, Rule())
    rules |= RULES
    if paths:
        rules |= dict.fromkeys(PATHS, Rule()) | PATH_RULES
    rules |= {rule: Rule() for rule in without if rule in rules}
    return assemble(
        [(numbers[call], rule) for call, rule in rules.items() if call in numbers], ARCHITECTURES[name]
    )


def install(code: bytes) -> None:
    """Puts a filter on every thread of this process, for good.

    Needs `no_new_privs`, or the capability CAP_SYS_ADMIN.

    Args:
        code: The filter's instructions, from `Filter.for_process`.

    Raises:
        OSError: If the kernel has no seccomp filters or refuses this one.
    """
    name = machine()
    if name is None:
        raise OSError(errno.ENOSYS, "seccomp filters are written for x86-64 and aarch64 only")
    instructions = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(
        struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(instructions))
    )
    # SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_TSYNC
    if system_call(system_calls(name)["seccomp"], 1, 1, program):
        raise OSError(errno.EINVAL, "a thread could not be given the seccomp filter")
