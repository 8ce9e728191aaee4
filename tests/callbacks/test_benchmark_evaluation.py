"""The protocol from `validate` and `test`."""

import json

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

from synthstats_lightning.callbacks import BenchmarkEvaluation, ProgramScoring
from synthstats_lightning.datamodule import ReplayDataModule
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.tasks import SimulatedTask

TINY = EvaluationSettings(
    budgets=(0, 2),
    seeds=(1,),
    points=3,
    draws=50,
    eig_candidates=4,
    eig_outer=20,
    eig_inner=4,
    eig_particles=50,
)


def trainer(folder, *callbacks):
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        callbacks=list(callbacks),
        default_root_dir=str(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )


def tiny_module(data):
    return GFlowNetModule(tasks=data.task_names, sampling=SamplingSettings(max_new_tokens=120))


@pytest.mark.long
def test_test_writes_the_table(tmp_path, capsys):
    data = ReplayDataModule(
        tasks=[SimulatedTask("death_process", 100, 5)], eval_programs=2, eval_batch_size=2
    )
    run = trainer(tmp_path, ProgramScoring(num_workers=1), BenchmarkEvaluation(TINY, num_programs=2))
    run.test(tiny_module(data), datamodule=data, verbose=False)
    table = json.loads((tmp_path / "benchmark.json").read_text())
    assert set(table) == {"death_process"}
    rows = table["death_process"]
    assert set(rows) == {"oracle", "baseline", "policy_best", "policy_set"}
    for budgets in rows.values():
        assert set(budgets) == {"0", "2"}
        assert set(budgets["2"]) == {
            *("raw_error", "raw_error_se", "standardised_error", "lpd_gain", "eig_regret"),
            *("failures", "runs"),
        }
    assert rows["oracle"]["2"]["failures"] == 0
    assert rows["policy_set"]["2"]["runs"] == 2
    logged = run.callback_metrics["test/death_process/oracle/2/lpd_gain"]
    assert float(logged) == pytest.approx(rows["oracle"]["2"]["lpd_gain"], rel=1e-5)
    assert len((tmp_path / "benchmark.jsonl").read_text().splitlines()) == 4 * 2
    assert "lpd gain" in capsys.readouterr().out


def fitted(folder, *callbacks, steps):
    """A run of a few steps with one worker, which goes on without what the workers have not done."""
    data = ReplayDataModule(
        tasks=[SimulatedTask("death_process", 100, 5)], batch_size=2, steps_per_epoch=1, seed=0
    )
    module = GFlowNetModule(
        tasks=data.task_names, sampling=SamplingSettings(max_new_tokens=60), seed=0, log_z_lr=0.1
    )
    scoring = ProgramScoring(
        num_workers=1, programs_per_step=2, warmup_programs=2, synchronous=True, require_scored=False
    )
    run = pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        callbacks=[scoring, *callbacks],
        default_root_dir=str(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        max_steps=steps,
        enable_checkpointing=any(isinstance(item, ModelCheckpoint) for item in callbacks),
    )
    run.fit(module, datamodule=data)
    return run, {name: value.clone() for name, value in module.named_parameters() if value.requires_grad}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_steers_a_run_and_changes_nothing_of_it(tmp_path):
    evaluation = BenchmarkEvaluation(TINY, num_programs=1, oracle=False, every_n_steps=1, seeds=(3,))
    saving = ModelCheckpoint(
        dirpath=tmp_path / "kept", monitor="benchmark/lpd_gain", mode="max", every_n_train_steps=1
    )
    stopping = EarlyStopping(
        "benchmark/lpd_gain", mode="max", patience=1, min_delta=1e9, check_on_train_epoch_end=True
    )
    run, learned = fitted(tmp_path / "with", evaluation, saving, stopping, steps=9)
    assert run.global_step == 2  # the second is no better than the first by a billion nats
    lines = [json.loads(line) for line in (tmp_path / "with/benchmark_steps.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert set(lines[0]["table"]["death_process"]) == {"baseline", "policy_best", "policy_set"}
    gains = [line["lpd_gain"] for line in lines]
    assert saving.best_model_score.item() == pytest.approx(max(gains), rel=1e-5, abs=1e-7)
    assert float(run.callback_metrics["benchmark/death_process/policy_set/2/lpd_gain"]) == pytest.approx(
        gains[-1], rel=1e-5, abs=1e-7
    )
    _, alone = fitted(tmp_path / "without", steps=2)
    assert all(torch.equal(alone[name], value) for name, value in learned.items())


@pytest.mark.slow
def test_validate_with_given_environments_and_its_own_workers(tmp_path):
    data = ReplayDataModule(tasks=["dugongs"], eval_programs=1, eval_batch_size=1)
    evaluation = BenchmarkEvaluation(TINY, ["death_process", "dugongs_simulator"], 1, False, 1)
    run = trainer(tmp_path, evaluation)
    run.validate(tiny_module(data), datamodule=data, verbose=False)
    table = json.loads((tmp_path / "benchmark.json").read_text())
    assert set(table) == {"death_process", "dugongs_simulator"}
    assert set(table["death_process"]) == {"baseline", "policy_best", "policy_set"}
    assert "val/death_process/baseline/0/raw_error" in run.callback_metrics


def test_no_environment(tmp_path):
    data = ReplayDataModule(tasks=["dugongs"], eval_programs=1, eval_batch_size=1)
    module = GFlowNetModule(tasks=data.task_names)
    with pytest.raises(TypeError, match="needs `environments`: the data module has no simulated task"):
        trainer(tmp_path, BenchmarkEvaluation(TINY, num_workers=1)).test(module, datamodule=data)


def test_nothing_to_evaluate_on_is_said_before_anything_is_done():
    tasks = ReplayDataModule(tasks=["dugongs"]).tasks
    training = BenchmarkEvaluation(TINY, every_n_steps=5)
    for command in ("fit", "validate", "test"):
        with pytest.raises(ValueError, match=r"benchmark.environments must name .*, got dugongs"):
            training.check(tasks, command)
    training.check(tasks, "predict")
    BenchmarkEvaluation(TINY).check(tasks, "fit")
    BenchmarkEvaluation(TINY, num_programs=None).check(tasks, "test")
    BenchmarkEvaluation(TINY, ["death_process"], every_n_steps=5).check(tasks, "fit")
    training.check(ReplayDataModule(tasks=["death_process"]).tasks, "fit")


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_programs must be at least 1, got 0"):
        BenchmarkEvaluation(num_programs=0)
    with pytest.raises(ValueError, match="every_n_steps must be at least 0, got -1"):
        BenchmarkEvaluation(every_n_steps=-1)
    with pytest.raises(ValueError, match="seeds must be different numbers from 0"):
        BenchmarkEvaluation(seeds=(1, 1))
    with pytest.raises(ValueError, match="simulator 'dugong' is not one of"):
        BenchmarkEvaluation(environments=["dugong"])
