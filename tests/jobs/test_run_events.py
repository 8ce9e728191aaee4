"""`RunEvents` in an ordinary run: what it writes when that ends well, badly or goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader

from synthstats_lightning.jobs import RunEvents
from synthstats_lightning.jobs.event_log import EVENTS, read_events
from synthstats_lightning.jobs.warm_up import WarmUp

pytestmark = pytest.mark.filterwarnings("ignore")


class Line(LightningModule):
    """A line through points, of which a step may fail."""

    def __init__(self, fails_at: int = -1, error: BaseException | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.fails_at = fails_at
        self.error = error or RuntimeError("no\nmore")
        self.rates: list[float] = []

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        if self.global_step == self.fails_at:
            raise self.error
        self.rates.append(self.optimizers().param_groups[0]["lr"])
        loss = (self.layer(batch) ** 2).mean()
        self.log("train/loss", loss)
        self.log("sample/log_reward", torch.tensor(float("nan")) if self.global_step == 1 else -loss)
        return loss

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.log("val/loss", torch.tensor(2.0))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(
    folder: Path,
    module: LightningModule,
    *callbacks: Any,
    steps: int = 4,
    validates: bool = False,
    accumulate_grad_batches: int = 1,
    **more: Any,
) -> Trainer:
    trainer = Trainer(
        default_root_dir=folder,
        logger=False,
        accelerator="cpu",
        max_steps=steps,
        accumulate_grad_batches=accumulate_grad_batches,
        log_every_n_steps=1,
        limit_val_batches=1 if validates else 0,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*callbacks],
    )
    data = DataLoader(torch.ones(4, 1), batch_size=2)
    trainer.fit(module, data, data, **more)
    return trainer


def told(folder: Path) -> list[tuple[int, str, int]]:
    return [(event.sequence, event.event, event.step) for event in read_events(folder / EVENTS)]


def result(folder: Path) -> dict[str, Any]:
    text = (folder / "result.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_run_that_learns_from_rewards_and_goes_on(tmp_path: Path) -> None:
    keeping = ModelCheckpoint(dirpath=tmp_path / "kept", every_n_train_steps=2, save_top_k=-1)
    fit(tmp_path, Line(), RunEvents(label="mine", tags={"a": 1}), keeping, validates=True)
    events = list(read_events(tmp_path / EVENTS))
    names = [event.event for event in events]
    assert names[:3] == ["rl.created", "rl.running", "rl.iteration.complete"]
    assert names.count("rl.iteration.complete") == 4
    assert names.count("rl.evaluation.complete") == 2
    assert names[-1] == "rl.succeeded"
    assert events[0].data["label"] == "mine"
    assert events[0].data["tags"] == {"a": 1}
    rewards = [event.data["reward"] for event in events if event.event == "rl.iteration.complete"]
    assert rewards[1] is None, "a number that is not finite"
    iterations = [event.data for event in events if event.event == "rl.iteration.complete"]
    assert rewards[2:] == pytest.approx([-data["loss"] for data in iterations[2:]])
    found = result(tmp_path)
    assert found["status"] == "succeeded"
    assert found["error"] is None
    assert found["final_reward"] == pytest.approx(rewards[-1])
    assert [each["step"] for each in found["checkpoints"]] == [2, 4]
    assert found["model_id"] == found["checkpoints"][-1]["path"]
    assert all(Path(each["path"]).is_file() and each["loss"] > 0 for each in found["checkpoints"])
    last = events[-1].sequence
    again = ModelCheckpoint(dirpath=tmp_path / "kept", every_n_train_steps=2, save_top_k=-1)
    fit(tmp_path, Line(), RunEvents(), again, steps=6, ckpt_path=found["checkpoints"][0]["path"])
    more = told(tmp_path)[last + 1 :]
    assert more[0] == (last + 1, "rl.running", 2)
    assert more[-1] == (last + len(more), "rl.succeeded", 6)
    assert [step for _, name, step in more if name == "rl.iteration.complete"] == [3, 4, 5, 6]


class Stops(Callback):
    """Ctrl-C before a checkpoint is read."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        raise KeyboardInterrupt


def test_a_run_that_is_stopped_before_it_goes_on_is_where_it_was(tmp_path: Path) -> None:
    fit(tmp_path, Line(), RunEvents(), ModelCheckpoint(dirpath=tmp_path / "kept"))
    (path,) = (tmp_path / "kept").glob("*.ckpt")
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        fit(tmp_path, Line(), RunEvents(), Stops(), steps=6, ckpt_path=path)
    assert told(tmp_path)[-1][1:] == ("rl.failed", 4)
    fit(tmp_path, Line(), RunEvents(), steps=1)
    assert [(name, step) for _, name, step in told(tmp_path)[-2:]] == [
        ("rl.iteration.complete", 1),
        ("rl.succeeded", 1),
    ]


def test_an_iteration_of_several_batches_is_told_once_it_is_complete(tmp_path: Path) -> None:
    fit(tmp_path, Line(), RunEvents(), steps=4, accumulate_grad_batches=2)
    steps = [step for _, name, step in told(tmp_path) if name == "rl.iteration.complete"]
    assert steps == [1, 2, 3, 4]


def test_a_run_that_goes_on_without_a_new_reward_keeps_the_last_one(tmp_path: Path) -> None:
    fit(tmp_path, Line(), RunEvents())
    before = result(tmp_path)["final_reward"]
    assert before is not None
    fit(tmp_path, Line(), RunEvents(reward="never/logged"))
    assert result(tmp_path)["final_reward"] == pytest.approx(before)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(None, "RuntimeError: no more"), (KeyboardInterrupt(), "interrupted by SIGINT")],
)
def test_a_run_that_fails_says_why(tmp_path: Path, error: BaseException | None, reason: str) -> None:
    with pytest.raises((RuntimeError, SystemExit)):
        fit(tmp_path, Line(fails_at=2, error=error), RunEvents())
    assert [name for _, name, _ in told(tmp_path)] == [
        "rl.created",
        "rl.running",
        *["rl.iteration.complete"] * 2,
        "rl.failed",
    ]
    found = result(tmp_path)
    assert (found["status"], found["error"]) == ("failed", reason)


def test_a_run_that_imitates(tmp_path: Path) -> None:
    keeping = ModelCheckpoint(dirpath=tmp_path / "kept", save_last=True)
    module = Line()
    fit(
        tmp_path,
        module,
        WarmUp(0.5),
        RunEvents("sft", folder=str(tmp_path / "told")),
        keeping,
        validates=True,
    )
    events = list(read_events(tmp_path / "told" / EVENTS))
    epochs = [event for event in events if event.event == "sft.epoch.complete"]
    assert [event.data["epoch"] for event in epochs] == [1, 2]
    assert [event.data["validation_loss"] for event in epochs] == [2.0, 2.0]
    saved = [event.data["path"] for event in events if event.event == "sft.checkpoint.saved"]
    assert any(path.endswith("last.ckpt") for path in saved)
    found = result(tmp_path / "told")
    assert found["final_loss"] == 2.0
    assert {each["path"] for each in found["checkpoints"]} <= set(saved)
    assert module.rates == pytest.approx([0.1 / 3, 0.2 / 3, 0.1, 0.1])


def test_settings() -> None:
    with pytest.raises(ValueError, match="every_n_steps must be at least 1, got 0"):
        RunEvents(every_n_steps=0)
    with pytest.raises(ValueError, match="share must be from 0 to 1, got 2"):
        WarmUp(2.0)
