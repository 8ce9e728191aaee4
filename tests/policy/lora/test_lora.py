from __future__ import annotations

from pathlib import Path

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, Policy, SamplingSettings, load_policy
from synthstats_lightning.policy.language_part import PolicyError
from synthstats_lightning.policy.lora import folded
from tests.policy.conftest import awaken, save_random_model


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"alpha": 0.0}, "alpha must be positive, got 0.0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"target_modules": []}, "target_modules must name at least one layer"),
    ],
)
def test_settings_are_checked(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoraSettings(**changes)


def test_targets_are_a_list_or_all_linear() -> None:
    settings = LoraSettings()
    object.__setattr__(settings, "target_modules", "q_proj")  # past the type checks of the test suite
    with pytest.raises(ValueError, match="must be a list of layer names or 'all-linear', got 'q_proj'"):
        settings.__post_init__()


def test_all_linear_leaves_the_head_alone(policy: Policy) -> None:
    adapted = {name.split(".lora_")[0].rsplit(".", 1)[1] for name in policy.adapter_state_dict()}
    assert adapted == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.mark.parametrize("layers", [["no_such_layer"], ["q_proj", "no_such_layer"], ["roj"]])
def test_unknown_layer_is_an_error(model_folder: Path, layers: list[str]) -> None:
    named = r"target_modules must name layers of the model, such as .*q_proj.*, got (no_such_layer|roj)$"
    with pytest.raises(PolicyError, match=named):
        load_policy(str(model_folder), LoraSettings(target_modules=layers))


def test_folding_gives_the_same_model_and_leaves_the_weights_as_they_are(policy: Policy) -> None:
    ids = torch.tensor([[1, 10, 11, 2, 30, 31]])
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    policy.eval()
    with torch.no_grad():
        expected = policy.model(ids).logits
        with folded(policy.model):
            folds = sum(getattr(module, "folded", None) is not None for module in policy.modules())
            within = policy.model(ids).logits
            assert torch.allclose(within, expected, atol=1e-4)
            assert not torch.equal(within, expected), "summed in another order"
        assert torch.equal(policy.model(ids).logits, expected)
    assert folds == 14  # two layers of seven
    assert all(torch.equal(before[name], value) for name, value in policy.state_dict().items())


@pytest.mark.parametrize(
    "settings",
    [
        LoraSettings(rank=2, target_modules=["embed_tokens", "q_proj"]),
        LoraSettings(rank=2, target_modules=["lm_head", "v_proj"]),
        LoraSettings(rank=2, target_modules=["v_proj"], modules_to_save=["lm_head"]),
        LoraSettings(rank=2, rank_stabilised=True),
    ],
    ids=["embedding", "head", "saved-head", "rank-stabilised"],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_anywhere_agree_with_the_models_own_logits(
    settings: LoraSettings, dtype: str, tmp_path: Path
) -> None:
    from synthstats_lightning.policy import ModelSettings

    folder = save_random_model(tmp_path, tie_word_embeddings=False)
    policy = awaken(load_policy(str(folder), settings, ModelSettings(dtype=dtype), seed=0))
    sampled = policy.sample([[1, 10, 11, 2]], 4, SamplingSettings(max_new_tokens=6), seed=0)
    ids = torch.cat([torch.tensor([[1, 10, 11, 2]] * 4), sampled.program_ids], 1)
    for context, log_prob in (
        (torch.no_grad(), sampled.log_prob),
        (policy.reference(), sampled.reference_log_prob),
    ):
        with (
            torch.no_grad(),
            context,
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"),
        ):
            logits = policy.model(ids).logits[:, 3:-1].float().log_softmax(-1)
        expected = (
            logits.gather(-1, sampled.program_ids[..., None])[..., 0].where(sampled.program_mask, 0.0).sum(1)
        )
        assert torch.allclose(log_prob, expected, atol=1e-4 if dtype == "float32" else 0.5)


def test_dropout_is_off_while_sampling_and_on_while_training(model_folder: Path) -> None:
    policy = awaken(load_policy(str(model_folder), LoraSettings(rank=4, dropout=0.5), seed=0))
    assert policy.training
    settings = SamplingSettings(max_new_tokens=8)
    sampled = policy.sample([[1, 10, 11, 2]], 4, settings, seed=0)
    assert policy.training
    arguments = (torch.tensor([[1, 10, 11, 2]] * 4), sampled.program_ids, sampled.program_mask)
    with policy.evaluating():
        assert torch.allclose(policy.program_log_probs(*arguments), sampled.log_prob, atol=1e-4)
    first, second = (policy.program_log_probs(*arguments) for _ in range(2))
    assert not torch.allclose(first, second, atol=1e-3)


def test_missing_adapter_folder_is_named(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"adapter: no adapter_config\.json in"):
        load_policy(str(model_folder), adapter=tmp_path)
