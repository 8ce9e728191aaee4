"""The closing report: by its deadline, after errors and after Ctrl-C; and no program is lost to it."""

from __future__ import annotations

import json
import signal
import threading
import time

import pytest
from lightning.pytorch import Callback, Trainer

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.reports.journal import RecordJournal, read_records
from tests.support.gate import Gate

STEPS, WARMUP, PROGRAMS = 2, 8, 4

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:dugongs, step"),  # of runs that are this short
]


class TrainingIsOver(Callback):
    """Before the report, after the scores of training."""

    def __init__(self, act):
        self.act = act

    def on_train_end(self, trainer, pl_module):
        self.act()


def fit(folder, gate, act, **report):
    scoring = ProgramScoring(
        programs_per_step=PROGRAMS, warmup_programs=WARMUP, executor=gate, drain_seconds=5.0
    )
    report = PosteriorReport(**{"num_programs": 30, **report})
    trainer = Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring, TrainingIsOver(act), report],
        default_root_dir=folder,
    )
    module = GFlowNetModule(seed=1, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=80))
    trainer.fit(module, ReplayDataModule(batch_size=4, steps_per_epoch=50))
    return scoring, report


def shut(gate):
    def act():
        gate.shut = True

    return act


def found(folder):
    return json.loads((folder / "report.json").read_text())["dugongs"]


def samples(folder):
    return sum(record.count for record in read_records(folder))


def test_the_report_keeps_its_deadline_and_says_what_it_lacks(tmp_path, capsys):
    """Twelve answers come, the others never, and neither do the predictive bands."""
    gate = Gate(first=12)
    started = time.perf_counter()
    scoring, report = fit(tmp_path, gate, shut(gate), deadline=1.0)
    assert time.perf_counter() - started < 60
    left_out = found(tmp_path)["left_out"]
    assert any("of 30 fresh programs: no score by the deadline of 1 seconds" in line for line in left_out)
    assert any(line.endswith("the deadline came first") for line in left_out)
    assert "left out: " in capsys.readouterr().out
    fresh = samples(tmp_path) - WARMUP - STEPS * PROGRAMS
    # one answer went to the default regression; those that failed without a worker, or were known, took none
    assert 11 <= fresh < 30
    assert found(tmp_path)["method"] == "fresh programs"
    assert report.metrics["dugongs"]["left_out"] == left_out
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert len(scoring.records) == len(read_records(tmp_path))


def test_a_report_whose_fresh_programs_cannot_be_sampled_is_of_the_runs_programs(tmp_path, monkeypatch):
    gate = Gate()

    def act():
        monkeypatch.setattr(GFlowNetModule, "sample", fail)

    def fail(*arguments, **more):
        raise RuntimeError("the policy is gone")

    fit(tmp_path, gate, act)
    assert found(tmp_path)["method"] == "programs of the run, weighted by prior times evidence"
    assert "RuntimeError: the policy is gone" in found(tmp_path)["left_out"][0]
    assert "log_z_learned" in found(tmp_path)
    assert samples(tmp_path) == WARMUP + STEPS * PROGRAMS


