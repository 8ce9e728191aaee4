"""All weights are trained: against plain forward passes, an adapter's target and runs not stopped."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, SamplingSettings, load_policy
from synthstats_lightning.policy.memory_plan.plan import GIB
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory
from synthstats_lightning.rollouts import ServerRollouts
from synthstats_lightning.testing.listed_language import save_listed_model, train_from
from tests.learning.test_two_prompts import BLIND, PROGRAMS, exact, scores, train
from tests.learning.test_two_prompts import made as toy_module
from tests.policy.conftest import awaken

ROOT = Path(__file__).resolve().parents[3]
PROMPT = [1, 40, 41, 2]
SETTINGS = SamplingSettings(max_new_tokens=8)


def full_policy(folder: Path, **model: object) -> Policy:
    return load_policy(str(folder), model=ModelSettings(**model), seed=0, mode="full")


def plain_log_probs(model: torch.nn.Module, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One unpadded sequence after the other through a whole transformers model."""
    found = []
    for program in (row[kept] for row, kept in zip(ids, mask, strict=True)):
        logits = model(input_ids=torch.tensor([[*PROMPT, *program.tolist()]])).logits[0].float()
        log_probs = logits[len(PROMPT) - 1 : -1].log_softmax(-1)
        found.append(log_probs.gather(-1, program[:, None]).sum())
    return torch.stack(found)


def test_everything_learns_and_the_reference_stays_what_was_loaded(model_folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    policy = awaken(full_policy(model_folder))
    base = AutoModelForCausalLM.from_pretrained(model_folder)
    assert all(parameter.requires_grad for parameter in policy.parameters())
    drawn = policy.sample([PROMPT], 8, SETTINGS, seed=0)
    ids, mask = drawn.program_ids, drawn.program_mask
    with torch.no_grad():
        own, before = plain_log_probs(policy.model, ids, mask), plain_log_probs(base, ids, mask)
    assert torch.allclose(drawn.log_prob, own, atol=1e-4)
    assert torch.allclose(drawn.reference_log_prob, before, atol=1e-4)
    assert (own - before).abs().max() > 0.05
    prompts = torch.tensor([PROMPT] * 8)
    whole = policy.program_log_probs(prompts, ids, mask)
    assert torch.allclose(whole, own, atol=1e-4)
    trained = list(policy.parameters())
    expected = torch.autograd.grad(plain_log_probs(policy.model, ids, mask).sum(), trained)
    found = torch.autograd.grad(whole.sum(), trained)
    pieces = full_policy(model_folder, micro_batch_tokens=30)
    pieces.load_adapter_state_dict(policy.adapter_state_dict())
    apart = torch.autograd.grad(pieces.program_log_probs(prompts, ids, mask).sum(), list(pieces.parameters()))
    for gradient, one, other in zip(expected, found, apart, strict=True):
        assert torch.allclose(one, gradient, atol=1e-4, rtol=1e-4)
        assert torch.allclose(other, one, atol=1e-5, rtol=1e-4)


def test_nothing_is_rounded_and_the_reference_keeps_its_place(model_folder: Path) -> None:
    kept = load_policy(str(model_folder), seed=0, mode="full", reference_device="cpu")
    ids = torch.tensor([[50, 51, 3]])
    given = torch.tensor([PROMPT]), ids, torch.ones_like(ids, dtype=torch.bool)
    kept.to(torch.bfloat16)
    assert {parameter.dtype for parameter in kept.parameters()} == {torch.float32}
    with torch.no_grad(), kept.evaluating(), kept.reference():
        before = kept.program_log_probs(*given)
    kept.to("meta")
    with torch.no_grad(), kept.evaluating(), kept.reference():
        assert torch.equal(kept.program_log_probs(*given), before)
    assert kept.device.type == "meta"
    follows = full_policy(model_folder, dtype="bfloat16").to("meta")
    assert follows.frozen.place.type == "meta"
    assert {parameter.dtype for parameter in follows.frozen.model.parameters()} == {torch.bfloat16}
    assert {parameter.dtype for parameter in follows.parameters()} == {torch.float32}


def test_the_plan_names_the_second_copy(model_folder: Path) -> None:
    policy = full_policy(model_folder)
    policy.sample([PROMPT], 2, SETTINGS, seed=0)
    size = sum(4 * parameter.numel() for parameter in policy.parameters())
    assert policy.memory.plan.frozen == size
    assert f"beside {size / GIB:.2f} GiB of the reference's weights" in str(policy.memory.plan)
    elsewhere = load_policy(str(model_folder), seed=0, mode="full", reference_device="cpu")
    assert elsewhere.memory.frozen == 0


def made(folder: Path, **more: object) -> GFlowNetModule:
    optimizer = functools.partial(torch.optim.AdamW, lr=1e-2)
    return GFlowNetModule(
        str(folder), ["one"], optimizer=optimizer, sampling=SETTINGS, seed=1, trainer_mode="full", **more
    )


def trained(module: GFlowNetModule, folder: Path, steps: int, checkpoint: Path | None = None) -> Trainer:
    module.configure_model()
    buffer = ReplayBuffer(recent=4, capacity=10)
    buffer.register_prompt(0, PROMPT)
    for number in range(6):
        buffer.add(Trajectory(0, (50 + number, 3), -9.0 - number, -9.0))
    trainer = Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, ReplayLoader(buffer, 4, 2, seed=1), ckpt_path=checkpoint)
    return trainer


@pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`")
def test_a_run_that_goes_on_is_one_that_was_not_stopped(model_folder: Path, tmp_path: Path) -> None:
    whole, first, second = (made(model_folder) for _ in range(3))
    trained(whole, tmp_path, steps=4)
    trained(first, tmp_path, steps=2).save_checkpoint(tmp_path / "two.ckpt")
    trained(second, tmp_path, 4, tmp_path / "two.ckpt")
    loaded = GFlowNetModule.load_from_checkpoint(tmp_path / "two.ckpt")
    moved = dict(made_base(model_folder).named_parameters())
    for name, value in whole.named_parameters():
        assert torch.equal(value, second.get_parameter(name)), name
        assert torch.equal(first.get_parameter(name), loaded.get_parameter(name)), name
        assert name == "log_z.value" or not torch.equal(value, moved[name.removeprefix("policy.")]), name
    assert loaded.trainer_mode == "full"
    names = torch.load(tmp_path / "two.ckpt", weights_only=True)["state_dict"]
    assert {name for name in names if not name.startswith("log_z.")} == {
        name for name, value in whole.named_parameters() if not name.startswith("log_z.")
    }
    with pytest.raises(
        ValueError, match=r"trained part is all weights, this run's is adapter: .*trainer_mode"
    ):
        GFlowNetModule.load_from_checkpoint(tmp_path / "two.ckpt", trainer_mode="lora")
    # what it leaves in Hugging Face form is a policy that another run starts from
    whole.save_pretrained(tmp_path / "model")
    again = load_policy(str(tmp_path / "model"), lora=None)
    for name, value in again.named_parameters():
        assert torch.equal(value, whole.get_parameter(f"policy.{name}"))


def made_base(folder: Path) -> Policy:
    return load_policy(str(folder), lora=None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trainer_mode": "full", "adapter": "x"}, "adapter must be null with trainer_mode: full"),
        (
            {"trainer_mode": "full", "reference": "adapter"},
            "reference must be 'base' with trainer_mode: full",
        ),
        ({"trainer_mode": "full", "model": ModelSettings(load_in_4bit=True)}, "load_in_4bit must be false"),
        ({"trainer_mode": "full", "reference_device": "gpu!"}, "reference_device must be a device such as"),
        ({"trainer_mode": "full", "reference_device": "cuda:99"}, "must be one of the 0 CUDA devices here"),
        ({"reference_device": "cpu"}, "reference_device must be null with trainer_mode: lora"),
        ({"trainer_mode": "qlora"}, "trainer_mode: qlora needs a CUDA device, and there is none"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object], message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match=message):
        GFlowNetModule(**wrong)


def test_servers_take_adapters_only(model_folder: Path) -> None:
    rollouts = ServerRollouts("http://127.0.0.1:1")
    rollouts.check(GFlowNetModule(str(model_folder)), [])
    with pytest.raises(ValueError, match="trainer_mode must be lora or qlora with rollouts"):
        rollouts.check(made(model_folder), [])


def test_the_exact_target_is_reached(tmp_path: Path) -> None:
    save_listed_model(tmp_path)
    module = toy_module(tmp_path, awake=False, rate=0.003, trainer_mode="full")
    prior, known, buffer = exact(module, BLIND, reference=True), scores(), ReplayBuffer(recent=1)
    buffer.register_prompt(0, module.loaded_policy.encode_prompt(*BLIND))
    for row, ids in enumerate(PROGRAMS):
        buffer.add(Trajectory(0, ids, float(prior[row] + known[row]), float(prior[row])))
    train(module, buffer, steps=90)
    assert torch.equal(exact(module, BLIND, reference=True), prior)
    # what an adapter is asked for in as many steps
    assert 0.5 * (exact(module, BLIND).exp() - (prior + known).softmax(0)).abs().sum() <= 0.02


@pytest.mark.slow
def test_it_is_the_target_that_an_adapter_reaches_and_no_farther(tmp_path: Path) -> None:
    save_listed_model(tmp_path)
    adapter = train_from(tmp_path, None, "base")
    whole = train_from(tmp_path, None, "base", trainer_mode="full")
    assert torch.allclose(whole.target, adapter.target, atol=1e-6)
    assert max(adapter.total_variation, whole.total_variation) <= 0.005


def test_lora_settings_have_no_part(model_folder: Path) -> None:
    policy = load_policy(str(model_folder), LoraSettings(rank=2), mode="full")
    assert not policy.has_adapter


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_processes_are_one(model_folder: Path, tmp_path: Path) -> None:
    for devices in (1, 2):
        command = [sys.executable, "-m", "tests.policy.full.two_ranks", str(model_folder), str(tmp_path)]
        subprocess.run([*command, str(devices)], check=True, timeout=900, capture_output=True, cwd=ROOT)
    alone, first, second = (
        torch.load(tmp_path / name, weights_only=True) for name in ("1-0.pt", "2-0.pt", "2-1.pt")
    )
    base = made_base(model_folder).state_dict()
    for name, value in alone.items():
        assert torch.equal(first[name], second[name])
        assert torch.allclose(first[name], value.to(first[name].dtype), atol=1e-5)
        if name.startswith("policy."):
            assert not torch.equal(value, base[name.removeprefix("policy.")]), name
