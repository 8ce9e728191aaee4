"""A killed run leaves every program whose score was logged, and a report can be made of them."""

from __future__ import annotations

import io
import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from rich.console import Console

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.cli.main import main
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.testing.fakes import FakeExecutor
from tests.ranks.processes import ROOT, wait_until
from tests.runtime.test_kill_and_resume import SERVER, Run, configuration

pytestmark = pytest.mark.long


class TellingLogger(CSVLogger):
    """Writes `metrics.csv` after every step, and beforehand how many samples' scores went into it."""

    def __init__(self, folder, scoring):
        super().__init__(folder, name="run", version=0, flush_logs_every_n_steps=1)
        self.scoring = scoring

    def log_metrics(self, metrics, step=None):
        if "sample/log_reward" in metrics:
            line = json.dumps([[record.task, record.source] for record in self.scoring.records])
            with (Path(self.save_dir) / "logged.jsonl").open("a") as file:
                file.write(line + "\n")
        super().log_metrics(metrics, step)


def fit(folder: Path) -> None:
    """A run that goes on until it is killed, and is in its report half of the time."""
    scoring = ProgramScoring(programs_per_step=8, warmup_programs=8, executor=FakeExecutor(), max_records=200)
    trainer = Trainer(
        accelerator="cpu",
        max_steps=12,
        log_every_n_steps=1,
        logger=TellingLogger(str(folder), scoring),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring, PosteriorReport(num_programs=20_000, deadline=600.0)],
        default_root_dir=folder,
    )
    module = GFlowNetModule(seed=1, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=80))
    trainer.fit(module, ReplayDataModule(batch_size=4, steps_per_epoch=50))


def check_kill(folder: Path, delay: float) -> None:
    """Kills a run some time after its first scores were logged.

    Args:
        folder: Of the run.
        delay: Seconds.
    """
    folder.mkdir()
    process = SERVER.Process(target=fit, args=(folder,))
    process.start()
    try:
        wait_until(lambda: (folder / "logged.jsonl").is_file() or not process.is_alive(), 120, "a first log")
        time.sleep(delay)
    finally:
        process.kill()
        process.join(60)
    assert process.exitcode == -signal.SIGKILL
    logged = (folder / "logged.jsonl").read_text().splitlines(keepends=True)
    whole = [line for line in logged if line.endswith("\n")]
    expected = {(task, source) for line in whole for task, source in json.loads(line)}
    run = folder / "run" / "version_0"
    found = {(record.task, record.source) for record in read_records(run)}
    assert len(expected) >= 8
    assert expected <= found
    console = Console(file=io.StringIO())
    report = from_folder(run, console=console)["dugongs"]
    assert report["programs"] == len(found)
    assert report == json.loads((run / "report.json").read_text())["dugongs"]
    assert "Posterior over forms: dugongs" in console.file.getvalue()


@pytest.mark.timeout(180)
def test_a_killed_run_has_lost_nothing(tmp_path):
    check_kill(tmp_path / "run", float(np.random.default_rng().uniform(0, 1.0)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(3))
def test_three_random_moments(tmp_path, number):
    check_kill(tmp_path / "run", float(np.random.default_rng().uniform(0, 15.0)))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_and_report_with_real_workers(tmp_path, monkeypatch, capsys):
    """As a user types it: fit, SIGKILL, report from the folder with what the checkpoint adds."""
    config = configuration(tmp_path / "real", 10_000, 1, real=True)
    run = Run(config, typed=True)
    folder = tmp_path / "real" / "run" / "version_0"

    def started():
        return list(folder.glob("checkpoints/*.ckpt")) or run.status is not None

    try:
        wait_until(started, 200, "a checkpoint")
        time.sleep(float(np.random.default_rng().uniform(0, 3)))
    finally:
        run.kill()
    assert run.status == -signal.SIGKILL
    assert len(read_records(folder)) >= 8
    monkeypatch.chdir(ROOT)
    found = main(["report", str(folder), "--num_programs", "12", "--plotted", "1"])["dugongs"]
    assert found["method"] == "fresh programs"
    assert np.isfinite(found["log_z_gap"])
    assert (folder / "posterior.png").stat().st_size > 10_000
    again = main(["report", str(folder), "--plotted", "1"])["dugongs"]
    assert again["method"].startswith("programs of the run")
    assert again["log_z_learned"] == pytest.approx(found["log_z_gap"] + found["log_z_importance"], abs=1e-4)
