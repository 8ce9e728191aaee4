"""Linux process control that the standard library lacks: users of their own, whole families."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from synthstats_lightning.confinement.privileges import become_user

PRIVATE_USERS = 1_900_000_000
"""First user id of a range that no distribution, container engine or systemd hands out."""
NOBODY = 65534


def private_user() -> int | None:
    """The user id for this worker's programs: one of its own where this process is root.

    Returns:
        A user id that no other process has, or `NOBODY` where the user namespace has no such id, or `None`
        where it cannot be changed: for an unprivileged user, or a root without that capability.
    """
    if os.geteuid() != 0:
        return None
    candidates = (PRIVATE_USERS + os.getpid(), NOBODY)
    return next((user for user in candidates if _as_user(user) == 0), None)


def end_descendants(user: int | None, deadline: float) -> None:
    """Kills and reaps every descendant of this process, which must adopt orphans.

    Args:
        user: The user id that they may have, for one that no other process has.
        deadline: `time.monotonic()` by which they must be gone.

    Raises:
        TimeoutError: If some are left at the deadline.
    """
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = _children()
        if not children:
            return
        if user is not None and user >= PRIVATE_USERS:
            # at once, so that none forks faster than it is found
            _as_user(user, kill_all=True)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(children)} processes of a program cannot be ended")
        time.sleep(0.001)


def _as_user(user: int, kill_all: bool = False) -> int:
    """Becomes a user in a forked process, kills that user's processes if asked, gives the exit status."""
    helper = os.fork()
    if helper == 0:
        status = 1
        try:
            become_user(user)
            if kill_all:
                # on Linux -1 means every other process that this user may signal
                os.kill(-1, signal.SIGKILL)
            status = 0
        except ProcessLookupError:
            # there was none
            status = 0
        except OSError:
            status = 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1])


def _children() -> list[int]:
    """Process ids of the direct children, zombies included."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(int(name)) == own]


def _parent(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            # the command's name, in parentheses, may hold anything
            return int(file.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
