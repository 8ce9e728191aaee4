"""vLLM in the trainer's own process: the same seam, checks and versions, another way to ask."""

from __future__ import annotations

import sys

import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.cli.main import main
from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.rollouts import AdapterVersions, RolloutError, ServerBackend, ServerRollouts
from synthstats_lightning.rollouts.engine_connection import EngineConnection
from synthstats_lightning.rollouts.engine_settings import engine_settings
from synthstats_lightning.rollouts.errors import AnswerError, RefusedError, WeightsError
from synthstats_lightning.rollouts.vllm_engine import BASE, VLLMEngine
from synthstats_lightning.rollouts.weight_check import check_gap, checked_programs, gap, long_prompt
from synthstats_lightning.testing.listed_language import LORA, save_listed_model
from synthstats_lightning.testing.listed_training import train_listed
from tests.rollouts.conftest import change, publish
from tests.support.fake_vllm import FakeVLLM

PROMPTS = [[3, 5, 7, 9], [4, 6, 8]]


class Source:
    sampling = SamplingSettings(max_new_tokens=8)


@pytest.fixture
def fake(served_policy, monkeypatch):
    made = FakeVLLM(served_policy)
    made.install(monkeypatch)
    yield made
    served_policy.load_adapter_state_dict(made.numbers.first)


@pytest.fixture
def connection(fake, policy):
    settings = engine_settings(policy, [], PROMPTS, [Source()], 1, 0.3)
    made = EngineConnection(lambda: VLLMEngine(settings))
    yield made
    made.close()


@pytest.fixture
def in_process(connection, tmp_path):
    made = ServerBackend([connection], AdapterVersions([connection], tmp_path / "adapters", keep=1))
    yield made
    made.close()


def drawn(policy, backend, **changes):
    settings = SamplingSettings(max_new_tokens=8, **changes)
    return policy.sample(PROMPTS, 3, settings, seed=5, backend=backend)


def test_it_writes_what_a_server_writes(policy, in_process, backend, fake):
    for each in (in_process, backend):
        publish(each, policy, 1)
    own, served = drawn(policy, in_process), drawn(policy, backend)
    assert torch.equal(own.program_ids, served.program_ids)
    assert torch.equal(own.log_prob, served.log_prob)
    assert torch.allclose(own.log_prob, own.proposal_log_prob, atol=1e-4)
    (batch,) = fake.batches  # both prompts, written together
    assert [body["n"] for body in batch] == [3, 3]
    assert len({body["seed"] for body in batch}) == 2
    assert fake.threads == {"rollout-engine"}


def test_every_program_has_a_temperature_of_its_own(policy, in_process, fake):
    publish(in_process, policy, 1)
    drawn(policy, in_process, temperature_high=1.5)
    assert sum(map(len, fake.batches)) == 6
    assert len({body["temperature"] for batch in fake.batches for body in batch}) == 6


def test_versions_have_new_names_and_numbers(policy, in_process, fake, tmp_path):
    for step in (1, 2, 3):
        change(policy, step)
        version = publish(in_process, policy, step)
        assert fake.loaded[-1].lora_name == version.name
        assert fake.loaded[-1].lora_path == str(tmp_path / "adapters" / version.name)
    assert [each.lora_int_id for each in fake.loaded] == [1, 2, 3]
    assert sorted(fake.adapters) == [2, 3]  # one is kept besides the present one
    drawn(policy, in_process)
    assert {body["model"] for body in fake.batches[-1]} == {version.name}
    assert {body["cache_salt"] for body in fake.batches[-1]} == {version.name}


def test_weights_are_checked(policy, in_process, connection):
    prompt = long_prompt(policy, PROMPTS)
    base = in_process.called(checked_programs(policy, connection, BASE, prompt, base=True))
    check_gap(gap(policy, prompt, base, reference=True), 1e-3, "the base")
    version = publish(in_process, policy, 1)
    written = in_process.called(checked_programs(policy, connection, version.name, prompt))
    check_gap(gap(policy, prompt, written), 1e-3, "the adapter")
    change(policy, 2)
    with pytest.raises(WeightsError, match="differ from the trainer's by"):
        check_gap(gap(policy, prompt, written), 0.05, "another adapter")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("finish_reason", "error", "finish_reason must be one of"),
        ("token_ids", [10**6], "token_ids must be from 0 to"),
        ("logprobs", None, "token_logprobs must hold"),
    ],
)
def test_answers_are_checked(policy, in_process, fake, field, value, message):
    publish(in_process, policy, 1)

    def changed(output):
        setattr(output.outputs[0], field, value)
        return output

    fake.change = changed
    with pytest.raises(AnswerError, match=message):
        drawn(policy, in_process)


