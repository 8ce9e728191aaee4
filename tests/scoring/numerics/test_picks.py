"""Picks along a last axis against PyTorch's own indexing."""

import pytest
import torch

from synthstats_lightning.scoring.numerics.picks import pick_last


@pytest.mark.parametrize("batch", [(), (4,), (3, 2)])
@pytest.mark.parametrize("picks", [(9,), (2, 3), (0,)])
def test_picks_and_gradients_are_those_of_torch(batch: tuple[int, ...], picks: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(*batch, 5, generator=generator, dtype=torch.float64)
    index = torch.randint(0, 5, picks, generator=generator)
    torch.testing.assert_close(pick_last(values, index), values[..., index])
    values.requires_grad_(True)
    weight = torch.randn(*batch, *picks, generator=generator, dtype=torch.float64)
    found, wanted = (
        torch.autograd.grad((each * weight).sum(), values)[0]
        for each in (pick_last(values, index), values[..., index])
    )
    torch.testing.assert_close(found, wanted)


def test_what_is_spread_out_or_of_another_kind_is_picked_as_it_is() -> None:
    index = torch.tensor([2, 0])
    spread = torch.arange(3.0).double().expand(4, 3)
    torch.testing.assert_close(pick_last(spread, index), spread[:, index])
    torch.testing.assert_close(pick_last(spread.mT[:, :3], index), spread.mT[:, index])
    assert pick_last(torch.tensor([[True, False, True]]), index).tolist() == [[True, True]]
    with torch.inference_mode():
        assert pick_last(torch.tensor([1.0, -torch.inf, torch.inf]), index).tolist() == [torch.inf, 1.0]
