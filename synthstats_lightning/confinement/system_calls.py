"""Numbers of the system calls that confinement names, and a way to make them."""

from __future__ import annotations

import ctypes
import os
import platform

# name, x86-64, aarch64; "-" where an architecture lacks it
_TABLE = """\
read 0 63
write 1 64
readv 19 65
writev 20 66
pread64 17 67
pwrite64 18 68
lseek 8 62
close 3 57
fstat 5 80
stat 4 -
lstat 6 -
newfstatat 262 79
statx 332 291
access 21 -
faccessat 269 48
faccessat2 439 439
readlink 89 -
readlinkat 267 78
open 2 -
openat 257 56
getdents64 217 61
getcwd 79 17
mmap 9 222
munmap 11 215
mremap 25 216
mprotect 10 226
madvise 28 233
brk 12 214
futex 202 98
set_robust_list 273 99
get_robust_list 274 100
rseq 334 293
set_tid_address 218 96
exit 60 93
exit_group 231 94
restart_syscall 219 128
rt_sigaction 13 134
rt_sigprocmask 14 135
rt_sigreturn 15 139
sigaltstack 131 132
rt_sigpending 127 136
rt_sigtimedwait 128 137
getpid 39 172
gettid 186 178
getppid 110 173
getuid 102 174
geteuid 107 175
getgid 104 176
getegid 108 177
getpgrp 111 -
getpgid 121 155
getsid 124 156
getgroups 115 158
getresuid 118 148
getresgid 120 150
clock_gettime 228 113
clock_getres 229 114
clock_nanosleep 230 115
nanosleep 35 101
gettimeofday 96 169
time 201 -
times 100 153
getrusage 98 165
getrlimit 97 163
sysinfo 99 179
uname 63 160
sched_yield 24 124
sched_getaffinity 204 123
getcpu 309 168
getrandom 318 278
poll 7 -
ppoll 271 73
select 23 -
pselect6 270 72
pipe 22 -
pipe2 293 59
dup 32 23
dup2 33 -
dup3 292 24
fadvise64 221 223
statfs 137 43
fstatfs 138 44
setitimer 38 103
getitimer 36 102
alarm 37 -
epoll_create1 291 20
epoll_ctl 233 21
epoll_wait 232 -
epoll_pwait 281 22
eventfd2 290 19
timer_create 222 107
timer_settime 223 110
timer_gettime 224 108
timer_delete 226 111
clone 56 220
clone3 435 435
kill 62 129
tgkill 234 131
ioctl 16 29
fcntl 72 25
prctl 157 167
prlimit64 302 261
seccomp 317 277
landlock_create_ruleset 444 444
landlock_add_rule 445 445
landlock_restrict_self 446 446
pivot_root 155 41
mount 165 40
umount2 166 39
unshare 272 97
setns 308 268
capset 126 91
"""

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine name to the kernel's audit architecture (`linux/audit.h`)."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def system_calls(machine: str) -> dict[str, int]:
    """Name to number on one architecture.

    Args:
        machine: A key of `ARCHITECTURES`.
    """
    column = 1 + list(ARCHITECTURES).index(machine)
    rows = (line.split() for line in _TABLE.splitlines())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def machine() -> str | None:
    """This machine's key of `ARCHITECTURES`, `None` for any other, and for 32-bit interpreters."""
    name = platform.machine()
    return name if name in ARCHITECTURES and ctypes.sizeof(ctypes.c_void_p) == 8 else None


def system_call(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Makes a system call.

    Args:
        number: The number of the call.
        *arguments: Integers, buffers, or `None` for a null pointer.

    Raises:
        OSError: With the kernel's error number.
    """
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *converted))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def prctl(option: int, *arguments: int) -> int:
    """Calls `prctl(2)`; missing arguments are 0.

    Raises:
        OSError: With the kernel's error number.
    """
    padded = [*arguments, 0, 0, 0, 0][:4]
    result = int(_libc.prctl(option, *(ctypes.c_ulong(value) for value in padded)))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
