"""Three shapes of lines, and what is imitated of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthstats_lightning.learning.warm_start.examples import read_examples
from synthstats_lightning.policy.encoding import Message
from synthstats_lightning.tasks import Prompt

PROMPTS = {"rods": Prompt("Rules.", "Rods.", data="1, 2")}
ASKED = {"role": "user", "content": "What?"}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "examples.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def answer(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_conversations_are_taken_as_they_are(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    whole = [system, ASKED, answer("A"), ASKED, answer("B")]
    first, second = read_examples(
        written(tmp_path, {"messages": whole, "origin": "me"}, "", {"messages": whole[1:3]}), {}
    ).examples
    assert first.messages == tuple(Message(**each) for each in whole)
    assert second.messages == (Message("user", "What?"), Message("assistant", "A"))
    assert (first.thinking, first.line, second.line) == (False, 1, 3)


@pytest.mark.parametrize(
    ("thoughts", "expected"), [("kept", "<think>\nHm.\n</think>\n\nx = 1"), ("stripped", "x = 1")]
)
def test_thoughts_are_kept_or_stripped(tmp_path: Path, thoughts: Any, expected: str) -> None:
    path = written(
        tmp_path,
        {"prompt": "What?", "reasoning_trace": "Hm.\n", "completion": "x = 1"},
        {"messages": [ASKED, answer("<think>\nHm.\n</think>\n\nx = 1")]},
        {"prompt": "What?", "completion": "x = 1"},
    )
    traced, tagged, plain = read_examples(path, {}, thoughts).examples
    assert traced.messages == tagged.messages == (Message("user", "What?"), Message("assistant", expected))
    assert traced.thinking is tagged.thinking is (thoughts == "kept")
    assert plain.messages[-1].content == "x = 1"
    assert plain.thinking is False


def test_programs_have_the_prompt_of_their_task_and_failed_ones_are_left_out(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"task": "rods", "source": "x = 1", "evidence": 2.0, "status": "scored"},
        {"source": "x = 2"},
        {"task": "rods", "source": "x = ", "status": "syntax"},
    )
    found = read_examples(path, PROMPTS)
    assert found.failed == 1
    assert [each.messages for each in found.examples] == [
        (Message("system", "Rules."), Message("user", "Rods.\n1, 2"), Message("assistant", f"x = {number}"))
        for number in (1, 2)
    ]
    assert found.examples[0].thinking is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 of .* is no JSON"),
        ({"text": "x"}, "line 1 of .*: must be an object with the keys messages, or prompt and completion"),
        ([1], "must be an object"),
        ({"messages": [ASKED]}, "messages must be of user and assistant in turn, got user"),
        ({"messages": []}, "in turn, got none"),
        ({"messages": [ASKED, ASKED, answer("A")]}, "in turn, got user, user, assistant"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "message 1 must have a role, one of system, user"),
        ({"messages": [ASKED, {"role": "assistant", "content": None}]}, "message 2 must have a role"),
        ({"prompt": "x", "completion": 3}, "completion, and reasoning_trace if there is one, must be texts"),
        ({"task": "other", "source": "x"}, "task 'other' is not one of this run's: rods"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_examples(written(tmp_path, line), PROMPTS)


def test_files_without_an_example_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no JSONL file of examples at nowhere"):
        read_examples("nowhere", {})
    failed = {"task": "rods", "source": "x", "status": "syntax"}
    with pytest.raises(ValueError, match=r"at least one example, got none \(1 programs without score\)"):
        read_examples(written(tmp_path, failed), PROMPTS)
