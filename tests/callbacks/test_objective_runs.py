"""`fit` runs every shipped objective for a few steps, on programs that were scored once for all."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import yaml
from lightning.pytorch import Callback

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.cli.main import main
from tests.support.shared_scoring import sharing_scoring

ROOT = Path(__file__).resolve().parents[2]
OBJECTIVES = sorted((ROOT / "configs" / "objective").glob("*.yaml"))
STEPS = 8
RELOADED = {"relative_sub_trajectory_balance", "rap_trajectory_balance", "tba"}
"""Whose checkpoints are read back: one with a flow head and a regression, one with many settings, one that
learns no log Z."""
EACH_TIME = RELOADED | {
    "trajectory_balance",
    "sub_trajectory_balance",
    "detailed_balance",
    "grpo",
    "best_of_n",
}
"""One of each kind; losses and gradients of the others have tests of their own, and their runs are slow."""


class ScoredPrograms(Callback):
    """Fills the buffer with programs that an earlier run has scored, and keeps what is logged."""

    buffer: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.datamodule.buffer.load_state_dict(copy.deepcopy(self.buffer))

    def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
        self.losses.append(float(trainer.callback_metrics["train/loss"]))


def fit(
    folder: Path, steps: int, objective: Path, warmup: int, callbacks: Sequence[dict[str, Any]] = ()
) -> Any:
    run = {
        "trainer": {
            "max_steps": steps,
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": False,
            "logger": False,
            "callbacks": list(callbacks),
        },
        "scoring": {
            "synchronous": True,
            "programs_per_step": 2,
            "every_n_steps": 2 * STEPS,
            "warmup_programs": warmup,
            "sampling": None,
        },
        "report": {"num_programs": None},
        "data": {"init_args": {"proposal": "nothing", "batch_size": 4}},
        "model": {"init_args": {"policy": "tiny", "lora": {"rank": 2}, "sampling": {"max_new_tokens": 64}}},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(run))
    quickstart = ROOT / "configs" / "quickstart.yaml"
    overlays = [f"--config={name}" for name in (quickstart, objective, path)]
    with sharing_scoring():
        return main(["fit", *overlays, "--trainer.default_root_dir", str(folder)])


@pytest.fixture(scope="module", autouse=True)
def scored(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("scored")
    cli = fit(folder, 1, ROOT / "configs/objective/trajectory_balance.yaml", warmup=12)
    ScoredPrograms.buffer = cli.datamodule.buffer.state_dict()
    yield
    ScoredPrograms.buffer = {}


@pytest.mark.parametrize(
    "objective",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in EACH_TIME else [pytest.mark.slow])
        for path in OBJECTIVES
    ],
)
def test_fit_runs(objective: Path, tmp_path: Path) -> None:
    cli = fit(tmp_path, STEPS, objective, 1, [{"class_path": f"{__name__}.ScoredPrograms"}])
    module = cli.model
    assert cli.trainer.global_step == STEPS
    losses = next(item.losses for item in cli.trainer.callbacks if isinstance(item, ScoredPrograms))
    assert len(losses) == STEPS
    assert torch.isfinite(torch.tensor(losses)).all()
    assert len(set(losses)) > 1
    assert torch.isfinite(torch.tensor(module.learned_log_z(0)))
    up = [p for name, p in module.named_parameters() if "lora_B" in name]
    assert any(p.abs().sum() > 0 for p in up), "the adapter has not moved from its start"
    written = yaml.safe_load(objective.read_text())["model"]["init_args"]["objective"]
    assert type(module.objective).__name__ == written["class_path"]
    if module.flow_head is not None:
        assert module.flow_head.layers[-1].weight.abs().sum() > 0
    if objective.stem not in RELOADED:
        return
    cli.trainer.save_checkpoint(tmp_path / "end.ckpt")
    loaded = GFlowNetModule.load_from_checkpoint(tmp_path / "end.ckpt")
    assert type(loaded.objective) is type(module.objective)
    assert loaded.learned_log_z(0) == module.learned_log_z(0)
    for name, value in module.named_parameters():
        assert torch.equal(value, loaded.get_parameter(name)), name
