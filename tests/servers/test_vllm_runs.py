"""Training runs whose programs a real vLLM writes, on a language where every probability is known."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest
from lightning.pytorch import Callback

from synthstats_lightning.rollouts import ServerRollouts
from synthstats_lightning.testing.listed_language import save_listed_model
from synthstats_lightning.testing.listed_training import ListedRun, train_listed
from synthstats_lightning.testing.server_process import serving_by
from tests.servers.conftest import SCRIPT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

STEPS, PROGRAMS = 60, 128
LOCAL_SEEDS = range(1, 7)


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    """With heads as wide as vLLM has kernels for."""
    folder = tmp_path_factory.mktemp("listed")
    save_listed_model(folder, head_dim=32, positions=256)
    return folder


@pytest.fixture(scope="module")
def server(listed, tmp_path_factory):
    options = "--max-model-len", "256"
    with serving_by(SCRIPT, listed, tmp_path_factory.mktemp("server"), *options) as started:
        yield started


@pytest.fixture(scope="module")
def local(listed, tmp_path_factory) -> list[ListedRun]:
    """The same runs with programs of the trainer's own, by seed: what noise there is."""
    folder = tmp_path_factory.mktemp("local")
    return [train_listed(listed, folder, (), STEPS, PROGRAMS, seed) for seed in LOCAL_SEEDS]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_run_ends_where_one_of_the_trainer_s_own_programs_does(
    listed, server, local, tmp_path, overlap, record_property
):
    served = ServerRollouts(server.url, publish_every=2, overlap=overlap)
    found = train_listed(listed, tmp_path, [served], STEPS, PROGRAMS, 1)
    pairs = {
        "total_variation": (found.total_variation, [each.total_variation for each in local]),
        "log_z": (found.log_z - found.exact_log_z, [each.log_z - each.exact_log_z for each in local]),
    }
    for name, (value, others) in pairs.items():
        mean, spread = statistics.mean(others), statistics.stdev(others)
        told = f"{name}: {value:.4f}, of the trainer's own {mean:.4f} ± {spread:.4f}"
        record_property(name, told)
        print(told)
        # one run against the mean of several, at four standard errors
        assert abs(value - mean) < 4 * spread * math.sqrt(1 + 1 / len(others)), told
    assert found.total_variation < 0.3  # it starts from 0.56
    assert found.drawn != local[0].drawn
    assert found.metrics["rollout/server_gap"] < 1e-5
    share = found.metrics["rollout/waiting_seconds"] / found.seconds
    record_property("waiting", share)
    print(f"overlap {overlap}: the trainer waited for {share:.0%} of {found.seconds:.1f} s")
    assert 0 < share < 1


class Killing(Callback):
    """Kills the server after a step, and starts it again."""

    def __init__(self, server, step: int) -> None:
        self.server, self.step = server, step

    def on_train_batch_end(self, trainer, *more) -> None:
        if trainer.global_step == self.step:
            self.server.kill()
            self.server.start(wait=False)


def test_a_run_outlives_its_server(listed, server, tmp_path):
    served = ServerRollouts(server.url, publish_every=2, patience_s=600.0)
    with pytest.warns(UserWarning, match="the inference server is away: .* 600 s at most"):
        found = train_listed(listed, tmp_path, [Killing(server, 7), served], 20, PROGRAMS, 1)
    assert [len(each) for each in found.drawn] == [PROGRAMS] * 20
    assert found.metrics["rollout/failed_requests"] > 0
    assert found.metrics["rollout/server_gap"] < 1e-5
