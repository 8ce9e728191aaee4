"""What a user types: fit, test, predict, validate and resume through the command line, in a short run."""

import contextlib
import copy
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
import transformers
import yaml

from synthstats_lightning import GFlowNetModule, ReplayDataModule
from synthstats_lightning.callbacks import ProgramScoring
from synthstats_lightning.cli.errors import WRONG_USAGE
from synthstats_lightning.cli.main import main
from synthstats_lightning.objectives import LogVariance
from tests.support.shared_scoring import sharing_scoring

ROOT = Path(__file__).resolve().parents[2]
STEPS = 4

RUN = {
    "seed_everything": 1,  # with seed 0 one program takes eight seconds
    "trainer": {
        "max_steps": STEPS,
        "log_every_n_steps": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    },
    "scoring": {
        "synchronous": True,
        "programs_per_step": 6,
        "every_n_steps": 1,
        "warmup_programs": 12,
        "num_workers": 1,
        "sampling": None,
    },
    "report": {"num_programs": 24, "plotted": 2},
    "checkpoint": {"every_n_train_steps": 2, "save_top_k": -1, "save_last": None},
    "data": {
        "class_path": "ReplayDataModule",
        "init_args": {
            "proposal": "nothing",
            "batch_size": 8,
            "steps_per_epoch": 3,
            "eval_programs": 10,
            "eval_batch_size": 5,
        },
    },
    "model": {
        "class_path": "GFlowNetModule",
        "init_args": {"policy": "tiny", "lora": {"rank": 4}, "sampling": {"max_new_tokens": 120}},
    },
}


def command(subcommand, folder, *more, workers=sharing_scoring):
    config = folder / "run.yaml"
    config.write_text(yaml.safe_dump(RUN))
    quickstart = ROOT / "configs" / "quickstart.yaml"
    arguments = [subcommand, "--config", str(quickstart), "--config", str(config)]
    with workers():
        return main([*arguments, "--trainer.logger.init_args.save_dir", str(folder), *more])


