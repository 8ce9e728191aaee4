"""The end of one process is the end of all, within seconds, wherever the others are."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback

import pytest

from synthstats_lightning.runtime import rank_watch
from synthstats_lightning.runtime.rank_watch import RankWatch
from tests.ranks.processes import wait_until

SIZE = 3
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def rank_process(rank, folder, how):
    """A forked process that is one rank; the ranks meet through a file instead of a process group."""
    if pid := os.fork():
        return pid
    status = 70
    try:
        sys.stderr = (folder / f"said-{rank}").open("w")
        meeting = folder / "meeting"

        def gather(value):
            if rank == 0:
                (folder / "new").write_bytes(pickle.dumps([value]))
                (folder / "new").rename(meeting)
            wait_until(meeting.exists, 20, "the meeting")
            return pickle.loads(meeting.read_bytes())

        rank_watch.gather_objects, rank_watch.rank_and_size = gather, lambda: (rank, SIZE)
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        watch = RankWatch(grace=0.5)
        (folder / f"up-{rank}").touch()
        last = rank == SIZE - 1
        if how == "fail" and last:
            watch.close(ValueError("the reason\nwhy"))
            os._exit(3)
        if how == "done" and last:
            watch.close()
            os._exit(0)
        time.sleep(1.5 if how == "done" else 60)
        watch.close()
        status = 0 if watch.lost is None else 4
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(status)


@pytest.fixture
def ranks(tmp_path):
    """Starts ranks; whatever is left of them at the end is killed."""
    pids = []

    def started(how):
        pids.extend(rank_process(rank, tmp_path, how) for rank in range(SIZE))
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == SIZE, 30, "the start of all ranks")
        return pids

    def ended():
        """Exit status of each rank and what it said."""
        deadline = time.monotonic() + 20
        statuses = {}
        while len(statuses) < len(pids) and time.monotonic() < deadline:
            for rank, pid in enumerate(pids):
                if rank not in statuses and (done := os.waitpid(pid, os.WNOHANG))[0]:
                    statuses[rank] = os.waitstatus_to_exitcode(done[1])
            time.sleep(0.02)
        said = [(tmp_path / f"said-{rank}").read_text() for rank in range(SIZE)]
        return [statuses.get(rank) for rank in range(SIZE)], said

    yield started, ended
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_ends_the_others(ranks, victim):
    started, ended = ranks
    os.kill(started("wait")[victim], signal.SIGKILL)
    begun = time.monotonic()
    statuses, said = ended()
    assert time.monotonic() - begun < 15
    assert statuses == [-signal.SIGKILL if rank == victim else 1 for rank in range(SIZE)], said
    for rank in {0, 1, 2} - {victim}:
        assert said[rank] == f"rank {rank}: rank {victim} was lost; this process ends within 0.5 seconds\n"


def test_an_error_on_one_rank_ends_the_others_with_its_reason(ranks):
    started, ended = ranks
    started("fail")
    statuses, said = ended()
    assert statuses == [1, 1, 3], said
    assert all("rank 2 ended with ValueError: the reason why" in text for text in said[:2]), said


def test_a_rank_that_is_done_disturbs_nobody(ranks):
    started, ended = ranks
    started("done")
    assert ended() == ([0, 0, 0], ["", "", ""])


def test_one_process_has_nothing_to_watch():
    watch = RankWatch()
    watch.close(ValueError("x"))
    watch.close()
    assert watch.lost is None
