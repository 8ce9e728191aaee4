"""A digest that sounds like fewer rows, against that of the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import TableTask, understand
from synthstats_lightning.tasks.digest import Digest, task_digest
from synthstats_lightning.tasks.digest.fewer_rows import as_of_fewer_rows

RNG = np.random.default_rng(4)
ROWS = 120
X, Z = RNG.normal(size=ROWS), RNG.uniform(1, 3, ROWS)
G = RNG.integers(0, 6, ROWS)
Y = 3.0 + 0.4 * X + 2.0 * np.log(Z) + np.array([0.3, -0.2, 0.5, 0.0, -0.4, 0.1])[G] + RNG.normal(0, 0.8, ROWS)


def digest_of(times: int) -> Digest:
    """Of the same rows so many times over."""
    columns = {"y": Y, "x": X, "z": Z, "site": np.array(list("abcdef"))[G]}
    table = {name: np.tile(column, times).tolist() for name, column in columns.items()}
    found = task_digest(TableTask(understand(table, "y"), "copies"))
    assert found is not None
    return found


def test_copies_sound_like_the_rows_themselves() -> None:
    once, often = digest_of(1), digest_of(16)
    assert often.rows == 16 * once.rows
    told = as_of_fewer_rows(often, once.rows)
    assert once.regression is not None
    assert told.regression is not None
    for name, t in once.regression.items():
        assert told.regression[name] == pytest.approx(t, rel=0.05, abs=0.1)
        assert abs(often.regression[name]) > 3 * abs(t)
    assert once.residuals is not None
    assert told.residuals is not None
    for name, behind in once.residuals.families.items():
        # of more rows the regression keeps more
        assert told.residuals.families[name] == pytest.approx(behind, rel=0.5, abs=0.3)
    assert told.residuals.deviation == pytest.approx(once.residuals.deviation, rel=0.05)
    (group,), (other,) = once.groups, told.groups
    # copies repeat the noise, too, which others of the kind would not
    assert other.f == pytest.approx(group.f, rel=0.4)
    gains = {each.name: each.gain for each in once.scan}
    for each in told.scan:
        # less half a log of the rows for each parameter, which does not grow with them
        assert each.gain == pytest.approx(gains[each.name], rel=0.1, abs=4.0)


def test_few_rows_stay_as_they_are_and_none_are_refused() -> None:
    found = digest_of(1)
    assert as_of_fewer_rows(found, ROWS) is found
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        as_of_fewer_rows(found, 0)
