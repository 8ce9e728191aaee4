"""`check` and the end of a run whose warm-up scores nothing, as a user types them; scores are made up."""

import json
import math

import pytest

from synthstats_lightning import RewardTerm
from synthstats_lightning.cli.main import main

FAKE = [
    "--config=quickstart",
    "--config=policy/tiny",
    "--scoring.executor=synthstats_lightning.testing.fakes.FakeExecutor",
    "--data.init_args.batch_size=4",
]
TINY = json.dumps(
    {
        "model": {"init_args": {"sampling": {"max_new_tokens": 3}}},
        "scoring": {"sampling": None, "warmup_programs": 6},
    }
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class LongNames(RewardTerm):
    """A user's own term, of what is made up too."""

    def value(self, program):
        return program.score.evidence / 100


def test_check_says_what_a_run_would_meet_and_leaves_nothing_behind(folder, capsys):
    terms = [{"class_path": f"{__name__}.LongNames", "init_args": {"weight": 2.0}}]
    cli = main(["check", *FAKE, "--config", json.dumps({"scoring": {"reward": {"terms": terms}}})])
    lines = capsys.readouterr().out.splitlines()
    outcomes = {line.split()[0]: line.split()[1] for line in lines if line and line[0].isalpha()}
    wanted = {"sandbox", "data", "policy", "base", "adapter", "warm-up", "memory", "time", "disk"}
    assert wanted <= outcomes.keys(), lines
    assert "failed" not in outcomes.values()
    assert outcomes["LongNames"] == "ok"
    assert outcomes["reward"] == "warning"
    stored = cli.datamodule.buffer.trajectories
    assert all(
        (len(item.parts) == 6) and (item.parts[5] < 0) == math.isfinite(item.parts[0]) for item in stored
    )
    assert any("95 steps and 2976 programs" in line for line in lines)
    assert "--- adapter: the program as extracted ---" in lines
    assert cli.trainer.global_step == 2
    assert not list(folder.iterdir())


def test_nothing_that_scores_is_a_failed_check(folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["check", *FAKE, "--config", TINY])
    assert stop.value.code == 1
    assert "0 of" in (found := capsys.readouterr().out)
    assert "no stop token within 3 tokens" in found


def test_a_run_ends_within_its_warm_up_where_nothing_scores(folder, capsys):
    run = ["fit", *FAKE, "--config", TINY, "--trainer.enable_progress_bar=false", "--trainer.max_steps=1"]
    with pytest.raises(SystemExit) as stop:
        main(run)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "truncated" in error
    assert "report" not in error
    assert error.splitlines()[-1].startswith("error: none of the")
    left = ["--scoring.require_scored=false", "--report.num_programs=null", "--trainer.logger=false"]
    assert main([*run, *left, "--trainer.enable_checkpointing=false"]).trainer.global_step == 1


def test_what_ends_a_trial_is_in_its_table(folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["check", *FAKE, "--model.init_args.sampling.max_new_tokens=1000", "--scoring.sampling=null"])
    assert stop.value.code == 1
    assert "max_new_tokens must be at most" in capsys.readouterr().out
