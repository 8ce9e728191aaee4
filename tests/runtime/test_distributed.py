"""What ranks tell each other, put together."""

from typing import NamedTuple

from synthstats_lightning.runtime.distributed import added_up


class Sums(NamedTuple):
    programs: int
    seconds: float
    names: frozenset[str]
    failures: dict[str, int]
    tasks: dict[str, tuple[int, int]]


def test_parts_are_added_item_by_item():
    first = Sums(2, 0.5, frozenset("ab"), {"raised": 1}, {"x": (1, 2), "y": (3, 4)})
    second = Sums(3, 0.25, frozenset("bc"), {"raised": 2, "turns": 5}, {"y": (10, 20)})
    expected = Sums(5, 0.75, frozenset("abc"), {"raised": 3, "turns": 5}, {"x": (1, 2), "y": (13, 24)})
    assert added_up([first, second]) == expected
    assert added_up([first]) == first
