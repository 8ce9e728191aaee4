"""Scheduling priority of worker processes: training comes first, scoring uses what is left of the cores."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

WORKER_NICENESS = 19
"""Of worker processes: the weakest claim on a core that Linux knows."""

_ATTEMPTS, _PAUSE_SECONDS = 5, 0.11


def lower_priority(pid: int, niceness: int = WORKER_NICENESS) -> None:
    """Makes a process, and the session it leads, yield to others.

    Where Linux groups tasks by session ("autogroup"), as desktops and many servers do, niceness counts only
    within a session, and each worker leads one of its own: measured on two cores, the trainer waited a
    quarter of the time for workers of niceness 19, and a tenth once their groups had it too.

    Args:
        pid: Process id of a running process of this user.
        niceness: How much it yields, from 0 to 19.

    Raises:
        ProcessLookupError: If the process is gone.
    """
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    group = Path(f"/proc/{pid}/autogroup")
    for attempt in range(_ATTEMPTS):
        try:
            group.write_text(str(niceness))
            return
        except FileNotFoundError:
            return  # no such grouping on this machine, or the process is gone
        except OSError as error:
            # the kernel takes one change in a tenth of a second from ordinary users, over all of them
            if error.errno != errno.EAGAIN or attempt == _ATTEMPTS - 1:
                return
            time.sleep(_PAUSE_SECONDS)
