"""Namespaces of its own for a process: no network, no files, no other process's IPC. For level `plus`."""

from __future__ import annotations

import ctypes
import os

from synthstats_lightning.confinement.system_calls import machine, system_call, system_calls

_NEW_MOUNT, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_NET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
_MS_READ_ONLY, _MS_NO_SUID, _MS_NO_DEVICES, _MS_NO_EXECUTE = 1, 2, 4, 8
_MS_RECURSIVE, _MS_PRIVATE, _DETACH = 0x4000, 0x40000, 2


def enter_namespaces(folder: str) -> None:
    """Leaves the machine's network, IPC, host name and files behind: the root is an empty, locked folder.

    The process must be single-threaded. Afterwards it has every capability inside the new namespaces, and
    should drop them.

    Args:
        folder: Any folder, over which the empty one is mounted.

    Raises:
        OSError: If the kernel or the machine's policy forbids it.
    """
    numbers = system_calls(machine() or "x86_64")
    system_call(numbers["unshare"], _NEW_USER | _NEW_MOUNT | _NEW_NET | _NEW_IPC | _NEW_UTS)

    def mount(kind: str, target: str, flags: int, data: str) -> None:
        arguments = [ctypes.create_string_buffer(text.encode()) for text in (kind, target, kind, data)]
        source, place, file_system, options = arguments
        system_call(numbers["mount"], source, place, file_system, flags, options)

    mount("none", "/", _MS_RECURSIVE | _MS_PRIVATE, "")
    locked = _MS_READ_ONLY | _MS_NO_SUID | _MS_NO_DEVICES | _MS_NO_EXECUTE
    mount("tmpfs", folder, locked, "size=4k,mode=555")
    os.chdir(folder)
    here = ctypes.create_string_buffer(b".")
    # stacks the old root on the new one, so that no folder is needed for it
    system_call(numbers["pivot_root"], here, here)
    system_call(numbers["umount2"], here, _DETACH)
    os.chdir("/")
