"""What a class that defines a distribution must and must not say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from synthstats_lightning.programs.distribution import Domain, Support, entry
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.base import REGISTERED, Definition, Distribution, register

HOOKS: dict[str, Callable[..., torch.Tensor]] = dict.fromkeys(
    ("inside", "log_kernel", "sample"), lambda *arguments: torch.zeros(())
)


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("Nowhere", HOOKS, "Nowhere has no entry in programs.distributions"),
        ("Normal", HOOKS, "distribution Normal is defined twice"),
        ("Normal", {**HOOKS, "log_kernal": None}, r"Normal defines \['log_kernal'\]"),
    ],
)
def test_definitions_that_do_not_fit(name: str, attributes: dict[str, object], message: str) -> None:
    before = dict(REGISTERED)
    with pytest.raises(TypeError, match=message):
        type(name, (Definition,), dict(attributes))
    assert before == REGISTERED


def test_an_entry_that_is_wrong_about_the_distribution_function() -> None:
    wrong = Distribution(entry("Wrong", {"mu": Domain.REAL}, Support.REAL, has_cdf=True), **HOOKS)
    with pytest.raises(TypeError, match="has_cdf is True in its entry, log_cdf says False"):
        register(wrong)
    assert "Wrong" not in REGISTERED


def test_other_spellings_are_not_in_the_table() -> None:
    spelling = entry("NormalByPrecision", {"mu": Domain.REAL, "tau": Domain.POSITIVE}, Support.REAL)
    made = type("NormalByPrecision", (Definition,), dict(HOOKS), entry=spelling)
    assert made.distribution.name == "NormalByPrecision"
    assert made.distribution.name not in REGISTERED
    assert dict(DISTRIBUTIONS) == REGISTERED