def test_an_error_of_the_page_costs_the_page(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("no room")

    monkeypatch.setattr("synthstats_lightning.reports.report_files.write_page", fail)
    fit(tmp_path, Gate(), lambda: None)
    assert "report.html: OSError: no room" in found(tmp_path)["left_out"]
    assert "log_z_gap" in found(tmp_path)
    assert samples(tmp_path) == WARMUP + STEPS * PROGRAMS + 30


def test_an_error_that_ends_the_report_loses_no_program(tmp_path, monkeypatch):
    def fail(*arguments, **more):
        raise OSError("the disk is gone")

    monkeypatch.setattr("synthstats_lightning.callbacks.posterior_report.write_report", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        fit(tmp_path, Gate(), lambda: None)
    assert samples(tmp_path) == WARMUP + STEPS * PROGRAMS + 30


def test_ctrl_c_during_the_report_leaves_programs_and_a_report_of_them(tmp_path, monkeypatch):
    # workers of its own, which take seconds to start, would predict
    monkeypatch.setattr("synthstats_lightning.callbacks.posterior_report.INTERRUPTED_SECONDS", 0.0)
    gate = Gate(first=12)
    sent = []

    def interrupt():
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    def act():
        gate.shut = True

        def when_held():
            while gate.first > 0 or len(gate.held) < 3:
                time.sleep(0.05)
            time.sleep(1.0)  # until all are handed over
            interrupt()

        threading.Thread(target=when_held, daemon=True).start()

    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit):
            fit(tmp_path, gate, act)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.perf_counter() - sent[0] < 20
    assert "what was not there when the run was interrupted" in found(tmp_path)["left_out"][0]
    assert found(tmp_path)["method"] == "fresh programs"
    assert (tmp_path / "report.html").is_file()
    # one answer went to the default regression
    assert 11 <= samples(tmp_path) - WARMUP - STEPS * PROGRAMS < 30


def test_another_ctrl_c_ends_the_report_at_once(tmp_path, monkeypatch, capsys):
    def slow(*arguments, **more):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it goes on")

    monkeypatch.setattr("synthstats_lightning.callbacks.posterior_report.write_report", slow)
    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit):
            fit(tmp_path, Gate(), lambda: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert "interrupted again: the report is left out" in capsys.readouterr().err
    assert samples(tmp_path) == WARMUP + STEPS * PROGRAMS


def test_programs_are_on_the_disk_before_their_score_is_logged(tmp_path, monkeypatch):
    events = []
    sync, log = RecordJournal.sync, GFlowNetModule.log

    def synced(journal):
        sync(journal)
        events.append(("sync", len(journal.records)))

    def logged(module, name, *arguments, **more):
        if name == "sample/log_reward":
            events.append(("log", None))
        log(module, name, *arguments, **more)

    monkeypatch.setattr(RecordJournal, "sync", synced)
    monkeypatch.setattr(GFlowNetModule, "log", logged)
    fit(tmp_path, Gate(), lambda: None)
    kinds = [kind for kind, _ in events]
    assert kinds[:4] == ["sync", "log"] * STEPS
    assert events[0][1] > 0


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_deadline_out_of_range(wrong):
    with pytest.raises(ValueError, match="deadline must be a positive number of seconds"):
        PosteriorReport(deadline=wrong)


def test_an_error_of_training_leaves_a_report_and_is_raised(tmp_path, monkeypatch, capsys):
    """After the first batch the loss raises: what was scored by then is reported, from the file."""
    steps = []

    def failing(self, batch, batch_idx):
        steps.append(batch_idx)
        raise RuntimeError("the loss is gone")

    monkeypatch.setattr(GFlowNetModule, "training_step", failing)
    monkeypatch.setattr(PosteriorReport, "_write_files", lambda *arguments, **more: None)
    with pytest.raises(RuntimeError, match="the loss is gone"):
        fit(tmp_path, Gate(), lambda: None)
    assert steps == [0]
    rest, log_z = found(tmp_path)["left_out"]
    assert rest == "what was not there when the run ended with an error"
    # the score had not come to its end, and log Z is that of what it had come to
    assert log_z.startswith("learned log Z: training ended while the score counted by 0.")
    assert "log_z_learned" not in found(tmp_path)
    assert samples(tmp_path) == WARMUP
    assert "Posterior over forms: dugongs" in capsys.readouterr().out


def test_an_error_during_warm_up_leaves_a_report_of_what_had_a_score(tmp_path, monkeypatch):
    """Scoring ends the run while it waits for its first programs, before any callback after it has begun."""

    def failing(self, trainer, seconds=0.0):
        raise RuntimeError("the queue is gone")

    monkeypatch.setattr(ProgramScoring, "_harvest", failing)
    monkeypatch.setattr(PosteriorReport, "_write_files", lambda *arguments, **more: None)
    with pytest.raises(RuntimeError, match="the queue is gone"):
        fit(tmp_path, Gate(), lambda: None)
    assert found(tmp_path)["left_out"] == ["what was not there when the run ended with an error"]
    assert samples(tmp_path) == WARMUP
