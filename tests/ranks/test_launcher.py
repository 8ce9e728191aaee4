"""Two processes that Lightning's own launcher started: whatever ends one ends both, and their workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import pytest

from tests.ranks.processes import alive, descendants, short_run, start, wait_until


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("number", "victim"), [(signal.SIGKILL, 0), (signal.SIGKILL, 1), (signal.SIGINT, 0), (signal.SIGINT, 1)]
)
def test_the_end_of_one_process_is_the_end_of_all(tmp_path, number, victim):
    main = start(short_run(tmp_path, "ddp.yaml", saved_every=2)(100_000))
    began = {}
    try:
        saved = tmp_path / "saved" / "last.ckpt"
        wait_until(lambda: saved.exists() or main.poll() is not None, 300, "the first checkpoint")
        assert main.poll() is None, main.communicate()[0]
        began = descendants(main.pid)
        (other,) = [pid for pid, line in began.items() if " fit --config" in line]
        assert len(began) - 1 >= 4, "a sandbox worker and a scoring process of each"
        begun = time.monotonic()
        os.kill((main.pid, other)[victim], number)
        everything = [main.pid, *began]
        wait_until(lambda: not any(alive(pid) for pid in everything), 30, f"the end of {json.dumps(began)}")
        assert time.monotonic() - begun < 30
        said = main.communicate(timeout=30)[0]
        assert main.returncode != 0, said
    finally:
        for pid in [main.pid, *began]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        main.communicate()
