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
SEEDS = range(1, 9)
ERRORS = 3.0
"""Standard errors of a difference of means that noise explains."""


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
    return [train_listed(listed, folder, (), STEPS, PROGRAMS, seed) for seed in SEEDS]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("overlap", [False, True])
def test_runs_end_where_those_of_the_trainer_s_own_programs_do(
    listed, server, local, tmp_path, overlap, record_property
):
    found = [
        train_listed(
            listed,
            tmp_path,
            [ServerRollouts(server.url, publish_every=2, overlap=overlap)],
            STEPS,
            PROGRAMS,
            seed,
        )
        for seed in SEEDS
    ]
    share = statistics.mean(run.metrics["rollout/waiting_seconds"] / run.seconds for run in found)
    seconds = statistics.mean(run.seconds for run in found)
    print(f"overlap {overlap}: the trainer waited for {share:.0%} of {seconds:.1f} s")
    record_property("waiting", share)
    told = []
    for name, figure in (("total variation", variation), ("log Z", log_z_gap)):
        difference, error, words = compared([figure(run) for run in found], [figure(run) for run in local])
        print(f"overlap {overlap}, {name}: {words}")
        record_property(name, words)
        if abs(difference) > ERRORS * error:
            told.append(f"{name}: {words}")
    assert not told
    assert all(run.drawn != own.drawn for run, own in zip(found, local, strict=True))
    assert all(run.metrics["rollout/server_gap"] < 1e-5 for run in found)
    assert 0 < share < 1


def variation(run: ListedRun) -> float:
    return run.total_variation


def log_z_gap(run: ListedRun) -> float:
    return run.log_z - run.exact_log_z


def compared(server: list[float], local: list[float]) -> tuple[float, float, str]:
    """Difference of means, its standard error, and both in words."""
    pairs = [(statistics.mean(values), statistics.stdev(values)) for values in (server, local)]
    error = math.hypot(*(spread / math.sqrt(len(server)) for _, spread in pairs))
    difference = pairs[0][0] - pairs[1][0]
    words = " and ".join(f"{mean:.4f} ± {spread:.4f}" for mean, spread in pairs)
    return (
        difference,
        error,
        f"server and local {words} ({len(server)} seeds): {difference / error:.2f} standard errors",
    )


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
