"""Prompts that leave no room for a program are refused in words; many columns are warned of."""

from types import SimpleNamespace

import numpy as np
import pytest

from synthstats_lightning import GFlowNetModule, TableTask, understand
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.policy.prompt_room import (
    PromptTooLongError,
    UnreadableDataError,
    check_reads_data,
    check_room,
    too_many_covariates,
)
from synthstats_lightning.pretraining.datasets import MAX_COVARIATES
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking


def test_a_prompt_needs_room_for_a_program():
    config = SimpleNamespace(max_position_embeddings=100)
    check_room(config, "p", [[0] * 36], ["Plants."], 160)
    check_room(config, "p", [[0] * 90], ["Plants."], 10)
    check_room(SimpleNamespace(), "p", [[0] * 9000], ["Plants."], 10)
    with pytest.raises(
        PromptTooLongError, match=r"prompt 'Plants\.'\.\.\. takes 37 of the 100 tokens of policy 'p'"
    ):
        check_room(config, "p", [[0] * 9, [0] * 37], ["Trees.", "Plants."], 160)


def test_thirty_columns_are_refused_by_the_tiny_policy_and_screened_ones_are_not():
    rng = np.random.default_rng(0)
    cells = {f"measurement_{place}": rng.normal(size=20).tolist() for place in range(30)}
    cells["y"] = rng.normal(size=20).tolist()
    module = GFlowNetModule(policy="tiny", tasks=["table"])
    module.configure_model()
    settings = SamplingSettings(max_new_tokens=8)
    with pytest.raises(PromptTooLongError, match=r"`screen: 8`"):
        module.sample([task_prompt(TableTask(understand(cells, "y")))], 1, settings, 0)
    task = TableTask(understand(cells, "y", screen=3))
    assert len(module.sample([task_prompt(task)], 1, settings, 0).sources) == 1
    config = module.loaded_policy.language_model.config
    assert config.max_covariates == MAX_COVARIATES
    assert too_many_covariates(config, "tiny", "t", 3) == ""
    assert "has 30 covariates, and policy 'tiny' was made for at most 3" in too_many_covariates(
        config, "tiny", "t", 30
    )
    assert too_many_covariates(SimpleNamespace(), "large", "t", 30) == ""


def test_a_policy_that_was_made_without_data_is_shown_none():
    module = GFlowNetModule(policy="tiny", tasks=["dugongs"])
    module.configure_model()
    task = get_task("dugongs")
    for proposal in ("rows", "digest"):
        prompt = task_prompt(looking(task, proposal))
        with pytest.raises(
            UnreadableDataError,
            match="proposal must be 'nothing', and proposal_examples 0, for policy 'tiny'",
        ):
            module.sample([prompt], 1, SamplingSettings(max_new_tokens=8), 0)
    check_reads_data(SimpleNamespace(), "large", True)
    check_reads_data(SimpleNamespace(reads_data=True), "large", True)
    check_reads_data(SimpleNamespace(reads_data=False), "small", False)
