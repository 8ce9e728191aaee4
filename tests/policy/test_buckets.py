"""Length buckets: every row once, less padding, the same log-probabilities and gradients."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import policy as policy_module
from synthstats_lightning.policy.buckets import MIN_ROWS, length_buckets


def test_every_row_once_and_less_padding() -> None:
    lengths = torch.randint(5, 100, (64,), generator=torch.Generator().manual_seed(0))
    groups = length_buckets(lengths)
    assert sorted(torch.cat(groups).tolist()) == list(range(64))
    assert len(groups) > 1
    padded = sum(len(group) * int(lengths[group].max()) for group in groups)
    assert int(lengths.sum()) <= padded <= 0.9 * 64 * int(lengths.max())


@pytest.mark.parametrize("lengths", [[7] * 64, list(range(1, 2 * MIN_ROWS)), [3]])
def test_one_group_where_more_save_nothing(lengths: list[int]) -> None:
    groups = length_buckets(torch.tensor(lengths))
    assert [group.tolist() for group in groups] == [list(range(len(lengths)))]


def test_log_probs_and_gradients_do_not_change(policy, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(1)
    rows, width = 40, 24
    vocabulary = policy.language_model.config.vocab_size
    prompts = torch.randint(4, vocabulary, (2, 6), generator=generator)[torch.arange(rows) % 2]
    programs = torch.randint(4, vocabulary, (rows, width), generator=generator)
    lengths = torch.cat([torch.full((rows - 3,), 5), torch.tensor([width, width - 1, 11])])
    mask = torch.arange(width) < lengths[:, None]
    weights = torch.linspace(-1, 1, rows)
    assert len(length_buckets(lengths)) > 1

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        policy.zero_grad()
        log_prob = policy.program_log_probs(prompts, programs, mask)
        (log_prob * weights).sum().backward()
        return log_prob.detach(), torch.cat(
            [p.grad.flatten() for p in policy.parameters() if p.grad is not None]
        )

    grouped = run()
    monkeypatch.setattr(policy_module, "length_buckets", lambda lengths: [torch.arange(len(lengths))])
    whole = run()
    torch.testing.assert_close(grouped[0], whole[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grouped[1], whole[1], rtol=1e-4, atol=1e-5)
