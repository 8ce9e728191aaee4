from __future__ import annotations

import pytest

from synthstats_lightning.runtime.cores import Place, core_share, own_cores, scoring_workers, this_place


def places(*cores, machines=None):
    names = machines or ["here"] * len(cores)
    return [Place(name, frozenset(own)) for name, own in zip(names, cores, strict=True)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (places(range(16)), [16]),
        (places(range(16), range(16)), [8, 8]),  # torchrun: nothing bound
        (places(range(8), range(8, 16)), [8, 8]),  # SLURM: bound to cores of their own
        (places(range(16), range(16), machines=["a", "b"]), [16, 16]),
        (places(range(16), range(16), range(16), machines=["a", "a", "b"]), [8, 8, 16]),
        (places(range(2), range(2), range(2)), [1, 1, 1]),  # never none
        (places(range(6), range(3)), [4, 1]),  # three cores alone and three halves; three halves
        (places(range(3), range(3), range(3)), [1, 1, 1]),
    ],
)
def test_each_core_is_split_among_those_that_may_use_it(given, expected):
    assert [core_share(given, rank) for rank in range(len(given))] == expected


def test_one_process_has_all_that_it_may_use():
    assert own_cores() == len(this_place().cores)


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (16, 15)])
def test_the_trainer_keeps_a_core(cores, workers):
    assert scoring_workers(cores) == workers
