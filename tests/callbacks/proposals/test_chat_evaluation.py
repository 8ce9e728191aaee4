"""What a user types to compare with a chat model, and what is said of it."""

from __future__ import annotations

import json

import pytest
import yaml

from synthstats_lightning.cli.main import main
from synthstats_lightning.scoring.terms import chat_endpoint
from synthstats_lightning.testing.fakes import fake_score
from tests.callbacks.proposals.test_chat_proposals import GOOD, fenced
from tests.support.chat_server import serving

ANSWERS = [(200, fenced(GOOD[0])), (200, fenced(GOOD[1])), (401, ""), (200, fenced(GOOD[1]))]


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(chat_endpoint, "FIRST_PAUSE", 0.001)


def looked_at(command, folder, *more):
    config = folder / "own.yaml"
    fakes = {"class_path": "synthstats_lightning.testing.fakes.FakeExecutor"}
    config.write_text(yaml.safe_dump({"scoring": {"executor": fakes, "sampling": None}}))
    with serving(lambda number, body: ANSWERS[number]) as server:
        arguments = [command, "--config=quickstart", "--config=policy/tiny", f"--config={config}"]
        arguments += [f"--policy=openai:strong@{server.url}", "--chat.at_once=1", "--chat.retries=0"]
        arguments += ["--data.init_args.eval_programs=4", f"--trainer.logger.init_args.save_dir={folder}"]
        cli = main([*arguments, "--trainer.enable_progress_bar=false", *more])
    return cli, server


def lines_of(folder, stem):
    (path,) = folder.rglob(f"{stem}-0.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_chat_model_is_tested(tmp_path, capsys):
    cli, server = looked_at("test", tmp_path)
    metrics = {name: float(value) for name, value in cli.trainer.callback_metrics.items()}
    scores = [fake_score(line["source"]) for line in lines_of(tmp_path, "answers") if line["source"]]
    scored = [score.evidence for score in scores if score.scored]
    assert len(server.bodies) == 4
    assert metrics["test/answered_rate"] == pytest.approx(3 / 4)
    assert metrics["test/valid_rate"] == pytest.approx(len(scored) / 3)
    assert metrics["test/unique_rate"] == pytest.approx(2 / 3)
    assert metrics["test/evidence"] == pytest.approx(sum(scored) / len(scored))
    assert metrics["test/best_evidence"] == pytest.approx(max(scored))
    # what would need log-probabilities is not there, and that is said
    assert not [name for name in metrics if "log_z" in name or "residual" in name or "log_prob" in name]
    assert all(value == value for value in metrics.values())
    assert [line["failure"] for line in lines_of(tmp_path, "answers")][2] == "status"
    said = "".join(capsys.readouterr())
    assert "4 programs asked of openai:strong@" in said
    assert "without a program: status 1; without a score: none" in said
    assert "missing: log Z, estimates by importance sampling, residuals and shares by weight" in said


@pytest.mark.slow
def test_a_chat_model_predicts(tmp_path, capsys):
    looked_at("predict", tmp_path)
    lines = lines_of(tmp_path, "predictions")
    assert [line["log_prob"] for line in lines] == [None] * 4
    assert [bool(line["source"]) for line in lines] == [True, True, False, True]
    assert "3 fresh programs of openai:strong@" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--chat.api_key_env=NO_SUCH_KEY"], "api_key_env must name a variable of the environment"),
        (["--policy=gpt"], "policy must be openai:MODEL@URL, got 'gpt'"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        looked_at("test", tmp_path, *arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_settings_of_a_chat_model_that_is_not_there(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["validate", "--config=quickstart", "--chat.temperature=0.5"])
    assert stop.value.code == 2
    assert "chat is for policy openai:MODEL@URL, which is not given" in capsys.readouterr().err
