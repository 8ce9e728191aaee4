"""The rules for models that follow instructions name all that the scorer's tables hold, and nothing else."""

from __future__ import annotations

import pytest

from synthstats_lightning import ReplayDataModule
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import REFUSED, FailureCategory
from synthstats_lightning.programs.laws import COMPOSITES
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.instructions import (
    FAILS,
    MADE_OF_THEM,
    PYMC_NAMES,
    RULES,
    distribution_names,
    full_rules,
)
from synthstats_lightning.tasks.proposal import looking

NOT_OF_THE_TEXT = {
    FailureCategory.TURNS,
    FailureCategory.EXPERIMENTS,
    FailureCategory.KILLED,
    FailureCategory.OUTPUT,
    FailureCategory.UNJUDGED,
}
"""Failures of episodes, of processes and of judges."""


def test_every_distribution_and_every_failure_is_named():
    named = [name for names in distribution_names().values() for name in names]
    assert len(named) == len(set(named))
    assert {PYMC_NAMES.get(name, name) for name in DISTRIBUTIONS} <= set(named)
    assert set(MADE_OF_THEM) == COMPOSITES
    assert set(FAILS) == set(FailureCategory) - NOT_OF_THE_TEXT
    text = full_rules()
    assert text.startswith(RULES)
    assert all(f"pm.{name} ({reason})" in text for name, reason in REFUSED.items())
    assert all(line in text for line in FAILS.values())
    assert len(text) < 3500  # below a thousand tokens


def test_both_prompts_begin_with_them_where_a_run_says_so():
    short, full = (ReplayDataModule(["dugongs"], instructions=kind) for kind in ("short", "full"))
    assert task_prompt(short.tasks[0]) == task_prompt(get_task("dugongs"))
    prompt = task_prompt(full.tasks[0])
    assert prompt.rules == prompt.prior.rules == full_rules()
    assert prompt.request == task_prompt(short.tasks[0]).request
    with pytest.raises(ValueError, match="instructions must be 'short' as in the checkpoint, got 'full'"):
        full.load_state_dict(short.state_dict())
    with pytest.raises(ValueError, match="instructions must be one of short, full, got 'long'"):
        looking(get_task("dugongs"), "nothing", "long")
