"""Scheduling priority of worker processes: their own trainer comes first, other people's jobs hardly."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

WORKER_NICENESS = 6
"""Of worker processes. A core goes to a busy one and to a busy process of niceness 0 as 272 to 1024.

On two cores, two workers, a trainer that waits for them and two foreign processes that never rest share the
time so that scoring, and with it training, has a third of the pace that it has alone. At niceness 19 (15 to
1024) it had a hundredth; at 0 each worker would take as much of the trainer's core as the trainer.
"""

_ATTEMPTS, _PAUSE_SECONDS = 5, 0.11


def lower_priority(pid: int, niceness: int = WORKER_NICENESS) -> None:
    """Makes a process, and the session it leads, yield to others, and never preempt them when it wakes up.

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
    with contextlib.suppress(PermissionError):  # some containers forbid it; the niceness holds all the same
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
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
