"""Supervised training on given examples, and a run that begins with what it leaves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml

from synthstats_lightning import DemonstrationDataModule, GFlowNetModule
from synthstats_lightning.cli.main import main
from synthstats_lightning.testing.listed_language import (
    LIMIT,
    LORA,
    REQUEST,
    log_probs,
    save_listed_model,
    train_from,
)

ANSWERS = ("A", "A B", "B A", "A A", "U x", "")


def conversations(path: Path, number: int) -> Path:
    """Answers of the listed language, as chat messages."""
    asked = {"role": "user", "content": REQUEST}
    texts = [ANSWERS[place % len(ANSWERS)] for place in range(number)]
    lines = ({"messages": [asked, {"role": "assistant", "content": text}]} for text in texts)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def fit(folder: Path, *more: str) -> Any:
    quiet = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
    return main(
        ["fit", "--config=warm_start", f"--trainer.logger.init_args.save_dir={folder}", *quiet, *more]
    )


def test_settings(tmp_path: Path) -> None:
    examples = str(conversations(tmp_path / "examples.jsonl", 20))
    module = DemonstrationDataModule(examples, max_examples=10, validation_share=0.25, seed=1)
    assert (len(module.training), len(module.validation)) == (8, 2)
    assert len({example.line for example in module.training + module.validation}) == 10
    other = DemonstrationDataModule(examples, max_examples=10, validation_share=0.25, seed=2)
    assert other.training != module.training
    assert DemonstrationDataModule(examples, validation_share=0.0).val_dataloader() == []
    assert len(DemonstrationDataModule(examples, validation_share=0.001).validation) == 1
    for name, wrong, message in (
        ("validation_share", 1.0, "validation_share must be from 0 to below 1, got 1"),
        ("batch_tokens", 0, "batch_tokens must be at least 1, got 0"),
        ("batch_size", 0, "batch_size must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            DemonstrationDataModule(examples, **{name: wrong})
    with pytest.raises(TypeError, match="needs a GFlowNetModule"):
        module.train_dataloader()


def test_programs_without_a_score_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "programs.jsonl"
    lines = [{"task": "dugongs", "source": "x", "status": "scored"}, {"source": "y", "status": "syntax"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(UserWarning, match="1 lines of .* are programs without a score"):
        assert len(DemonstrationDataModule(str(path)).training) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--data.init_args.examples=nowhere.jsonl"], "no JSONL file of examples at nowhere.jsonl"),
        (["fit", "--budget.minutes=1"], "budget.minutes is for runs that end with a report"),
        (["check"], "check tries runs that score programs"),
    ],
)
def test_what_is_refused_is_one_line(arguments: list[str], message: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main([arguments[0], "--config=warm_start", *arguments[1:]])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_overlays_of_policies_go_over_it(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--config=warm_start", "--config=policy/gemma", "--print_config"])
    assert ended.value.code == 0
    told = yaml.safe_load(capsys.readouterr().out)
    assert told["model"]["init_args"]["policy"].startswith("google/")
    assert told["model"]["init_args"]["objective"]["class_path"].endswith("Supervised")
    assert told["data"]["class_path"].endswith("DemonstrationDataModule")


class Imitated(NamedTuple):
    """A model of a language that can be listed, answers, and the folder of the run that imitated them."""

    model: Path
    examples: Path
    run: Path


@pytest.fixture(scope="module")
def imitated(tmp_path_factory: pytest.TempPathFactory) -> Imitated:
    folder = tmp_path_factory.mktemp("listed")
    model = folder / "model"
    model.mkdir()
    save_listed_model(model)
    examples = conversations(folder / "examples.jsonl", 48)
    fit(
        folder,
        f"--model.init_args.policy={model}",
        f"--model.init_args.lora.rank={LORA.rank}",
        f"--model.init_args.sampling.max_new_tokens={LIMIT}",
        f"--data.init_args.examples={examples}",
        "--trainer.max_epochs=5",
        "--trainer.log_every_n_steps=1",
        "--model.init_args.optimizer.init_args.lr=0.01",
    )
    return Imitated(model, examples, folder / "warm_start" / "version_0")


def held_back_loss(imitated: Imitated, adapter: Path | None) -> float:
    """Nats a token of the examples held back, one after the other through the whole model."""
    given = DemonstrationDataModule(str(imitated.examples), seed=0)
    module = GFlowNetModule(str(imitated.model), adapter=None if adapter is None else str(adapter))
    module.configure_model()
    policy, total, number = module.loaded_policy, 0.0, 0
    with torch.no_grad(), policy.evaluating():
        for example in given.validation:
            prompt = policy.encode_prompt("", REQUEST)
            program = policy.encode_program(example.messages[-1].content)
            logits = policy.model(input_ids=torch.tensor([prompt + program])).logits[0, len(prompt) - 1 : -1]
            total -= float(logits.log_softmax(-1).gather(1, torch.tensor(program)[:, None]).sum())
            number += len(program)
    return total / number


def test_a_fit_imitates_and_leaves_the_adapter_that_does_it_best(imitated: Imitated) -> None:
    with (imitated.run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    validated = [float(row["val/loss"]) for row in rows if row["val/loss"]]
    assert len(validated) == 5
    assert len([row for row in rows if row["train/loss"]]) == 5 * 2
    assert list((imitated.run / "checkpoints").glob("step*.ckpt"))
    assert held_back_loss(imitated, imitated.run / "adapter") == pytest.approx(min(validated), abs=1e-4)
    assert min(validated) < held_back_loss(imitated, None) - 0.2


def test_a_run_starts_from_that_adapter(imitated: Imitated) -> None:
    module = GFlowNetModule(str(imitated.model), adapter=str(imitated.run / "adapter"))
    module.configure_model()
    tuned, base = (log_probs(module.loaded_policy, reference) for reference in (False, True))
    assert tuned.exp().sum() == pytest.approx(1, abs=1e-4)
    assert base.exp().sum() == pytest.approx(1, abs=1e-4)
    assert (tuned.exp() - base.exp()).abs().sum() > 0.4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_reference_has_a_target_of_its_own_and_both_are_reached(imitated: Imitated) -> None:
    given = imitated.model, imitated.run / "adapter"
    base, adapter = (train_from(*given, reference) for reference in ("base", "adapter"))
    assert base.total_variation <= 0.05
    assert adapter.total_variation <= 0.05
    assert 0.5 * float((base.target - adapter.target).abs().sum()) > 0.1