def metrics(folder, version):
    with (folder / "quickstart" / f"version_{version}" / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def checkpoint(folder, step):
    return folder / "quickstart" / "version_0" / "checkpoints" / f"step{step}.ckpt"


def descendants(pid):
    """Process ids of everything that a process has started, and what that has started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    before = descendants(os.getpid())
    cli = command("fit", folder, workers=contextlib.nullcontext)
    assert descendants(os.getpid()) <= before, "a worker outlived the run"
    return folder, cli


def test_fit_writes_what_the_readme_says(fitted):
    folder, _ = fitted
    run = folder / "quickstart" / "version_0"
    rows = [json.loads(line) for line in (run / "programs.jsonl").read_text().splitlines()]
    fields = "source task status evidence evidence_se elpd pareto_k log_reward log_prob reference_log_prob"
    assert {*fields.split(), "structure", "count"} <= set(rows[0])
    assert sum(row["count"] for row in rows) == 12 + STEPS * 6 + 24
    assert sum(row["status"] == "scored" for row in rows) > len(rows) / 2
    for row in rows:
        if row["status"] == "scored":
            assert np.isfinite([row["evidence"], row["log_reward"]]).all()
            assert row["elpd"] is None, "the reward is the evidence"
            assert row["graph"]
        else:
            assert row["evidence"] is None
            assert row["message"]
    assert (run / "posterior.png").stat().st_size > 10_000
    report = json.loads((run / "report.json").read_text())["dugongs"]
    assert report["log_z_gap"] == pytest.approx(report_log_z(folder) - report["log_z_importance"], abs=1e-4)
    assert (run / "config.yaml").is_file()


@pytest.mark.long
def test_a_report_made_again_draws_from_policy_and_prior(fitted, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(fitted[0] / "quickstart" / "version_0", run)
    found = main(["report", str(run), "--num_programs", "20", "--plotted", "1"])["dugongs"]
    said = " ".join(capsys.readouterr().out.split())
    assert "from 20 fresh programs, 2 of them the prior's" in said
    assert 0 < found["effective_sample_size_of_policy"] <= 18
    assert 0 < found["effective_sample_size"] <= 20


def report_log_z(folder):
    return float(torch.load(checkpoint(folder, STEPS), weights_only=True)["state_dict"]["log_z.value"][0])


def test_metrics_are_logged_under_their_documented_names(fitted):
    folder, _ = fitted
    names = set(metrics(folder, 0)[0])
    page = (ROOT / "docs" / "statistics" / "figures.md").read_text()
    for name in names - {"epoch", "step"}:
        documented = name.replace("/dugongs", "/TASK")
        documented = "failures/CATEGORY" if name.startswith("failures/") else documented
        assert documented in page, name


def test_checkpoint_holds_the_adapter_and_not_the_base(fitted):
    folder, cli = fitted
    path = checkpoint(folder, 4)
    state = torch.load(path, weights_only=True)["state_dict"]
    assert {"log_z.value", "log_z.initialised"} <= set(state)
    trainable = {name for name, value in cli.model.named_parameters() if value.requires_grad}
    assert trainable <= set(state)
    assert not [name for name in state if "base_layer" in name]
    module = GFlowNetModule.load_from_checkpoint(path)
    for name, value in cli.model.named_parameters():
        assert torch.equal(value, module.get_parameter(name)), name
    assert module.lora.rank == 4


def test_a_checkpoint_that_misses_a_tensor_is_refused(fitted, tmp_path):
    folder, _ = fitted
    path = checkpoint(folder, 4)
    content = torch.load(path, weights_only=True)
    key = next(name for name in content["state_dict"] if "lora_B" in name)
    del content["state_dict"][key]
    torch.save(content, tmp_path / "torn.ckpt")
    with pytest.raises(RuntimeError, match="Missing key"):
        GFlowNetModule.load_from_checkpoint(tmp_path / "torn.ckpt")
    content = torch.load(path, weights_only=True)
    content["policy_identity"]["tokenizer"] = "another"
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"belongs to another policy.*tokenizer was 'another'"):
        GFlowNetModule.load_from_checkpoint(tmp_path / "other.ckpt")


def test_peft_reads_the_export(fitted, tmp_path):
    _, cli = fitted
    cli.model.save_pretrained(str(tmp_path))
    base = transformers.AutoModelForCausalLM.from_pretrained(
        ROOT / "synthstats_lightning" / "policy" / "tiny", dtype=torch.float32
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # between peft and transformers
        model = peft.PeftModel.from_pretrained(base, tmp_path)
    ids = torch.tensor([tokenizer("with pm.Model() as model:").input_ids])
    policy = cli.model.loaded_policy
    with torch.no_grad(), policy.evaluating():
        ours = policy.model(input_ids=ids).logits
        assert torch.allclose(model.eval()(input_ids=ids).logits, ours, atol=1e-6)


@pytest.mark.long
def test_resumed_equals_uninterrupted(fitted, tmp_path):
    folder, whole = fitted
    path = checkpoint(folder, 2)
    resumed = command("fit", tmp_path, "--ckpt_path", str(path))
    keys = ["train/loss", "train/log_z/dugongs", "sample/evidence", "sample/log_reward"]
    first, second = (
        {row["step"]: [row[key] for key in keys] for row in metrics(path, 0) if row["train/loss"]}
        for path in (folder, tmp_path)
    )
    assert list(second) == ["2", "3"]
    assert second == {step: first[step] for step in second}
    assert resumed.datamodule.buffer.trajectories == whole.datamodule.buffer.trajectories
    for name, value in whole.model.named_parameters():
        assert torch.equal(value, resumed.model.get_parameter(name)), name
    first = (folder / "quickstart/version_0/programs.jsonl").read_text().splitlines()
    second = (tmp_path / "quickstart/version_0/programs.jsonl").read_text().splitlines()
    assert [lasting(json.loads(line)) for line in first] == [lasting(json.loads(line)) for line in second]


@pytest.mark.parametrize("subcommand", [pytest.param("validate", marks=pytest.mark.slow), "test"])
def test_evaluation_of_a_checkpoint(fitted, tmp_path, subcommand):
    folder, _ = fitted
    path = checkpoint(folder, 4)
    cli = command(subcommand, tmp_path, "--ckpt_path", str(path), "--trainer.limit_val_batches", "1.0")
    stage = "val" if subcommand == "validate" else "test"
    values = cli.trainer.callback_metrics
    assert 0.3 < values[f"{stage}/valid_rate"] <= 1
    assert values[f"{stage}/structures"] >= 1
    assert torch.isfinite(values[f"{stage}/log_z_gap"])


def lasting(record):
    """A record without what is measured by the clock, and without what the first run's report has added.

    Both runs share a scoring process here, which knows what it was asked before.
    """
    later = {"elpd", "elpd_se", "heldout_lpd", "heldout_lpd_se", "pareto_k"}
    kept = {key: value for key, value in record.items() if key not in {"seconds", "diagnostics", *later}}
    evidence = {**(record["diagnostics"] or {}).get("evidence", {}), "seconds": 0.0}
    return {**kept, "diagnostics": evidence}


def test_predict_writes_programs(fitted, tmp_path):
    folder, _ = fitted
    path = checkpoint(folder, 4)
    command("predict", tmp_path, "--ckpt_path", str(path))
    lines = (tmp_path / "quickstart" / "version_0" / "predictions-0.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 10
    assert all(row["task"] == "dugongs" and row["log_prob"] < 0 for row in rows)
    assert sum("pm.Model()" in row["source"] for row in rows) > 5


def test_a_prompt_that_the_policy_cannot_be_given_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        command("fit", tmp_path, "--data.init_args.proposal", "rows")
    assert stop.value.code == WRONG_USAGE
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: proposal must be 'nothing', and proposal_examples 0, for policy 'tiny'")


def test_ctrl_c_saves_and_the_run_resumes(tmp_path):
    config = tmp_path / "run.yaml"
    run = copy.deepcopy(RUN)
    run["trainer"]["max_steps"] = 10_000
    run["scoring"]["synchronous"] = False
    run["report"]["num_programs"] = None
    run["checkpoint"]["save_last"] = True
    config.write_text(yaml.safe_dump(run))
    arguments = ["fit", "--config", str(ROOT / "configs" / "quickstart.yaml"), "--config", str(config)]
    arguments += ["--trainer.logger.init_args.save_dir", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "synthstats_lightning", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # shells have their background jobs ignore it, these tests among them
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    folder = tmp_path / "quickstart" / "version_0" / "checkpoints"
    deadline = time.monotonic() + 120
    while not (folder / "last.ckpt").is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    workers = descendants(process.pid)
    assert len(workers) >= 2
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert "Traceback" not in output
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()], "a worker outlived the run"
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    step = saved["global_step"]
    assert step >= 2
    # settings that are given now win over those of the checkpoint, in what it leaves as well
    given = ["--model.init_args.max_skipped_steps", "7", "--config", "objective/log_variance"]
    arguments += ["--ckpt_path", str(folder / "last.ckpt"), "--trainer.max_steps", str(step + 2)]
    with sharing_scoring():
        cli = main([*arguments, *given])
    assert cli.trainer.global_step == step + 2
    assert isinstance(cli.model.objective, LogVariance)
    path = cli.trainer.checkpoint_callback.last_model_path
    newest = torch.load(path, weights_only=True)["hyper_parameters"]
    assert newest["max_skipped_steps"] == cli.model.max_skipped_steps == 7
    assert newest["objective"]["class_path"].endswith(".LogVariance")
    assert newest["lora"]["rank"] == saved["hyper_parameters"]["lora"]["rank"] == 4
    assert len(cli.datamodule.buffer) >= saved["ReplayDataModule"]["buffer"]["entries"]
    (scoring,) = saved["callbacks"]["ProgramScoring"]["ranks"]
    records = [json.loads(line) for line in scoring["records"].splitlines()]
    resumed = {record.source for record in cli.trainer.callbacks[0].records}
    assert {record["source"] for record in records} <= resumed


@pytest.mark.slow
def test_workers_killed_during_fit_cost_nothing_but_a_restart(tmp_path):
    """SIGKILL to sandbox worker and scoring process while programs are being scored."""
    from lightning.pytorch import Trainer

    killed, remembered = [], set()
    scoring = ProgramScoring(programs_per_step=8, warmup_programs=16, num_workers=1, max_records=200)

    def kill():
        deadline = time.monotonic() + 120
        while len(killed) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
            if scoring._scorer is None or scoring._scorer.pool.scored < 3 * len(killed) + 3:
                continue
            worker = scoring._scorer.pool._workers[0]
            pid = worker.scoring.pid if killed else worker.sandbox.pid
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                remembered.add(scoring._scorer.pool._known.capacity)

    thread = threading.Thread(target=kill)
    thread.start()
    data = ReplayDataModule(batch_size=4, steps_per_epoch=4)
    module = GFlowNetModule(lora=None, tasks=data.task_names)
    trainer = Trainer(
        max_steps=4,
        log_every_n_steps=1,
        callbacks=[scoring],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        limit_val_batches=0,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, data)
    thread.join()
    assert trainer.global_step == 4
    assert len(killed) == 2
    assert remembered == {200}, "the pool remembers no more scores than there are records"
    assert trainer.callback_metrics["perf/worker_restarts"] >= 1
    assert all(not Path(f"/proc/{pid}").exists() for pid in killed)
    assert sum(record.count for record in scoring.records) == 16 + 4 * 8
    trainer.save_checkpoint(tmp_path / "python.ckpt")
    assert GFlowNetModule.load_from_checkpoint(tmp_path / "python.ckpt").objective.huber_delta is None
