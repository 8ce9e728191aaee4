"""Prompts and programs of unlike lengths: rows are read without a gap, and padding changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from synthstats_lightning.policy import Policy, hidden
from synthstats_lightning.policy.hidden import pad_left, pad_right
from tests.policy.conftest import awaken

PROMPTS = [[1, 10, 11, 12, 13, 14, 2], [1, 20, 2], [1, 30, 31, 2]]
PROGRAMS = [[40, 3], [50, 51, 52, 53, 54, 55, 56, 3], [60, 61, 62, 3]]


def test_log_probs_are_those_of_rows_alone_and_no_row_is_wider_than_the_longest(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaken(policy)
    seen: list[tuple[int, ...]] = []
    real = hidden.run_backbone

    def watched(backbone: Any, ids: torch.Tensor, mask: Any, *more: Any, **named: Any) -> torch.Tensor:
        seen.append(tuple(ids.shape))
        assert mask is None
        return real(backbone, ids, mask, *more, **named)

    monkeypatch.setattr(hidden, "run_backbone", watched)
    prompt_ids, prompt_mask = pad_left(PROMPTS, policy.pad_token_id)
    program_ids, program_mask = pad_right(PROGRAMS, policy.pad_token_id)
    found = policy.token_log_probs(prompt_ids, program_ids, program_mask, prompt_mask)
    # the longest prompt has the shortest program: 7 + 2, 3 + 8, 4 + 4 tokens, the last of which is not read
    assert seen == [(3, 10)]
    alone = [
        policy.token_log_probs(
            torch.tensor([prompt]), torch.tensor([program]), torch.ones(1, len(program), dtype=torch.bool)
        )[0]
        for prompt, program in zip(PROMPTS, PROGRAMS, strict=True)
    ]
    for row, expected in zip(found, alone, strict=True):
        torch.testing.assert_close(row[: len(expected)], expected, rtol=1e-5, atol=1e-5)
        assert not row[len(expected) :].any()
    trained = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    together = torch.autograd.grad(found.sum(), trained)
    apart = torch.autograd.grad(torch.cat(alone).sum(), trained)
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_an_environment_writes_is_read_though_it_is_not_counted(policy: Policy) -> None:
    prompt_ids, prompt_mask = pad_left(PROMPTS[:2], policy.pad_token_id)
    program_ids, program_mask = pad_right(PROGRAMS[1:], policy.pad_token_id)
    own = program_mask.clone()
    own[0, 2:4] = own[1, 3:] = False  # of the second row the last token is not the policy's
    whole = policy.token_log_probs(prompt_ids, program_ids, program_mask, prompt_mask)
    some = policy.token_log_probs(prompt_ids, program_ids, program_mask, prompt_mask, own_mask=own)
    torch.testing.assert_close(some, whole.masked_fill(~own, 0.0), rtol=1e-5, atol=1e-5)
