"""A base model is what its configuration and its weights are, wherever it lies."""

from __future__ import annotations

import shutil

import pytest
import torch

from synthstats_lightning.learning.adapter_checkpoints import check_checkpoint, sign_checkpoint
from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, load_policy
from synthstats_lightning.policy.base_identity import differences
from tests.policy.conftest import save_random_model

LORA = LoraSettings(rank=2)


def signed(policy: Policy) -> dict:
    checkpoint: dict = {}
    sign_checkpoint(checkpoint, policy)
    return checkpoint


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_neither_path_nor_number_type_matters(model_folder, tmp_path, dtype) -> None:
    shutil.copytree(model_folder, tmp_path / "copy")
    one = load_policy(str(model_folder), LORA, seed=0)
    other = load_policy(str(tmp_path / "copy"), LORA, ModelSettings(dtype=dtype, attention="eager"), seed=0)
    assert one.identity()["name"] != other.identity()["name"]
    assert differences(one.identity(), other.identity()) == []
    check_checkpoint(signed(one), other)


def test_other_weights_and_other_configurations_are_other_models(model_folder, tmp_path) -> None:
    one = load_policy(str(model_folder), LORA, seed=0)
    trained = load_policy(str(model_folder), None)
    with torch.no_grad():
        trained.model.base_model.layers[1].mlp.up_proj.weight.mul_(1.01)
    trained.save_pretrained(tmp_path / "trained")
    trained = load_policy(str(tmp_path / "trained"), LORA, seed=0)
    assert differences(one.identity(), trained.identity()) == ["weights"]
    wide = load_policy(str(save_random_model(tmp_path / "theta", rope_theta=5e5)), LORA, seed=0)
    assert differences(one.identity(), wide.identity()) == ["configuration"]
    with pytest.raises(
        ValueError, match=r"belongs to another policy.*weights was .*check_base: false"
    ) as error:
        check_checkpoint(signed(one), trained)
    assert "\n" not in str(error.value)


def test_another_base_is_taken_where_that_is_asked_for(model_folder, tmp_path) -> None:
    other = save_random_model(tmp_path / "theta", rope_theta=5e5)
    lenient = load_policy(str(other), LORA, ModelSettings(check_base=False), seed=0)
    with pytest.warns(UserWarning, match="belongs to another policy"):
        check_checkpoint(signed(load_policy(str(model_folder), LORA, seed=0)), lenient)


def test_weights_in_four_bits_are_known_by_what_is_not_quantised(model_folder) -> None:
    whole = load_policy(str(model_folder), LORA, seed=0).identity()
    quantised = {key: value for key, value in whole.items() if key != "weights"}
    assert differences(whole, quantised) == []
    assert differences(whole, {**quantised, "embeddings": "other"}) == ["embeddings"]
