"""Two processes of a run and one server: the first publishes for both."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, load_policy
from tests.ranks.processes import finish, start
from tests.rollouts.two_ranks import PROGRAMS, WARMUP
from tests.support.completion_server import serving


@pytest.mark.slow
def test_the_first_rank_publishes_for_both(tmp_path):
    with serving(load_policy("tiny", LoraSettings(rank=2), seed=9)) as server:
        finish(start(["-m", "tests.rollouts.two_ranks"], server.url, str(tmp_path)), timeout=170)
        loads = [body["lora_name"] for body in server.bodies("/load_lora_adapter")]
        assert [name.rpartition("-")[2] for name in loads] == ["v000000", "v000002", "v000004"]
        rounds = [body for body in server.bodies("/completions") if not body["ignore_eos"]]
        # each rank has its own requests, under the one version that is present
        counts = {name: sorted(b["n"] for b in rounds if b["model"] == name) for name in loads}
        assert counts == dict(zip(loads, [[WARMUP] * 2, [PROGRAMS] * 2, [PROGRAMS] * 2], strict=True))
        assert len({body["seed"] for body in rounds}) == len(rounds)
        assert not server.adapters
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first["metrics"]["rollout/server_gap"] < 1e-4
    shared = [name for name in first["metrics"] if name.startswith("rollout/")]
    assert {name: first["metrics"][name] for name in shared} == {
        name: second["metrics"][name] for name in shared
    }
    assert first["recent"] != second["recent"]
