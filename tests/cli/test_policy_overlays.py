"""Overlays of real models, on tiny random models of their architecture, for five steps."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from synthstats_lightning.cli.main import main
from synthstats_lightning.testing.architectures import save_architecture
from tests.policy.conftest import save_random_model
from tests.support.shared_scoring import sharing_scoring

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
KINDS = {
    "qwen3": "qwen3",
    "qwen3_4b": "qwen3",
    "qwen3_4bit": "qwen3",
    "vllm": "qwen3",
    "llama": "llama",
    "llama_70b_4bit": "llama",
    "gemma": "gemma3",
}
STEPS = 5


def test_every_overlay_of_a_real_model_is_known_here() -> None:
    bundled = {"tiny", "tiny_pretraining", "tiny_episodes_pretraining", "writer", "writer_pretraining"}
    assert {path.stem for path in (CONFIGS / "policy").glob("*.yaml")} - bundled == set(KINDS)


@pytest.mark.parametrize("overlay", KINDS)
def test_its_numbers_are_those_of_such_a_model(overlay: str) -> None:
    told = yaml.safe_load((CONFIGS / "policy" / f"{overlay}.yaml").read_text())
    model, scoring = told["model"]["init_args"], told["scoring"]
    assert "/" in model["policy"]
    assert 1e-5 <= model["optimizer"]["init_args"]["lr"] <= 2e-4
    assert model["sampling"] == {"max_new_tokens": 512, "temperature": 1.0}
    assert scoring["sampling"]["max_new_tokens"] == 512
    assert 1.0 <= scoring["sampling"]["temperature"] <= 1.15
    assert model["model"]["dtype"] == "bfloat16"
    assert model["trainer_mode"] == ("qlora" if overlay.endswith("4bit") else "lora")
    assert "load_in_4bit" not in model["model"]
    assert told["data"]["init_args"]["instructions"] == "full"
    assert 1024 <= model["model"]["micro_batch_tokens"] <= 16384
    assert told["trainer"] == {"accelerator": "gpu", "precision": "bf16-mixed"}
    assert told["data"]["init_args"]["eval_batch_size"] <= told["data"]["init_args"]["eval_programs"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:dugongs, step")  # of runs that are this short
@pytest.mark.parametrize("overlay", KINDS)
def test_five_steps(overlay: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model, words = tmp_path / "model", tmp_path / "words"
    model.mkdir()
    save_architecture(KINDS[overlay], model, positions=1024)
    AutoTokenizer.from_pretrained(save_random_model(words)).save_pretrained(model)
    told = {
        "model.init_args.policy": model,
        "model.init_args.trainer_mode": "lora",  # 4 bits want a GPU, as does the trainer
        "trainer.accelerator": "cpu",
        "trainer.max_steps": STEPS,
        "trainer.log_every_n_steps": 1,
        "trainer.enable_progress_bar": "false",
        "trainer.enable_model_summary": "false",
        "trainer.logger.init_args.save_dir": tmp_path,
        "scoring.require_scored": "false",
        "scoring.synchronous": "true",
        "scoring.every_n_steps": 2,
        "scoring.warmup_programs": 4,
        "scoring.programs_per_step": 4,
        "scoring.sampling.max_new_tokens": 32,
        "scoring.num_workers": 1,
        "model.init_args.sampling.max_new_tokens": 32,
        "data.init_args.batch_size": 4,
        "report.num_programs": "null",
        "rollouts.url": "null",
    }
    arguments = [f"--{key}={value}" for key, value in told.items()]
    with sharing_scoring():
        main(["fit", "--config=quickstart", f"--config=policy/{overlay}", *arguments])
    with (tmp_path / "quickstart" / "version_0" / "metrics.csv").open() as file:
        losses = [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
    assert len(losses) == STEPS
    assert all(0 <= loss < float("inf") for loss in losses)
