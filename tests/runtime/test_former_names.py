"""Checkpoints from before the modules moved load: classes are found where they are today."""

import importlib

import pytest
import torch

from synthstats_lightning import GFlowNetModule, ProgramScoring
from synthstats_lightning.learning.adapter_checkpoints import FORMAT
from synthstats_lightning.objectives import TrajectoryBalance
from synthstats_lightning.runtime import former_names
from synthstats_lightning.runtime.checkpoints import DurableCheckpointIO
from synthstats_lightning.runtime.former_names import (
    FORMER_NAMES,
    renamed_hyper_parameters,
    with_present_names,
)

# what a run of the command line left in a checkpoint before the move
HYPER_PARAMETERS = {
    "_class_path": "synthstats_lightning.GFlowNetModule",
    "policy": "tiny",
    "tasks": ["dugongs"],
    "lora": {
        "rank": 16,
        "alpha": 32.0,
        "dropout": 0.0,
        "target_modules": "all-linear",
        "modules_to_save": None,
        "rank_stabilised": False,
    },
    "model": None,
    "objective": {
        "class_path": "synthstats_lightning.TrajectoryBalance",
        "init_args": {"huber_delta": 5.0, "regression": None},
    },
    "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.0015, "weight_decay": 0.0}},
    "lr_scheduler": None,
    "log_z_lr": 0.5,
    "log_z_init": None,
    "log_z_form": "task",
    "flow_lr": 0.001,
    "flow_width": 64,
    "sampling": {
        "max_new_tokens": 160,
        "temperature": 1.0,
        "epsilon": 0.0,
        "top_p": 1.0,
        "min_new_tokens": 0,
        "temperature_high": None,
    },
    "seed": None,
    "_instantiator": "lightning.pytorch.cli.instantiate_module",
}


@pytest.fixture(scope="module")
def content():
    """The rest of such a checkpoint: the adapter, log Z and what they belong to."""
    module = GFlowNetModule(seed=0)
    module.configure_model()
    with torch.no_grad():
        module.log_z.value.fill_(28.5)
    return {
        "epoch": 0,
        "global_step": 2,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": module.state_dict(),
        "hparams_name": "kwargs",
        "synthstats_format": FORMAT,
        "policy_identity": module.loaded_policy.identity(),
    }


def resolve(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("former", FORMER_NAMES)
def test_every_former_name_is_gone_and_leads_to_a_class(former):
    assert isinstance(resolve(FORMER_NAMES[former]), type)
    with pytest.raises((ImportError, AttributeError)):
        resolve(former)


def test_names_are_replaced_where_classes_are_named_and_nowhere_else():
    former = "synthstats_lightning.episodes.ExperimentTask"
    task = {"class_path": former, "init_args": {"simulator": "dugongs", "note": former}}
    renamed = with_present_names({"tasks": [task, "dugongs"], "seed": 3})
    assert renamed["tasks"][0]["class_path"] == "synthstats_lightning.tasks.experiments.ExperimentTask"
    assert renamed["tasks"][0]["init_args"] == task["init_args"]
    assert renamed["tasks"][1] == "dugongs"
    assert renamed["seed"] == 3


def test_a_checkpoint_from_before_the_move_loads(tmp_path, content):
    path = tmp_path / "old.ckpt"
    torch.save({**content, "hyper_parameters": HYPER_PARAMETERS}, path)
    assert renamed_hyper_parameters(path) == {}
    module = GFlowNetModule.load_from_checkpoint(path)
    assert module.objective.huber_delta == 5.0
    assert module.learned_log_z(0) == 28.5
    assert renamed_hyper_parameters(tmp_path / "none.ckpt") == {}


def test_a_checkpoint_that_names_a_class_that_has_moved_loads(tmp_path, content, monkeypatch):
    former = "synthstats_lightning.losses.TrajectoryBalance"
    monkeypatch.setitem(
        former_names.FORMER_NAMES, former, "synthstats_lightning.objectives.TrajectoryBalance"
    )
    moved = {"class_path": former, "init_args": {"huber_delta": 2.0, "regression": None}}
    path = tmp_path / "old.ckpt"
    torch.save({**content, "hyper_parameters": {**HYPER_PARAMETERS, "objective": moved}}, path)
    module = GFlowNetModule.load_from_checkpoint(path)
    assert isinstance(module.objective, TrajectoryBalance)
    assert module.objective.huber_delta == 2.0
    read = DurableCheckpointIO().load_checkpoint(path, weights_only=True)
    assert read["hyper_parameters"]["objective"]["class_path"] == FORMER_NAMES[former]
    assert GFlowNetModule.load_from_checkpoint(path, log_z_lr=0.25).log_z_lr == 0.25


def test_what_the_scoring_callback_saved_before_loads():
    state = ProgramScoring().state_dict()
    for name in ("replay", "skipped_rounds", "stale_programs"):  # came later
        del state["ranks"][0][name]
    scoring = ProgramScoring()
    scoring.load_state_dict(state)
    assert scoring.replay.state() == (0, 0, 0)
