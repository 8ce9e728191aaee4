"""The module by itself: what it trains, what it saves, and from which door it was made."""

import functools

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader

from synthstats_lightning import GFlowNetModule, TrajectoryBalance
from synthstats_lightning.learning.prompts import PromptRequests
from synthstats_lightning.learning.sampling_module import PROGRAMS
from synthstats_lightning.learning.specification import specify
from synthstats_lightning.objectives import LogVariance
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory
from synthstats_lightning.tasks import get_task

# the data module of these tests is a bare loader
pytestmark = pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`")
SETTINGS = {"lora": LoraSettings(rank=2), "sampling": SamplingSettings(max_new_tokens=12), "seed": 3}


def made(**more):
    module = GFlowNetModule(**{**SETTINGS, **more})
    module.configure_model()
    return module


def loader(module, steps=3):
    buffer = ReplayBuffer(recent=4, capacity=10)
    buffer.register_prompt(0, module.loaded_policy.encode_prompt("rules", "request"))
    for number in range(6):
        ids = (*module.loaded_policy.encode_program(f"x = {number}"),)
        buffer.add(Trajectory(0, ids, -20.0 - number, -20.0))
    return ReplayLoader(buffer, 4, steps, seed=1)


def trainer(tmp_path, **more):
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "limit_val_batches": 0,
    }
    return Trainer(
        default_root_dir=tmp_path,
        **{**quiet, "max_steps": 3, "enable_checkpointing": False, "accelerator": "cpu", **more},
    )


class Counts(Callback):
    """How many programs each validation batch asked for: in the sanity check, and after training."""

    def __init__(self):
        self.before, self.after = [], []

    def on_validation_batch_end(self, trainer, pl_module, outputs, *batch, **more):
        counts = self.before if trainer.sanity_checking else self.after
        counts.append(len(outputs[PROGRAMS].sources))


def test_sanity_check_asks_for_few_programs(tmp_path):
    module, counts = made(sampling=SamplingSettings(max_new_tokens=4)), Counts()
    requests = DataLoader(PromptRequests([get_task("dugongs")], 30, 20), batch_size=None)
    more = {"callbacks": [counts], "limit_val_batches": 1.0, "num_sanity_val_steps": 2}
    trainer(tmp_path, **more).fit(module, loader(module), requests)
    assert (counts.before, counts.after) == ([8, 8], [20, 10])


def test_optimizer_has_named_groups_and_no_frozen_parameter():
    module = made(log_z_lr=0.7, optimizer=functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1))
    optimizer = module.configure_optimizers()
    groups = {group["name"]: group for group in optimizer.param_groups}
    assert set(groups) == {"adapter", "log_z"}
    assert (groups["log_z"]["lr"], groups["log_z"]["weight_decay"]) == (0.7, 0.0)
    assert (groups["adapter"]["lr"], groups["adapter"]["weight_decay"]) == (1e-3, 0.1)
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    assert {id(p) for group in groups.values() for p in group["params"]} == {id(p) for p in trainable}
    assert all(parameter.dtype == torch.float32 for parameter in trainable)


def test_training_depends_on_batches_alone_and_python_made_checkpoints_load(tmp_path):
    scheduler = functools.partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.9)
    module = made(objective=TrajectoryBalance(huber_delta=4.0), lr_scheduler=scheduler)
    before = {name: value.clone() for name, value in module.named_parameters()}
    run = trainer(tmp_path, gradient_clip_val=1.0)
    run.fit(module, loader(module))
    moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
    assert "log_z.value" in moved
    assert any("lora_" in name for name in moved)
    assert not any("base_layer" in name for name in moved)
    run.save_checkpoint(tmp_path / "a.ckpt")
    loaded = GFlowNetModule.load_from_checkpoint(tmp_path / "a.ckpt")
    assert loaded.objective.huber_delta == 4.0
    assert loaded.sampling == SETTINGS["sampling"]
    for name, value in module.named_parameters():
        assert torch.equal(value, loaded.get_parameter(name))
    again = trainer(tmp_path)
    again.fit(loaded, loader(loaded))
    again.save_checkpoint(tmp_path / "b.ckpt")
    assert GFlowNetModule.load_from_checkpoint(tmp_path / "b.ckpt").objective.huber_delta == 4.0


def test_a_run_that_goes_on_with_other_settings_saves_those(tmp_path):
    first = made(objective=TrajectoryBalance(huber_delta=4.0), log_z_lr=0.3)
    run = trainer(tmp_path)
    run.fit(first, loader(first))
    run.save_checkpoint(tmp_path / "first.ckpt")
    second = made(objective=LogVariance(), log_z_lr=0.7)
    again = trainer(tmp_path, max_steps=5)
    again.fit(second, loader(second, steps=5), ckpt_path=tmp_path / "first.ckpt")
    again.save_checkpoint(tmp_path / "second.ckpt")
    loaded = GFlowNetModule.load_from_checkpoint(tmp_path / "second.ckpt")
    assert isinstance(loaded.objective, LogVariance)
    assert loaded.log_z_lr == 0.7
    assert loaded.learned_log_z(0) == second.learned_log_z(0)


def test_log_z_starts_from_the_first_batch_unless_told(tmp_path):
    told = made(log_z_init=5.0, log_z_lr=1e-9)
    trainer(tmp_path).fit(told, loader(told))
    assert told.learned_log_z(0) == pytest.approx(5.0, abs=1e-4)
    estimated = made(log_z_lr=1e-9)
    trainer(tmp_path).fit(estimated, loader(estimated))
    assert abs(estimated.learned_log_z(0) - 5.0) > 1


def test_as_part_of_another_module_it_saves_and_loads_its_own():
    class Outer(LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = made()
            self.head = torch.nn.Linear(2, 2)

    outer, other = Outer(), Outer()
    with torch.no_grad():
        outer.inner.log_z.value.fill_(3.0)
    state = outer.state_dict()
    assert not [key for key in state if "base_layer" in key]
    other.load_state_dict(state)
    assert other.inner.learned_log_z(0) == 3.0
    del state["inner.log_z.value"]
    with pytest.raises(RuntimeError, match=r"Missing key.*inner\.log_z\.value"):
        other.load_state_dict(state)


def test_anonymous_functions_and_wrong_numbers_are_refused():
    module = made(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    with pytest.raises(ValueError, match="optimizer must be a class or a functools"):
        module.configure_optimizers()
    with pytest.raises(ValueError, match="log_z_lr must be positive, got 0"):
        GFlowNetModule(log_z_lr=0.0)
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        GFlowNetModule(policy="./nowhere")
    with pytest.raises(RuntimeError, match="configure_model"):
        _ = GFlowNetModule().loaded_policy


def test_specifications_are_what_yaml_would_say():
    assert specify(None) is None
    assert specify(torch.optim.SGD) == {"class_path": "torch.optim.sgd.SGD"}
    partial = functools.partial(torch.optim.SGD, lr=0.5)
    assert specify(partial) == {"class_path": "torch.optim.sgd.SGD", "init_args": {"lr": 0.5}}
    assert specify(lambda: None) is None
    assert specify(TrajectoryBalance(2.0))["init_args"] == {"huber_delta": 2.0, "regression": None}


def test_ranks_and_streams_draw_different_programs_and_equal_ones_the_same():
    from synthstats_lightning.tasks import get_task, task_prompt

    module = made()
    prompts = [task_prompt(get_task("dugongs"))]
    draw = functools.partial(module.sample, prompts, 4, SETTINGS["sampling"])
    assert draw(stream=1).sources == draw(stream=1).sources
    assert draw(stream=1).sources != draw(stream=2).sources
