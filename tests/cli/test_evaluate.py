"""`evaluate`: any policy by BoxingGym's protocol, in pieces that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from synthstats_lightning.cli.evaluate.course import Course
from synthstats_lightning.cli.evaluate.policy_argument import named_policy
from synthstats_lightning.cli.main import main
from synthstats_lightning.evaluation.entrants import Usage, WrittenProgram
from synthstats_lightning.evaluation.headline import headline
from synthstats_lightning.evaluation.kept import KeptMeasurements
from synthstats_lightning.evaluation.measurement import Measurement, summarise
from synthstats_lightning.evaluation.recorded import RecordedWriter
from synthstats_lightning.evaluation.units import Unit, all_units, dealt
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.rollouts.chat_writer import ChatSettings
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.terms.chat_endpoint import ChatError
from synthstats_lightning.tasks import SimulatedTask, baseline_program, task_prompt
from synthstats_lightning.tasks.proposal import looking
from tests.support.chat_server import serving

QUICK = [
    *("--settings.budgets=[2]", "--settings.points=3", "--settings.draws=50", "--settings.eig_candidates=0"),
    *("--settings.reference_instances=50", "--num_workers=1", "--environments", "death_process"),
]


def programs(path: Path) -> Path:
    """A run's programs: of two instances, with one that failed."""
    source = baseline_program(SimulatedTask("death_process"))
    lines: list[dict[str, Any]] = [
        {"task": "death_process/1", "source": source, "log_reward": -3.0, "log_prob": -9.0},
        {"task": "death_process/2", "source": source, "log_reward": -1.0, "log_prob": -8.0},
        {"task": "death_process/2", "source": "x = 1", "log_reward": -2.0, "log_prob": -7.0},
        {"task": "death_process/2", "source": "1 +", "log_reward": 5.0, "status": "syntax"},
        {"task": "dugongs", "source": "y", "log_reward": None},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_done_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = programs(tmp_path / "programs.jsonl")
    command = ["evaluate", f"--policy={given}", f"--output={tmp_path / 'out'}", *QUICK, "--num_programs=1"]
    first = main([*command, "--seeds", "1"])
    assert {item["seed"] for item in first["measurements"]} == {1}
    kept = (tmp_path / "out" / "measurements.jsonl").read_text()
    both = main([*command, "--seeds", "1", "2"])
    assert (tmp_path / "out" / "measurements.jsonl").read_text().startswith(kept)
    assert both["measurements"][: len(first["measurements"])] == first["measurements"]
    assert {item["seed"] for item in both["measurements"]} == {1, 2}
    captured = capsys.readouterr().err
    assert "1 of 2 instances are done already" in captured
    assert "death_process/2 is done; nothing is left to do" in captured
    # the only program is the baseline's own: nothing is gained, and nothing fails
    rows = both["table"]["death_process"]
    assert rows["policy_set"]["2"]["lpd_gain"] == pytest.approx(0.0, abs=1e-9)
    assert (rows["policy_set"]["2"]["failures"], rows["policy_set"]["2"]["runs"]) == (0, 2)
    assert both["headline"]["lpd_gain"] == rows["policy_set"]["2"]["lpd_gain"]
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text()) == json.loads(json.dumps(both))
    text = (tmp_path / "out" / "evaluation.md").read_text()
    assert "## death_process" in text
    assert "| policy_set | 2 |" in text
    with pytest.raises(SystemExit) as stop:
        main([*command[:-1], "--num_programs=2", "--seeds", "1"])
    assert stop.value.code == 2
    assert "num_programs is 1 there and 2 here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy=none.ckpt"], "policy must be a checkpoint, a .jsonl file of programs or one of tiny"),
        (["--policy=none.jsonl"], "no programs at none.jsonl"),
        (["--policy=programs.jsonl", "--environments", "emotion"], "policy has no programs for emotion"),
        (["--policy=programs.jsonl", "--seeds", "1", "1"], "seeds must be different numbers from 0"),
        (["--policy=empty"], "policy must hold a whole checkpoint, got the folder empty"),
        (["--policy=data.csv"], "got the file data.csv, which is no checkpoint"),
        (["--policy=foreign.ckpt"], "foreign.ckpt must be a checkpoint that `fit` has written"),
        (["--policy=other.jsonl"], "got those of dugongs"),
        (["--policy=openai:small"], "policy must be openai:MODEL@URL, got 'openai:small'"),
        (["--policy=openai:small@here"], "url must be that of a server, such as"),
        (["--policy=tiny", "--chat.temperature=0"], "chat is for policy openai:MODEL@URL, got policy 'tiny'"),
    ],
)
def test_wrong_arguments(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    programs(tmp_path / "programs.jsonl")
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.csv").write_text("x,y\n1,2\n")
    torch.save({"weights": 1}, tmp_path / "foreign.ckpt")
    record = ProgramRecord("dugongs", "a", Score(evidence=-40.0), 4.0, -3.0, -1.0)
    (tmp_path / "other.jsonl").write_text(record.to_json_line())
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", *arguments])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_programs_of_a_run(tmp_path: Path) -> None:
    writer = RecordedWriter(programs(tmp_path / "programs.jsonl"), 2)
    task = SimulatedTask("death_process", 7)
    assert writer(task, 7) == [
        WrittenProgram(baseline_program(task), -8.0),
        WrittenProgram("x = 1", -7.0),
    ]
    with pytest.raises(ValueError, match="holds no program for dugongs_simulator, only for death_process"):
        writer(SimulatedTask("dugongs_simulator"), 0)


def test_a_chat_model_writes_programs() -> None:
    task = SimulatedTask("death_process", 7)
    source = baseline_program(task)
    answers = {0: (200, f"```python\n{source}\n```"), 1: (401, "")}
    with serving(lambda number, body: answers[number]) as server:
        server.usage = {"prompt_tokens": 300, "completion_tokens": 40}
        given = f"openai:small@{server.url}"
        settings = ChatSettings(retries=0, at_once=1, temperature=0.5, max_tokens=100)
        found = named_policy(given, 2, settings)
        written = found.entrant(task, 7)
        with serving(lambda number, body: (401, "")) as other:
            silent = named_policy(f"openai:small@{other.url}", 2, settings)
            with pytest.raises(ChatError, match="status 401"):
                silent.entrant(task, 7)
    assert [(each.source.strip(), each.log_prob, each.complete) for each in written] == [
        (source.strip(), None, True),
        ("", None, False),
    ]
    assert found.entrant.usage == Usage(300, 40)
    assert found.entrant.most_tokens == 200
    asked = [message["content"] for message in server.bodies[0]["messages"]]
    assert asked == list(task_prompt(looking(task, "nothing", "full")))[:2]
    assert found.of == {
        "chat": f"small@{server.url}",
        "instructions": "full",
        "temperature": 0.5,
        "max_tokens": 100,
    }


def test_the_cost_of_a_chat_model_is_told_before(tmp_path: Path) -> None:
    units = all_units(["death_process"], [1, 2, 3])
    for limit, said in ((100, "3 instances: at most 1,200 tokens"), (None, "3 instances of any length;")):
        entrant = named_policy("openai:small@http://127.0.0.1:9", 4, ChatSettings(max_tokens=limit)).entrant
        kept = KeptMeasurements(tmp_path / f"{limit}.jsonl", {})
        assert Course(units, kept, entrant).estimate().startswith(said)
        kept.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_chat_model_that_stops_answering_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = baseline_program(SimulatedTask("death_process"))
    with serving(lambda number, body: (200, source) if number != 1 else (401, "")) as server:
        server.usage = {"prompt_tokens": 300, "completion_tokens": 40}
        command = ["evaluate", f"--policy=openai:small@{server.url}", f"--output={tmp_path}", *QUICK]
        command += ["--num_programs=1", "--seeds", "1", "2"]
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 1
        assert "does not answer: " in capsys.readouterr().err
        found = main(command)
    assert "1 of 2 instances are done already" in capsys.readouterr().err
    assert len(server.bodies) == 3
    rows = found["table"]["death_process"]
    assert rows["policy_set"]["2"]["lpd_gain"] == pytest.approx(0.0, abs=1e-9)
    assert (rows["policy_set"]["2"]["failures"], rows["policy_set"]["2"]["runs"]) == (0, 2)
    assert (found["cost"]["tokens_read"], found["cost"]["tokens_written"]) == (600, 80)


def measurement(seed: int, budget: int, gain: float, environment: str = "a") -> Measurement:
    return Measurement(environment, "policy_set", seed, budget, 1.0, -0.5, gain, None, 1, 0, 0, ("m",))


def test_a_torn_line_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    kept = KeptMeasurements(path, {"policy": {"model": "tiny"}, "settings": {"points": 3}})
    kept.add(Unit("a", 1), [measurement(1, 0, 0.25)], 2.0, Usage(10, 20))
    kept.add(Unit("a", 2), [measurement(2, 0, 0.5)], 4.0, Usage(10, 30))
    kept.close()
    whole = path.read_text()
    path.write_text(whole[:-9])
    again = KeptMeasurements(path, {"policy": {"model": "tiny"}, "settings": {"points": 3}})
    assert again.done == {Unit("a", 1): [measurement(1, 0, 0.25)]}
    assert (again.seconds, again.usage) == (2.0, Usage(10, 20))
    again.add(Unit("a", 2), [measurement(2, 0, 0.5)], 4.0, Usage(10, 30))
    again.close()
    assert path.read_text() == whole
    with pytest.raises(ValueError, match="settings: points is 3 there and 4 here"):
        KeptMeasurements(path, {"policy": {"model": "tiny"}, "settings": {"points": 4}})


def test_an_evaluation_that_measured_nothing_is_in_nobody_s_way(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    KeptMeasurements(path, {"policy": {"chat": "m@http://127.0.0.1:9/v1"}}).close()
    kept = KeptMeasurements(path, {"policy": {"model": "tiny"}})
    kept.add(Unit("a", 1), [measurement(1, 0, 0.25)], 2.0, Usage(10, 20))
    kept.close()
    assert Unit("a", 1) in KeptMeasurements(path, {"policy": {"model": "tiny"}}).done
    path.write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match="it does not say of what"):
        KeptMeasurements(path, {"policy": {"model": "tiny"}})


def test_pieces_are_dealt_once() -> None:
    units = all_units(["a", "b"], [1, 2, 3])
    shares = [dealt(units, rank, 4) for rank in range(4)]
    assert sorted(unit for share in shares for unit in share) == sorted(units)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_headline_is_after_the_largest_budget() -> None:
    found = [measurement(1, 2, 9.0), measurement(1, 10, 0.5), measurement(1, 10, 1.5, "b")]
    assert headline(summarise(found)) == {"lpd_gain": 1.0, "standardised_error": -0.5}
    assert headline({}) == {}
