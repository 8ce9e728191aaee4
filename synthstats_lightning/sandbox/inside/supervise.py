"""One program's process, watched from its parent: deadline, bounded pipes, and nothing left afterwards."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from pathlib import Path

from synthstats_lightning.confinement import Confiner
from synthstats_lightning.runtime.process_clock import ProcessClock
from synthstats_lightning.sandbox.inside import child, processes
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.outcome import Outcome
from synthstats_lightning.sandbox.protocol import Job
from synthstats_lightning.sandbox.scratch import remove_tree

_CHUNK = 1 << 16
_ENDING_SECONDS = 5.0
_LOOKS = 0.02, 0.08
"""Seconds between two looks at a program: at random, so that none can be awake for all of them."""
# not the module's own generator, whose state programs inherit
_random = random.SystemRandom()


class TrainerGone(Exception):
    """The trainer closed its end of the pipe while a program ran."""


class _Pipe:
    """Reads a pipe that a hostile process writes to, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.writer, True)
        self.content = bytearray()
        self.open = True
        self._limit = limit

    @property
    def overflow(self) -> bool:
        """Whether more than the limit came."""
        return len(self.content) > self._limit

    def read(self) -> None:
        """Takes what is there without waiting."""
        while self.open and not self.overflow:
            try:
                part = os.read(self.reader, _CHUNK)
            except BlockingIOError:
                return
            self.content += part
            self.open = bool(part)

    def kept(self) -> bytes:
        """What came, cut at the limit."""
        return bytes(self.content[: self._limit])


class Supervisor:
    """Runs programs one after the other, each in a forked child.

    Args:
        limits: What each program may use.
        confiner: What the kernel is asked to refuse them.
        folder: The worker's scratch folder; in level `none` each program gets a sub-folder of its own, in
            every other none can write anywhere.
        trainer: Descriptor that becomes readable or closes when the trainer is gone.
    """

    def __init__(self, limits: SandboxLimits, confiner: Confiner, folder: Path, trainer: int) -> None:
        self._limits = limits
        self._confiner = confiner
        self._folder = folder
        self._trainer = trainer
        self._user = processes.private_user()
        self._count = 0

    def run(self, job: Job) -> tuple[Outcome, bytes, bytes]:
        """Runs one program to its end, or ends it.

        Args:
            job: The program and what it is built for.

        Returns:
            How it ended, what it wrote to the result pipe, and what it printed; both cut at their limits.

        Raises:
            TrainerGone: If the trainer closed its end meanwhile; the program is dead then.
            TimeoutError: If something that the program started cannot be killed.
        """
        self._count += 1
        started = time.monotonic()
        folder = self._make_folder()
        result, log = _Pipe(self._limits.output_bytes), _Pipe(self._limits.log_bytes)
        parent = os.getpid()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        process = os.fork()
        if process == 0:
            child.become_program(
                job,
                child.Confinement(
                    limits=self._limits,
                    confiner=self._confiner,
                    folder=folder,
                    user=self._user,
                    parent=parent,
                    mapped=pages * os.sysconf("SC_PAGE_SIZE"),
                ),
                result.writer,
                log.writer,
            )
        os.close(result.writer)
        os.close(log.writer)
        handle = os.pidfd_open(process)
        try:
            timed_out = self._watch(process, handle, result, log, started)
        finally:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
            _, status, usage = os.wait4(process, 0)
            processes.end_descendants(self._user, time.monotonic() + _ENDING_SECONDS)
            # what was written before the end is still in the pipes
            result.read()
            log.read()
            os.close(result.reader)
            os.close(log.reader)
            if folder is not None:
                remove_tree(folder)
        outcome = Outcome(
            exit_code=os.waitstatus_to_exitcode(status),
            timed_out=timed_out,
            result_overflow=result.overflow,
            log_overflow=log.overflow,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            wall_seconds=time.monotonic() - started,
        )
        return outcome, result.kept(), log.kept()

    def _make_folder(self) -> Path | None:
        if self._confiner.level != "none":
            return None
        folder = self._folder / f"program-{self._count}"
        folder.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(folder, self._user, self._user)
        return folder

    def _watch(self, process: int, handle: int, result: _Pipe, log: _Pipe, started: float) -> bool:
        """Reads the pipes until the program ends, floods one, or has slept for too long (then: true)."""
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self._trainer, select.POLLIN)
        pipes = {pipe.reader: pipe for pipe in (result, log)}
        for reader in pipes:
            poll.register(reader, select.POLLIN)
        clock, look = None, time.monotonic() + _random.uniform(*_LOOKS)
        while True:
            remaining = look - time.monotonic()
            if remaining <= 0:
                # most programs have ended before
                clock = clock or ProcessClock(process)
                clock.look()
                # a program with processes of its own may wait for a processor that these keep busy
                alone = not self._limits.processes
                idle = clock.idle if alone else time.monotonic() - started - clock.computed
                if idle > self._limits.wall_seconds:
                    return True
                remaining = _random.uniform(*_LOOKS)
                look = time.monotonic() + remaining
            for descriptor, _ in poll.poll(remaining * 1000):
                if descriptor == handle:
                    return False
                if descriptor == self._trainer:
                    # the trainer sends nothing while a program runs: this is its end
                    raise TrainerGone
                pipe = pipes[descriptor]
                pipe.read()
                if pipe.overflow:
                    return False
                if not pipe.open:
                    poll.unregister(descriptor)
