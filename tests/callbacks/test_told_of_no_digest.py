"""A run whose policy was made to read a digest says so where its prompts show none."""

from __future__ import annotations

import pytest

from synthstats_lightning import load_policy
from synthstats_lightning.callbacks import run_parts
from synthstats_lightning.replay import ReplayBuffer
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking


@pytest.mark.parametrize(
    ("policy", "proposal", "said"),
    [("writer", "nothing", True), ("writer", "digest", False), ("tiny", "nothing", False)],
)
def test_it_is_said_of_a_reader_that_is_shown_nothing(
    policy: str, proposal: str, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(run_parts, "rank_zero_info", lines.append)
    tasks = [looking(get_task("dugongs"), proposal)]
    prompts = [task_prompt(task) for task in tasks]
    run_parts.register_prompts(
        ReplayBuffer(recent=1, capacity=1), tasks, prompts, load_policy(policy, lora=None)
    )
    assert len(lines) == said
    assert all(word in line for line in lines for word in ("'writer'", "'dugongs'", "`proposal: digest`"))
