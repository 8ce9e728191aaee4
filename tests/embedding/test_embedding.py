"""The package inside other code: a Lightning project of its own, and a plain PyTorch loop."""

from __future__ import annotations

import functools
import math
import signal

import pytest
import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, TrajectoryBalance
from synthstats_lightning.objectives import LogZ
from synthstats_lightning.policy import LoraSettings, SamplingSettings, load_policy
from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.tasks import task_prompt
from tests.embedding.project import (
    STYLE,
    Both,
    Forecast,
    SalesData,
    StyleCheck,
    WeeklySales,
    in_style,
    log_reward,
)

SAMPLING = SamplingSettings(max_new_tokens=10)
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "limit_val_batches": 0,
}


def made(data: SalesData) -> GFlowNetModule:
    return GFlowNetModule(
        tasks=[task.name for task in data.tasks],
        lora=LoraSettings(rank=4),
        optimizer=functools.partial(torch.optim.AdamW, lr=5e-3),
        log_z_lr=0.3,
        sampling=SAMPLING,
        seed=1,
    )


def share_in_style(module: GFlowNetModule, adapted: bool = True) -> float:
    prompts = [task_prompt(WeeklySales())]
    if adapted:
        sources = module.sample(prompts, 128, SAMPLING, stream=10**6).sources
    else:
        with module.loaded_policy.reference():
            sources = module.sample(prompts, 128, SAMPLING, stream=10**6).sources
    return sum(map(in_style, sources)) / len(sources)


def check_learned(module: GFlowNetModule) -> None:
    """A good part of the way from the language model's own share to the one that the reward asks for."""
    before = share_in_style(module, adapted=False)
    target = before * math.exp(STYLE) / (before * math.exp(STYLE) + 1 - before)
    assert 0.2 < before < 0.7
    assert share_in_style(module) > before + 0.3 * (target - before)


@pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`")
def test_own_data_module_task_reward_and_callback_beside_another_module(tmp_path) -> None:
    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
    data = SalesData([WeeklySales()], steps=24)
    forecast, module = Forecast(), made(data)
    Trainer(max_epochs=10, default_root_dir=tmp_path, log_every_n_steps=1, **QUIET).fit(
        forecast, data.weeks()
    )
    before = [parameter.clone() for parameter in forecast.parameters()]
    check = StyleCheck(data)
    trainer = Trainer(max_steps=24, default_root_dir=tmp_path, callbacks=[check], **QUIET)
    trainer.fit(module, datamodule=data)
    check_learned(module)
    assert sum(check.share[-5:]) > sum(check.share[:5])
    assert {"train/loss", "train/log_z/sales", "style/share"} <= trainer.logged_metrics.keys()
    assert all(torch.equal(a, b) for a, b in zip(before, forecast.parameters(), strict=True))
    assert torch.get_num_threads() == threads
    assert signal.getsignal(signal.SIGTERM) is handler
    trainer.save_checkpoint(tmp_path / "writer.ckpt")
    again = GFlowNetModule.load_from_checkpoint(tmp_path / "writer.ckpt")
    assert again.learned_log_z(0) == module.learned_log_z(0)


def test_inside_another_module_with_one_optimiser(tmp_path) -> None:
    data = SalesData([WeeklySales()], steps=3)
    module, forecast = made(data), Forecast()
    both = Both(module, forecast, data)
    trainer = Trainer(max_steps=3, default_root_dir=tmp_path, callbacks=[StyleCheck(data)], **QUIET)
    trainer.fit(both, datamodule=data)
    assert {"policy", "forecast", "style/share"} <= trainer.logged_metrics.keys()
    names = [group["name"] for group in trainer.optimizers[0].param_groups]
    assert names == ["adapter", "log_z", "forecast"]
    grown = [p for n, p in module.loaded_policy.named_parameters() if "lora_B" in n]
    assert all(parameter.abs().max() > 0 for parameter in grown)
    trainer.save_checkpoint(tmp_path / "both.ckpt")
    saved = torch.load(tmp_path / "both.ckpt", weights_only=True)["state_dict"]
    assert not [name for name in saved if "base_layer" in name], "base weights stay out of it"
    assert "forecast.net.weight" in saved


def test_a_plain_pytorch_loop() -> None:
    policy, log_z, objective = load_policy("tiny", LoraSettings(rank=4), seed=0), LogZ(1), TrajectoryBalance()
    prompt = task_prompt(WeeklySales())
    ids = policy.encode_prompt(prompt.rules, prompt.request)
    adapter = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    groups = [{"params": adapter, "lr": 5e-3}, {"params": log_z.parameters(), "lr": 0.3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    task = torch.zeros(16, dtype=torch.long)
    prompt_ids, prompt_mask = pad_left([ids] * 16, policy.pad_token_id)
    for step in range(20):
        drawn = policy.sample([ids], 16, SAMPLING, seed=0, step=step)
        reward = torch.tensor(
            [
                log_reward(source, float(reference))
                for source, reference in zip(drawn.sources, drawn.reference_log_prob, strict=True)
            ]
        )
        log_prob = policy.program_log_probs(prompt_ids, drawn.program_ids, drawn.program_mask, prompt_mask)
        log_z.initialise(reward - log_prob, task)
        optimizer.zero_grad()
        objective(log_prob, reward, log_z(task)).loss.backward()
        optimizer.step()
    share = sum(map(in_style, policy.sample([ids], 128, SAMPLING, seed=9).sources)) / 128
    assert share > 0.6, "the target's is 0.91, the language model's own 0.34"
