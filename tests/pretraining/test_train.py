"""The training loop and the command, on a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from synthstats_lightning.pretraining.__main__ import main
from synthstats_lightning.pretraining.model import make_model, make_tokenizer, sharpen
from synthstats_lightning.pretraining.settings import ModelSettings, StageSettings, TrainingSettings
from synthstats_lightning.pretraining.train import learning_rate, train

MODEL = ModelSettings(
    vocabulary=600, hidden=32, layers=1, heads=4, key_value_heads=2, head=8, feed_forward=48
)
CONFIG = Path(__file__).parents[2] / "configs" / "policy" / "tiny_pretraining.yaml"


def settings(*steps: int) -> TrainingSettings:
    stages = [
        StageSettings(count, batch_size=4, programs_per_request=2, learning_rate=1e-2, warmup=5)
        for count in steps
    ]
    return TrainingSettings(stages, precision="fp32", compile=False, log_every=10)


def trained(chosen: TrainingSettings):
    tokenizer = make_tokenizer(chosen.seed, 200, MODEL.vocabulary)
    model = make_model(MODEL, tokenizer, chosen.seed)
    lines: list[str] = []
    loss = train(model, tokenizer, chosen, context=MODEL.context, log=lines.append)
    return model, loss, lines


def test_training_lowers_the_loss_and_repeats_with_its_seed():
    first, loss, lines = trained(settings(30, 10))
    second, again, _ = trained(settings(30, 10))
    assert len(lines) == 4
    assert float(lines[0].split("loss ")[1].split()[0]) > loss + 0.5
    assert loss == again
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_learning_rate_warms_up_peaks_and_falls():
    stage = StageSettings(100, learning_rate=2.0, final_learning_rate=0.1, warmup=10)
    rates = [learning_rate(step, stage) for step in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == rates[10] == pytest.approx(2.0)
    assert rates[55] == pytest.approx(0.2 + 0.9 * 2.0 * 0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[99] == pytest.approx(0.2, abs=0.01)


def test_sharpening_divides_the_logits():
    model, _, _ = trained(settings(1, 1))
    ids = torch.arange(5, 12)[None]
    with torch.no_grad():
        before = model(ids).logits
        sharpen(model, 0.8)
        after = model(ids).logits
    torch.testing.assert_close(after, before / 0.8)


def test_settings_refuse_what_cannot_be():
    with pytest.raises(ValueError, match=r"temperature must be positive and finite, got 0\.0"):
        TrainingSettings([StageSettings(1)], temperature=0.0)
    with pytest.raises(ValueError, match="precision must be one of auto, bf16, fp32, got 'fp8'"):
        TrainingSettings([StageSettings(1)], precision="fp8")
    with pytest.raises(ValueError, match="at least one stage"):
        TrainingSettings([])


def test_the_command_writes_a_folder_that_transformers_loads(tmp_path):
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["model"] |= {"vocabulary": 500, "hidden": 32, "layers": 1, "feed_forward": 32}
    config["training"] |= {"tokenizer_examples": 100, "compile": False}
    for stage in config["training"]["stages"]:
        stage |= {"steps": 2, "batch_size": 2, "warmup": 1}
    config["evaluation_data_sets"] = 1
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    main(["--config", str(path), "--output", str(tmp_path / "out")])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.config.vocab_size == len(tokenizer) == 500
    figures = json.loads((tmp_path / "out" / "pretraining.json").read_text(encoding="utf-8"))
    assert figures["training"]["stages"][0]["steps"] == 2
    assert figures["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_the_command_refuses_unknown_keys(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--config", str(CONFIG), "--output", str(tmp_path), "--training.nonsense", "1"])
    assert "nonsense" in capsys.readouterr().err
