"""Two nodes, on two loopback addresses, started by torchrun."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import pytest
import torch

from tests.ranks.processes import alive, descendants, finish, free_port, short_run, start, wait_until


def node(rank: int, port: int, *command: str):
    """torchrun of one node."""
    options = f"--nnodes 2 --nproc-per-node 1 --node-rank {rank} --master-addr 127.0.0.1 --master-port {port}"
    here = ["--local-addr", f"127.0.0.{rank + 1}"]
    return start(["-m", "torch.distributed.run", *options.split(), *here], *command)


def both(*command: str):
    port = free_port()
    return [node(rank, port, *command) for rank in range(2)]


@pytest.mark.slow
def test_two_nodes_end_with_the_same_parameters(tmp_path):
    for process in both("-m", "tests.ranks.node", str(tmp_path)):
        finish(process, 150)
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True) for rank in range(2))
    for name, value in first["parameters"].items():
        assert torch.equal(value, second["parameters"][name]), name
    assert {tuple(ids) for ids in first["recent"]}.isdisjoint(tuple(ids) for ids in second["recent"])


@pytest.fixture
def config(tmp_path):
    """The command that trains by the shipped configuration for torchrun, made short."""
    return short_run(tmp_path, "torchrun.yaml", saved_every="0:00:02")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_shipped_configuration_trains_saves_by_the_clock_and_dies_as_one(config, tmp_path):
    nodes = both(*config(100_000), "--ckpt_path", "last")
    try:
        wait_until(lambda: (tmp_path / "saved" / "last.ckpt").exists(), 300, "the first checkpoint")
        began = {pid: line for process in nodes for pid, line in descendants(process.pid).items()}
        trainers = [pid for pid, line in began.items() if " fit --config" in line]
        workers = [pid for pid in began if pid not in trainers]
        assert len(trainers) == 2
        assert len(workers) >= 4, "a sandbox worker and a scoring process of each"
        begun = time.monotonic()
        os.kill(trainers[1], signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in began), 30, f"the end of {json.dumps(began)}")
        assert time.monotonic() - begun < 30
        for process in nodes:
            process.wait(30)
    finally:
        for process in nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    saved = torch.load(tmp_path / "saved" / "last.ckpt", weights_only=True)
    assert len(saved["ReplayDataModule"]["buffers_of_other_ranks"]) == 1
    step = saved["global_step"]
    for process in both(*config(step + 2), "--ckpt_path", "last"):
        finish(process, 300)
    again = torch.load(tmp_path / "saved" / "last.ckpt", weights_only=True)
    assert step <= again["global_step"] <= step + 2