def test_a_prompt_that_is_another_is_refused(policy, in_process, fake):
    publish(in_process, policy, 1)

    def changed(output):
        output.prompt_token_ids = [*output.prompt_token_ids, 1]
        return output

    fake.change = changed
    with pytest.raises(AnswerError, match="prompt_token_ids must be the"):
        drawn(policy, in_process)


def test_what_goes_wrong_in_the_engine_is_one_line(policy, in_process, connection, fake, tmp_path):
    with pytest.raises(RefusedError, match="status 404: the model 'none' does not exist"):
        connection.ask(connection.dialect.path, {"model": "none"})
    with pytest.raises(RefusedError, match="status 400: UnknownModelError: the adapter 'none' is not load"):
        connection.ask(connection.dialect.unload, {"lora_name": "none"})
    with pytest.raises(RefusedError, match=r"status 400: ValueError: .*No adapter found"):
        connection.ask(connection.dialect.load, {"lora_name": "a", "lora_path": str(tmp_path / "none")})
    publish(in_process, policy, 1)

    def broken(output):
        raise RuntimeError("out of memory")

    fake.change = broken
    with pytest.raises(RolloutError, match="vLLM in this process: RuntimeError: out of memory"):
        drawn(policy, in_process)


def test_an_engine_that_does_not_start(fake, policy):
    fake.refuse = "No available memory for the cache blocks."
    settings = engine_settings(policy, [], PROMPTS, [Source()], 1, 0.3)
    with pytest.raises(RolloutError, match="vLLM in this process does not start: RuntimeError: No available"):
        EngineConnection(lambda: VLLMEngine(settings))


def test_random_numbers_of_the_run_stay_its_own(fake, policy):
    """An engine seeds the generators of its process."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    engine = VLLMEngine(engine_settings(policy, [], PROMPTS, [Source()], 1, 0.3))
    assert torch.equal(torch.get_rng_state(), before)
    engine.close()


def test_what_an_engine_is_started_with(connection, fake, policy, folder):
    assert fake.options == {
        "model": str(folder),
        "revision": None,
        "dtype": "float32",
        "seed": 0,
        "max_model_len": 176,
        "enable_lora": True,
        "max_lora_rank": 8,
        "max_loras": 2,
        "max_cpu_loras": 2,
        "generation_config": "vllm",
        "enforce_eager": True,
        "enable_chunked_prefill": False,
    }
    connection.close()
    assert fake.ended == 1
    with pytest.raises(RolloutError, match="the run ends"):
        connection.ask(connection.dialect.path, {"model": BASE})


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listed")
    save_listed_model(folder)
    return folder


def test_a_run(listed, tmp_path, monkeypatch):
    fake = FakeVLLM(load_policy(str(listed), LORA, seed=3))
    fake.install(monkeypatch)
    own = train_listed(listed, tmp_path, [ServerRollouts(backend="vllm", publish_every=2)], 4, 8)
    assert [each.lora_name.rpartition("-")[2] for each in fake.loaded] == [
        "v000000",
        "v000002",
        "v000004",
    ]
    assert not fake.adapters
    assert fake.ended == 1
    assert own.metrics["rollout/server_gap"] < 1e-4
    assert own.metrics["rollout/version_age"] <= 1.0
    assert len(own.drawn) == 4


def test_a_missing_package_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "fit",
                "--config=quickstart",
                "--config=policy/tiny",
                "--config=rollouts/vllm",
                f"--trainer.default_root_dir={tmp_path}",
            ]
        )
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "rollouts.backend vllm needs the vllm extra: pip install 'synthstats-lightning[vllm]'" in said
    assert said.count("\n") == 1


def test_several_processes_need_servers(fake, tmp_path):
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", logger=False, default_root_dir=tmp_path, callbacks=[]
    )
    with pytest.raises(ValueError, match=r"rollouts.backend must be server for a run of several processes"):
        ServerRollouts(backend="vllm").setup(trainer, GFlowNetModule(), "fit")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "vllm", "url": "http://127.0.0.1:1"}, "url must be null with backend vllm"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization must be between 0 and 1, got 1.5"),
    ],
)
def test_values_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        ServerRollouts(**arguments)
