"""A policy that starts from an adapter: its reference is the base, or that adapter as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.learning.adapter_checkpoints import check_checkpoint, sign_checkpoint
from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, SamplingSettings, load_policy
from synthstats_lightning.policy.base_identity import BASE_FILE
from tests.policy.conftest import awaken, save_random_model

PROMPT, PROGRAM = torch.tensor([[1, 40, 41, 2]]), torch.tensor([[50, 51, 52, 3]])
SETTINGS = SamplingSettings(max_new_tokens=6)


def log_prob(policy: Policy) -> torch.Tensor:
    return policy.program_log_probs(PROMPT, PROGRAM, torch.ones_like(PROGRAM, dtype=torch.bool))


def reference_log_prob(policy: Policy) -> torch.Tensor:
    with torch.no_grad(), policy.evaluating(), policy.reference():
        return log_prob(policy)


@pytest.fixture(scope="module")
def adapter(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    awaken(load_policy(str(model_folder), LoraSettings(rank=4, alpha=8.0), seed=0)).save_pretrained(folder)
    return folder


def test_the_reference_is_what_was_asked_for_whatever_is_learned(model_folder: Path, adapter: Path) -> None:
    base = reference_log_prob(load_policy(str(model_folder), LoraSettings(rank=2), seed=0))
    tuned = log_prob(load_policy(str(model_folder), adapter=adapter)).detach()
    assert abs(float(tuned - base)) > 0.05
    for reference, expected in (("base", base), ("adapter", tuned)):
        policy = load_policy(str(model_folder), adapter=adapter, reference=reference)
        assert torch.allclose(log_prob(policy), tuned)
        awaken(policy)
        learned = log_prob(policy).detach()
        assert abs(float(learned - tuned)) > 0.05
        assert torch.allclose(reference_log_prob(policy), expected, atol=1e-5)
        assert torch.equal(log_prob(policy).detach(), learned)
        drawn = policy.sample([[1, 40, 2]], 4, SETTINGS, seed=0)
        plain = load_policy(str(model_folder), adapter=adapter if reference == "adapter" else None, lora=None)
        with torch.no_grad(), plain.evaluating():
            again = plain.program_log_probs(
                torch.tensor([[1, 40, 2]] * 4), drawn.program_ids, drawn.program_mask
            )
        assert torch.allclose(drawn.reference_log_prob, again, atol=1e-4)


def test_a_pass_of_the_reference_leaves_the_gradient_of_an_earlier_pass(
    model_folder: Path, adapter: Path
) -> None:
    policy = load_policy(str(model_folder), adapter=adapter, reference="adapter")
    trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(log_prob(policy).sum(), trained)
    value = log_prob(policy).sum()
    awake = awaken(load_policy(str(model_folder), adapter=adapter)).adapter_state_dict()
    policy.reference_adapter = dict(awake)
    reference_log_prob(policy)
    found = torch.autograd.grad(value, trained)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_the_reference_is_never_rounded(model_folder: Path, adapter: Path) -> None:
    policy = load_policy(str(model_folder), adapter=adapter, reference="adapter")
    before = {name: value.clone() for name, value in (policy.reference_adapter or {}).items()}
    policy.to(torch.bfloat16)
    for name, value in (policy.reference_adapter or {}).items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])


def test_checkpoints_and_adapters_know_what_they_belong_to(
    model_folder: Path, adapter: Path, tmp_path: Path
) -> None:
    assert (adapter / BASE_FILE).is_file()
    checkpoint: dict[str, Any] = {}
    sign_checkpoint(checkpoint, load_policy(str(model_folder), adapter=adapter, reference="adapter"))
    check_checkpoint(checkpoint, load_policy(str(model_folder), adapter=adapter, reference="adapter"))
    with pytest.raises(ValueError, match=r"reference was .*, now 'base'"):
        check_checkpoint(checkpoint, load_policy(str(model_folder), adapter=adapter))
    other = save_random_model(tmp_path / "theta", rope_theta=5e5)
    with pytest.raises(ValueError, match=r"adapter .* belongs to another policy .*configuration was"):
        load_policy(str(other), adapter=adapter)
    with pytest.warns(UserWarning, match="belongs to another policy"):
        load_policy(str(other), model=ModelSettings(check_base=False), adapter=adapter)


def test_modules_start_from_it_and_their_checkpoints_too(
    model_folder: Path, adapter: Path, tmp_path: Path
) -> None:
    module = GFlowNetModule(str(model_folder), adapter=str(adapter), reference="adapter", sampling=SETTINGS)
    module.configure_model()
    assert torch.allclose(log_prob(module.loaded_policy), reference_log_prob(module.loaded_policy))
    assert module.hparams["reference"] == "adapter"
    with pytest.raises(ValueError, match="reference must be 'base' where no `adapter` is given"):
        GFlowNetModule(str(model_folder), reference="adapter")
    with pytest.raises(FileNotFoundError, match=r"no adapter_config\.json in"):
        GFlowNetModule(str(model_folder), adapter=str(tmp_path))
