from itertools import combinations

import numpy as np
import pytest
import torch

from synthstats_lightning.metrics import PrefixCollapse, prefix_codes


def padded(rows):
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return ids, torch.tensor([[True] * len(row) + [False] * (width - len(row)) for row in rows])


def test_share_of_equal_pairs_by_counting_pairs():
    generator = np.random.default_rng(0)
    rows = [generator.integers(3, size=generator.integers(1, 8)).tolist() for _ in range(60)]
    task = generator.integers(2, size=60)
    lengths = (1, 2, 4)
    metric = PrefixCollapse(lengths)
    for part in np.array_split(np.arange(60), 3):
        metric.update(*padded([rows[i] for i in part]), torch.from_numpy(task[part]))
    for length, found in zip(lengths, metric.compute(), strict=True):
        expected = [
            np.mean(
                [
                    rows[a][:length] == rows[b][:length]
                    for a, b in combinations(np.flatnonzero(task == index), 2)
                ]
            )
            for index in range(2)
        ]
        assert float(found) == pytest.approx(np.mean(expected))


def test_codes_tell_a_short_program_from_one_that_goes_on_with_token_zero():
    ids, mask = padded([[5], [5, 0], [5, 0, 7], [5, 0, 8]])
    assert len(set(prefix_codes(ids, mask, 2).tolist())) == 2
    assert len(set(prefix_codes(ids, mask, 9).tolist())) == 4


def test_one_program_has_no_pair():
    metric = PrefixCollapse((2,))
    metric.update(*padded([[1, 2, 3]]), torch.tensor([0]))
    assert torch.isnan(metric.compute()).all()
    with pytest.raises(ValueError, match="lengths must be numbers of at least 1"):
        PrefixCollapse(())
