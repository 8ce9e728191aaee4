"""Landlock, access control that a process puts on itself: a second layer, never the only one."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

from synthstats_lightning.confinement.system_calls import machine, system_call, system_calls

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_PATH_BENEATH = 1
_ATTRIBUTES = (
    # rights on files, on TCP ports, scopes of signals and abstract sockets; the newest kernels first
    struct.pack("<QQQ", (1 << 16) - 1, 3, 3),
    struct.pack("<QQ", (1 << 16) - 1, 3),
    struct.pack("<QQ", (1 << 15) - 1, 3),
    struct.pack("<Q", (1 << 15) - 1),
    struct.pack("<Q", (1 << 14) - 1),
    struct.pack("<Q", (1 << 13) - 1),
)


def interpreter_paths(packages: Iterable[str]) -> list[str]:
    """What a process must be able to read to go on importing.

    Args:
        packages: Names of imported packages that may lie outside of the interpreter's folders.
    """
    folders = [path for name in packages for path in getattr(sys.modules.get(name), "__path__", ())]
    return [
        *(sys.prefix, sys.base_prefix, *folders),
        *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache"),
        *("/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"),
    ]


def create_ruleset(readable: Iterable[str] = ()) -> int:
    """A ruleset that denies everything that this kernel's Landlock can deny, but reading some paths.

    What the kernel can deny is found by asking, not by its version.

    Args:
        readable: Files and folders that may be read, with everything beneath; what is missing, or not for
            this user, is left out.

    Returns:
        Its descriptor (close-on-exec).

    Raises:
        OSError: If the kernel has no Landlock, or it is switched off.
    """
    numbers = _numbers()
    ruleset, refused = -1, OSError()
    for attributes in _ATTRIBUTES:
        try:
            buffer = ctypes.create_string_buffer(attributes, len(attributes))
            ruleset = system_call(numbers["landlock_create_ruleset"], buffer, len(attributes), 0)
            break
        except OSError as error:
            refused = error
    if ruleset < 0:
        raise refused
    for path in readable:
        if os.access(path, os.R_OK):
            _add_rule(ruleset, path, _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0))
    return ruleset


def allow_listing(ruleset: int, folder: str) -> None:
    """Adds the right to list a folder and those beneath it, without reading their files.

    Args:
        ruleset: A descriptor that `create_ruleset` returned.
        folder: Path of the folder, as this process sees it.

    Raises:
        OSError: If the kernel refuses.
    """
    _add_rule(ruleset, folder, _READ_DIR)


def _add_rule(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("<Qi", rights, place), 12)
        system_call(_numbers()["landlock_add_rule"], ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)


def restrict(ruleset: int) -> None:
    """Puts a ruleset on this thread and its descendants, for good. Needs `no_new_privs`.

    Args:
        ruleset: A descriptor that `create_ruleset` returned.

    Raises:
        OSError: If the kernel refuses.
    """
    system_call(_numbers()["landlock_restrict_self"], ruleset, 0)


def _numbers() -> dict[str, int]:
    # the numbers of these three are the same on every architecture
    return system_calls(machine() or "x86_64")
