"""Giving up what a process could do beyond an ordinary one, and tying its life to its parent's."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct

from synthstats_lightning.confinement.system_calls import machine, prctl, system_call, system_calls

_SET_DEATH_SIGNAL, _SET_DUMPABLE, _DROP_BOUNDING = 1, 4, 24
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_CLEAR = 36, 38, 47, 4
_CAPABILITY_VERSION = 0x20080522


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent ends."""
    prctl(_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    """Forbids this process and its descendants to gain privileges by running a program."""
    prctl(_SET_NO_NEW_PRIVILEGES, 1)


def set_dumpable(value: bool) -> None:
    """Whether processes of the same user may trace this one, read its memory and what `/proc` tells of it."""
    prctl(_SET_DUMPABLE, int(value))


def become_user(user: int) -> None:
    """Gives up root for good: no supplementary groups, and user and group of one id.

    Args:
        user: Numeric id of the user.
    """
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def drop_bounding_set() -> None:
    """Gives up the capabilities that running a program could give; an ordinary user gives up nothing."""
    for capability in range(64):
        try:
            prctl(_DROP_BOUNDING, capability)
        except OSError as error:
            # EINVAL: behind the last one that the kernel knows; EPERM: an ordinary user
            if error.errno in (errno.EINVAL, errno.EPERM):
                return
            raise


def drop_capabilities() -> None:
    """Gives up every capability: effective, permitted, inheritable and ambient.

    Raises:
        OSError: If the kernel refuses.
    """
    try:
        prctl(_AMBIENT, _AMBIENT_CLEAR)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel without ambient capabilities
            raise
    name = machine()
    if name is None:
        raise OSError(errno.ENOSYS, "capabilities can be dropped on x86-64 and aarch64 only")
    header = ctypes.create_string_buffer(struct.pack("<Ii", _CAPABILITY_VERSION, 0), 8)
    system_call(system_calls(name)["capset"], header, ctypes.create_string_buffer(24))


def die_with_parent(parent: int, signal_number: int = signal.SIGKILL) -> None:
    """Makes the kernel end this process when its parent ends.

    A change of user clears the request, so it must come after one. The kernel means the thread that forked:
    where the parent has several, it must be one that lives as long.

    Args:
        parent: Process id of the parent; if it is gone already, this process ends at once.
        signal_number: The signal that this process then gets.
    """
    prctl(_SET_DEATH_SIGNAL, signal_number)
    if os.getppid() != parent:
        os._exit(1)
