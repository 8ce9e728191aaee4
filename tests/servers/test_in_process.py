"""vLLM in the trainer's own process: in its environment, which this test starts where it is another one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, SamplingSettings, load_policy
from synthstats_lightning.rollouts import AdapterVersions, ServerBackend, ServerRollouts
from synthstats_lightning.rollouts.engine_connection import EngineConnection
from synthstats_lightning.rollouts.engine_settings import engine_settings
from synthstats_lightning.rollouts.vllm_engine import BASE, VLLMEngine
from synthstats_lightning.rollouts.weight_check import WARM, checked_programs, gap, long_prompt
from synthstats_lightning.tasks import BUNDLED_TASKS, task_prompt
from synthstats_lightning.testing.listed_language import save_listed_model
from synthstats_lightning.testing.listed_training import train_listed
from tests.rollouts.conftest import change, publish
from tests.servers.conftest import SCRIPT
from tests.support.completion_server import plain_log_probs

HERE = importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # what vLLM calls is partly deprecated
]
inside = pytest.mark.skipif(not HERE, reason="run by test_in_the_environment_of_vllm")
LIMIT = 1e-4
"""Nats a program."""


@pytest.mark.skipif(HERE, reason="this is that environment")
def test_in_the_environment_of_vllm():
    root = Path(__file__).resolve().parents[2]
    python = subprocess.run(["bash", str(SCRIPT), "python"], capture_output=True, text=True, check=True)
    ran = subprocess.run(
        [python.stdout.strip(), "-m", "pytest", "-m", "vllm", "-q", "-s", "-p", "no:cacheprovider", __file__],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    print(ran.stdout[-3000:])
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert " passed" in ran.stdout


class Source:
    sampling = SamplingSettings(max_new_tokens=110)


@inside
def test_base_and_two_adapters_agree_to_a_ten_thousandth_of_a_nat_a_program(tmp_path):
    policy = load_policy("tiny", LoraSettings(rank=16, alpha=32.0), seed=0)
    prompts = [policy.encode_prompt(*task_prompt(BUNDLED_TASKS[name]())) for name in ("dugongs", "surgical")]
    settings = engine_settings(policy, [], prompts, [Source()], 0, 0.3)
    connection = EngineConnection(lambda: VLLMEngine(settings))
    backend = ServerBackend([connection], AdapterVersions([connection], tmp_path / "adapters", keep=0))
    try:
        prompt = long_prompt(policy, prompts)
        for temperature in (1.0, WARM):  # log-probabilities are raw
            call = checked_programs(policy, connection, BASE, prompt, temperature, base=True)
            assert gap(policy, prompt, backend.called(call), reference=True) < 1e-5
        first = None
        for step in (1, 2):
            change(policy, step, 0.02)
            publish(backend, policy, step)
            drawn = policy.sample(prompts, 12, Source.sampling, seed=step, backend=backend)
            assert drawn.proposal_log_prob is not None
            assert (drawn.log_prob - drawn.proposal_log_prob).abs().max() < LIMIT
            for row in range(2):
                own = plain(policy, prompts, drawn, row)
                said = float(drawn.proposal_log_prob[row])
                assert abs(own - said) < LIMIT
                # of the adapter, and not of the base
                assert abs(plain(policy, prompts, drawn, row, reference=True) - said) > 100 * LIMIT
            assert len(set(drawn.sources)) > 12
            assert first is None or not torch.equal(first, drawn.program_ids)
            first = drawn.program_ids
        # equal seeds give equal programs, whatever is written beside them
        again = policy.sample(prompts, 12, Source.sampling, seed=2, backend=backend)
        assert torch.equal(again.program_ids, first)
        alone = policy.sample(prompts[:1], 12, Source.sampling, seed=2, backend=backend)
        width = alone.program_ids.shape[1]
        assert torch.equal(alone.program_ids, first[:12, :width])
    finally:
        backend.versions.close()
        backend.close()
    assert not torch.distributed.is_initialized()


def plain(policy, prompts, drawn, row, reference=False) -> float:
    """Log-probability of a program by a plain pass of transformers."""
    ids = drawn.program_ids[row][drawn.program_mask[row]].tolist()
    prompt = prompts[int(drawn.prompt_index[row])]
    with policy.evaluating(), policy.reference() if reference else nullcontext():
        (values,) = plain_log_probs(policy, list(prompt), [ids])
    return sum(values)


@inside
def test_a_run(tmp_path):
    model = tmp_path / "listed"
    model.mkdir()
    save_listed_model(model, head_dim=32, positions=256)
    found = train_listed(model, tmp_path, [ServerRollouts(backend="vllm", publish_every=2)], 20, 64)
    assert found.total_variation < train_listed(model, tmp_path, (), 1, 64, rate=1e-9).total_variation
    assert found.metrics["rollout/server_gap"] < 1e-5
    assert found.metrics["rollout/version_age"] <= 1.0
    assert list((tmp_path / "adapters").iterdir()) == []
