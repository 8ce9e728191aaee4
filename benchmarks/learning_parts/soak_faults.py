"""What goes wrong during a soak: hostile programs among the others, and workers that are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.scoring.score import Score

WASTERS = (
    "while True:\n    pass\n",
    "hoard = []\nwhile True:\n    hoard.append(bytearray(10_000_000))\n",
    "import os\nwhile True:\n    os.fork()\n",
    "import threading\nwhile True:\n    threading.Thread(target=lambda: input()).start()\n",
    "def fall():\n    return fall() + 1\nimport sys\nsys.setrecursionlimit(10**9)\nfall()\n",
    "import ctypes\nctypes.string_at(1)\n",
    "print('x' * 1000, flush=True)\nwhile True:\n    print('y' * 10_000_000)\n",
    "import os\nos.kill(os.getppid(), 9)\nos._exit(0)\n",
    "import time\ntime.sleep(10_000)\n",
    "with open('scratch.bin', 'wb') as file:\n    while True:\n        file.write(bytes(1_000_000))\n",
    "x = " + "(" * 20_000 + "1" + ")" * 20_000 + "\n",
    "with pm.Model():\n    a = pm.Normal('a', shape=10**7)\n    pm.Normal('o', a.sum(), observed=Length)\n",
)
"""Programs that use up time, memory, processes, output or the parser's stack."""


class HostilePrograms(Callback):
    """Slips hostile programs among those that `ProgramScoring` has scored; put it after that callback.

    Their scores go nowhere, but they take turns with the others on the same workers.

    Args:
        sources: The programs, by turns.
        every: One is slipped in after every so many others.

    Attributes:
        failures: Category to number of hostile programs; `"scored"` would be a program that got a score.
    """

    def __init__(self, sources: list[str], every: int = 20) -> None:
        self.sources = sources
        self.every = every
        self.failures: Counter[str] = Counter()
        self._submitted = 0
        self._lock = threading.Lock()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Gets between the callback and its workers."""
        scoring, _ = scoring_and_module(trainer, pl_module, self)
        pool: Any = scoring.scorer.pool
        submit: Callable[..., Future[Score]] = pool.submit

        def mixed(source: str, task: Any) -> Future[Score]:
            self._submitted += 1
            if self._submitted % self.every == 0:
                number = self._submitted // self.every
                # the number makes it a program that the pool has not seen
                hostile = f"# {number}\n" + self.sources[number % len(self.sources)]
                submit(hostile, task).add_done_callback(self._note)
            return submit(source, task)

        pool.submit = mixed

    def _note(self, done: Future[Score]) -> None:
        if done.cancelled():
            return
        score = done.result()
        with self._lock:
            self.failures["scored" if score.failure is None else str(score.failure)] += 1


class WorkerKiller:
    """Kills a sandbox worker or a scoring process by turns, every so many seconds, until it is stopped.

    Args:
        every: Seconds between kills.
    """

    def __init__(self, every: float = 30.0) -> None:
        self.every = every
        self.kills = 0
        self._pool: Any = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker-killer")
        self._thread.start()

    def aim(self, pool: Any) -> None:
        """Names the pool of workers; `None` while there is none."""
        self._pool = pool

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            for worker in list(self._pool._workers[:1]) if self._pool is not None else []:
                pid = worker.scoring.pid if self.kills % 2 else worker.sandbox.pid
                if pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        self.kills += 1
