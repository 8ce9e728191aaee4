"""Bands against closed forms: which rows are predicted, where bands lie, what is held where."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from synthstats_lightning.reports.pictures.bands import MAX_PANELS, draw_bands, level_name, panel_design
from synthstats_lightning.reports.pictures.predictive_draws import (
    ResponseDraws,
    mixed_draws,
    program_draws,
)
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.intake import understand
from synthstats_lightning.tasks.table_task import TableTask

ROWS = 30


def made(kind="continuous", **more):
    random = np.random.default_rng(0)
    data = {
        "x": np.linspace(0.0, 3.0, ROWS),
        "z": np.linspace(10.0, 40.0, ROWS) ** 2,
        "group": np.arange(ROWS) % 3,
        "constant": np.ones(ROWS),
    }
    y = {
        "continuous": random.normal(size=ROWS),
        "binary": np.arange(ROWS) % 2,
        "count": random.poisson(3.0, ROWS),
    }
    return Task("made", "Made up.", {**data, "y": y[kind]}, "y", response_kind=kind, **more)


def drawn(task, design, function, number=400):
    """Draws around a function of the covariates, with standard deviation 1."""
    noise = np.random.default_rng(1)
    own, new = function(task.covariates), function(design.columns)
    return ResponseDraws(
        own + noise.normal(size=(number, ROWS)),
        np.zeros((number, ROWS)),
        new + noise.normal(size=(number, len(new))),
    )


def test_a_panel_a_covariate_with_the_others_at_their_medians():
    task = made()
    design = panel_design(task, ["x", "z", "constant"])
    assert {each.axis for each in design.slices} == {"x", "z"}, "a constant column has no panel"
    (along,) = (each for each in design.slices if each.axis == "x")
    assert (design.columns["z"][along.rows] == np.median(task.data["z"])).all()
    assert design.columns["x"][along.rows][[0, -1]].tolist() == [0.0, 3.0]
    assert set(design.columns["group"]) == {1}, "a whole number is held at one that occurs"
    bands = draw_bands(task, design, drawn(task, design, lambda data: 5.0 * data["x"]))
    first = bands.panels[0].curves[0]
    # the quantiles of a normal distribution, ± four standard errors of 400 draws
    assert first.middle == pytest.approx(5.0 * first.x, abs=0.26)
    assert first.high - first.middle == pytest.approx(1.645, abs=0.55)
    assert "x 1.5" in bands.held


def test_groups_have_a_colour_each():
    task = made()
    design = panel_design(task, ["x", "group"])
    assert design.group == "group"
    bands = draw_bands(task, design, drawn(task, design, lambda data: 10.0 * data["group"]))
    along_x, along_group = bands.panels
    assert [curve.label for curve in along_x.curves] == ["0", "1", "2"]
    for level, curve in enumerate(along_x.curves):
        assert curve.middle == pytest.approx(10.0 * level, abs=0.3)
    assert [len(cloud.y) for cloud in along_x.clouds] == [10, 10, 10]
    assert along_group.ticks == ("0", "1", "2")
    assert len(along_group.curves) == 1


def test_a_column_of_few_levels_alone_is_an_axis_and_no_group():
    design = panel_design(made(), ["group"])
    assert design.group == ""
    assert design.columns["group"].tolist() == [0, 1, 2]


def test_panels_are_limited():
    data = {f"x{number}": np.random.default_rng(number).normal(size=9) for number in range(9)}
    task = Task("many", "Many.", {**data, "y": np.arange(9.0)}, "y")
    assert len({each.axis for each in panel_design(task, list(data)).slices}) == MAX_PANELS


def test_without_new_rows_the_rows_have_their_own_predictions():
    task = made()
    none = panel_design(task, [])
    draws = ResponseDraws(np.tile(task.data["y"], (9, 1)), np.zeros((9, ROWS)), np.zeros((9, 0)))
    bands = draw_bands(task, none, draws)
    assert bands.panels[0].axis == "row"
    assert bands.panels[0].curves[0].middle == pytest.approx(task.data["y"])
    along = draw_bands(task, panel_design(task, ["x"]), draws)
    assert along.panels[0].axis == "x"


def test_counts_out_of_a_total_are_shares_of_it():
    total = np.full(ROWS, 20)
    task = Task(
        "t", "T.", {"n": total, "x": np.arange(float(ROWS)), "y": np.arange(ROWS) % 7}, "y", total="n"
    )
    design = panel_design(task, ["n", "x"])
    assert {each.axis for each in design.slices} == {"x"}
    bands = draw_bands(task, design, drawn(task, design, lambda data: 0.0 * data["x"] + 10.0))
    assert bands.response == "share of y"
    assert bands.panels[0].curves[0].middle == pytest.approx(0.5, abs=0.02)
    assert bands.panels[0].clouds[0].y == pytest.approx((np.arange(ROWS) % 7) / 20)


def test_of_a_binary_response_new_rows_have_probabilities():
    task = made("binary")
    design = panel_design(task, ["x"])

    def posterior(source, asked, draws, rows):
        length = asked.num_rows + (0 if rows is None else len(rows["x"]))
        # of a response of 0, the smallest
        return PosteriorDraws(
            {}, np.log(np.full((1, draws, length), 0.25)), np.zeros((1, draws, length)), "", 9.0, 0.0
        )

    found = program_draws(posterior, "source", task, design.columns)
    assert found.own.shape[1] == found.log_likelihood.shape[1] == ROWS
    assert found.new == pytest.approx(0.75)
    assert program_draws(posterior, "source", task).new.shape[1] == 0


def test_a_mixture_has_each_programs_share_of_draws():
    parts = [ResponseDraws(*(np.full((1000, 2), float(value)),) * 3) for value in range(3)]
    mixed = mixed_draws(parts, [0.2, 0.05, 0.15])
    assert len(mixed.own) == 1000
    assert np.bincount(mixed.own[:, 0].astype(int)).tolist() == [500, 125, 375]


def test_of_a_category_with_many_levels_colours_show_the_commonest():
    random = np.random.default_rng(0)
    names = [f"firm {letter}" for letter in "ABCDEFGHIJ"]
    firm = [names[number % 10] for number in range(40)] + [names[9]] * 5
    table = pd.DataFrame({"firm": firm, "x": random.normal(size=45), "y": random.normal(size=45)})
    task = TableTask(understand(table, "y"))
    design = panel_design(task, ["x", "firm_code"])
    assert design.group == "firm_code"
    along_x = [each.level for each in design.slices if each.axis == "x"]
    assert along_x == [0, 1, 2, 3, 4, 5, 6, 9]
    along_firm = next(each for each in design.slices if each.axis == "firm_code")
    assert len(along_firm.x) == 10
    assert design.columns["firm_code"].dtype == np.int64, "programs take it as a place in a vector"
    assert level_name(task, "firm_code", 9.0) == "firm J"


def test_in_a_group_other_columns_are_at_the_groups_own_medians():
    task = made()
    design = panel_design(task, ["x", "z", "group"])
    z = {level: np.median(task.data["z"][task.data["group"] == level]) for level in range(3)}
    for each in design.slices:
        if each.axis == "x":
            assert set(design.columns["z"][each.rows]) == {z[int(each.level)]}
        if each.axis == "group":
            assert design.columns["z"][each.rows].tolist() == [z[0], z[1], z[2]]
