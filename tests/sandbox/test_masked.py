"""Masks of missing values around a response whose rows without one have been left out."""

from __future__ import annotations

import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox import Sandbox

from tests.sandbox.conftest import COUNTS, COVARIATES, SCHEMA  # isort: skip

PROGRAM = """
y = MASK
with pm.Model() as model:
    m = pm.Exponential("m", 1.0)
    pm.LAW("y", m * age, observed=y)
"""
EMPTY = (
    "np.ma.masked_values(length, -1)",
    "np.ma.masked_equal(length, value=-999)",
    "np.ma.masked_invalid(length)",
)


@pytest.mark.parametrize("mask", EMPTY)
def test_codes_that_no_row_can_have_mask_nothing(sandbox: Sandbox, mask: str) -> None:
    program = PROGRAM.replace("LAW", "Poisson")
    plain = sandbox.build(program.replace("MASK", "length"), COUNTS, COVARIATES)
    assert sandbox.build(program.replace("MASK", mask), COUNTS, COVARIATES) == plain


@pytest.mark.parametrize(
    ("mask", "law", "error"),
    [
        ("np.ma.masked_values(length, 0)", "Poisson", "0 as a missing value of the response 'length'"),
        ("np.ma.masked_values(length, -1)", "StudentT", "-1 as a missing value"),
        ("np.ma.masked_values(length / 2, -1)", "Exponential", "may be used only as observed"),
        ("np.ma.masked_values(length, length[0])", "Poisson", "may be used only as observed"),
        ("np.ma.masked_greater(length, 3)", "Poisson", "may be used only as observed"),
        ("np.ma.masked_where(length == 3, length)", "Poisson", "may be used only as observed"),
    ],
)
def test_other_masks_would_leave_rows_out(sandbox: Sandbox, mask: str, law: str, error: str) -> None:
    schema = SCHEMA if law != "Poisson" else COUNTS
    with pytest.raises(ProgramFailure, match=error) as caught:
        sandbox.build(PROGRAM.replace("LAW", law).replace("MASK", mask), schema, COVARIATES)
    assert caught.value.category in (FailureCategory.UNSUPPORTED, FailureCategory.RAISED)
