"""`filter`: which programs of a run become examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthstats_lightning import DemonstrationDataModule
from synthstats_lightning.cli.main import main
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import get_task, task_prompt


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Programs of three forms: `a` has most of the posterior, `c` very little."""
    folder = tmp_path / "run"
    folder.mkdir()
    records = [
        ProgramRecord(
            "dugongs", f"{form}{number}", Score(evidence=evidence - number, structure=form), 0.0, -1.0, -1.0
        )
        for form, evidence in (("a", 10.0), ("b", 8.0), ("c", 3.0))
        for number in range(4)
    ]
    same = {"canonical": "one", "structure": "a"}
    records += [
        ProgramRecord("dugongs", "a text", Score(evidence=20.0, **same), 0.0, -1.0, -9.0),
        ProgramRecord("dugongs", "its likelier text", Score(evidence=20.0, **same), 0.0, -1.0, -8.0),
        ProgramRecord("dugongs", "failed", Score.failed(FailureCategory.SYNTAX, "no"), 0.0, -1.0, -1.0),
    ]
    (folder / "programs.jsonl").write_text("".join(record.to_json_line() for record in records))
    (folder / "config.yaml").write_text("data: {init_args: {tasks: [dugongs]}}")
    return folder


def written(run: Path, *more: str) -> list[dict[str, Any]]:
    output = run.parent / "examples.jsonl"
    main(["filter", str(run), "--output", str(output), *more])
    return [json.loads(line) for line in output.read_text().splitlines()]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("evidence", ["its likelier text", "a0", "a1", "a2", "b0", "a3"]),
        ("form", ["its likelier text", "a0", "b0", "b1", "c0", "c1"]),
        ("share", ["its likelier text", "a0", "a1", "a2", "b0", "a3"]),
    ],
)
def test_which_are_chosen(run: Path, by: str, expected: list[str]) -> None:
    lines = written(run, "--number", "6", "--by", by)
    assert [line["source"] for line in lines] == expected
    assert {line["task"] for line in lines} == {"dugongs"}
    assert lines[0]["evidence"] == 20.0


def test_they_can_be_imitated_as_programs_and_as_conversations(run: Path) -> None:
    prompt = task_prompt(get_task("dugongs"))
    found = []
    for more in ([], ["--messages", "true"]):
        written(run, "--number", "3", *more)
        module = DemonstrationDataModule(str(run.parent / "examples.jsonl"), validation_share=0.0, seed=1)
        found.append([example.messages for example in module.training])
    assert found[0] == found[1]
    system, user, _ = found[0][0]
    assert (system.content, user.content) == (prompt.rules, prompt.request)


def test_wrong_arguments_are_one_line(run: Path, tmp_path: Path, capsys: Any) -> None:
    output = ["--output", str(tmp_path / "out.jsonl")]
    for arguments, message in (
        (["filter", "nowhere", *output], "no run at nowhere"),
        (["filter", str(run), *output, "--number", "0"], "number must be at least 1, got 0"),
        (["filter", str(run), "--output", str(tmp_path)], "cannot be written"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
