"""A run on two processes: it trains, logs metrics over both, and each rank resumes with its own buffer."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

ROOT = Path(__file__).resolve().parents[2]
RUN = {
    "trainer": {
        "accelerator": "cpu",
        "devices": 2,
        "strategy": "ddp",
        "max_steps": 4,
        "log_every_n_steps": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    },
    "scoring": {
        "synchronous": True,
        "programs_per_step": 4,
        "every_n_steps": 1,
        "warmup_programs": 8,
        "num_workers": 1,
        "sampling": None,
    },
    "metrics": {"every_n_steps": 2, "num_programs": 4},
    "report": {"num_programs": None},
    "checkpoint": {"every_n_train_steps": 2, "save_top_k": -1},
    "data": {
        "class_path": "ReplayDataModule",
        "init_args": {"proposal": "nothing", "batch_size": 4, "steps_per_epoch": 4},
    },
    "model": {
        "class_path": "GFlowNetModule",
        "init_args": {"policy": "tiny", "lora": {"rank": 2}, "sampling": {"max_new_tokens": 100}},
    },
}


def fit(folder, *more):
    config = folder / "run.yaml"
    config.write_text(yaml.safe_dump(RUN))
    command = [sys.executable, "-m", "synthstats_lightning", "fit", "--config", "configs/quickstart.yaml"]
    command += ["--config", str(config), "--trainer.logger.init_args.save_dir", str(folder), *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    version = folder / "quickstart" / "version_0"
    with (version / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    saved = torch.load(version / "checkpoints" / "step4.ckpt", weights_only=True)
    return version, rows, saved


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_ranks_train_and_resume(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    version, rows, saved = fit(first)
    last = {name: value for row in rows for name, value in row.items() if value}
    assert 0 <= float(last["fresh/valid_rate"]) <= 1
    assert float(last["fresh/effective_sample_size/dugongs"]) <= 8, "four programs of either rank"
    data = saved["ReplayDataModule"]
    other = data["buffers_of_other_ranks"]
    assert len(other) == 1
    assert other[0]["added"] == data["buffer"]["added"] == 8 + 4 * 4
    assert not torch.equal(other[0]["tokens"], data["buffer"]["tokens"]), "ranks sample different programs"
    _, _, resumed = fit(second, "--ckpt_path", str(version / "checkpoints" / "step2.ckpt"))
    for one, two in zip(
        [data["buffer"], *other],
        [resumed["ReplayDataModule"]["buffer"], *resumed["ReplayDataModule"]["buffers_of_other_ranks"]],
        strict=True,
    ):
        assert torch.equal(one["tokens"], two["tokens"])
        assert torch.equal(one["numbers"], two["numbers"])
    for name, value in saved["state_dict"].items():
        assert torch.equal(value, resumed["state_dict"][name]), name
