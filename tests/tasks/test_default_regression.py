"""The default regression of every kind of response: what it says, and that it scores."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import CSVTask, TableTask, Task, understand
from synthstats_lightning.tasks.default_regression import MAX_COVARIATES, default_regression

X = np.linspace(0.0, 10.0, 20)


def made(y, **more):
    return Task("t", "T.", {"x": X, "same": np.ones(20), "y": y}, "y", **more)


@pytest.mark.parametrize(
    ("y", "more", "response"),
    [
        (X + 0.5, {}, 'pm.Normal("y"'),
        (np.arange(20), {"response_kind": "count"}, 'pm.NegativeBinomial("y"'),
        (np.arange(20) % 2, {"response_kind": "binary"}, 'pm.Bernoulli("y"'),
        (np.arange(20) % 5, {"total": 9}, 'pm.Binomial("y", 9'),
    ],
)
def test_the_response_has_its_kind_of_distribution(y, more, response):
    source = default_regression(made(y, **more))
    assert response in source
    assert "b_x*(x - 5)" in source
    assert "same" not in source, "a column that does not vary is no regressor"
    compile(source, "regression", "exec")


def test_what_is_not_regressed_on():
    assert default_regression(Task("t", "T.", {"y": X}, "y")) is None
    total = Task("t", "T.", {"n": np.arange(20) + 9, "x": X, "y": np.arange(20) % 5}, "y", total="n")
    assert "b_n" not in default_regression(total)
    many = {f"x{number}": X * number for number in range(1, 20)}
    assert default_regression(Task("t", "T.", {**many, "y": X}, "y")).count(" - ") == MAX_COVARIATES


def test_names_of_parameters_are_no_columns():
    task = Task("t", "T.", {"b_0": X, "y": X}, "y")
    assert 'b__0 = pm.Normal("b__0"' in default_regression(task)


def test_categories_have_an_effect_a_level_and_exposures_are_offsets(tmp_path):
    path = tmp_path / "deaths.csv"
    rows = [f"{['north', 'south', 'west'][n % 3]},{1000 + 37 * n},{n % 7}" for n in range(21)]
    path.write_text("\n".join(["region,population,deaths", *rows]))
    task = CSVTask(path, "deaths", response_kind="count", roles={"population": "exposure"})
    source = default_regression(task)
    assert 'pm.Normal("b_region_code", 0, 1, shape=3)' in source
    assert "b_region_code[region_code]" in source
    assert "pt.log(population)" in source
    assert "b_population" not in source


def test_an_exposure_beside_a_total_is_a_covariate():
    data = {"weeks": [1.0, 2.0, 3.0, 4.0] * 5, "n": [20] * 20, "deaths": [0, 3, 7, 12] * 5}
    frame = {name: list(values) for name, values in data.items()}
    task = TableTask(understand(frame, "deaths", roles={"weeks": "exposure", "n": "total"}), "Deaths.")
    source = default_regression(task)
    assert "pt.log(" not in source
    assert 'b_weeks = pm.Normal("b_weeks"' in source
