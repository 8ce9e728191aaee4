"""Shares of forms are drawn whether the predictions of their programs came in time or not."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest

from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.reports.pictures import drawing
from synthstats_lightning.reports.pictures.drawing import draw_map, draw_models, draw_shares
from synthstats_lightning.reports.pictures.program_map import place
from synthstats_lightning.reports.pictures.task_pictures import DrawnMap, form_shares, task_pictures
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import TableTask, Task, understand

ROWS = 12
SHARES = (0.9, 0.0996, 0.0003, 0.0001)


@pytest.fixture
def task():
    data = {"x": np.linspace(0.0, 1.0, ROWS), "y": np.linspace(1.0, 2.0, ROWS)}
    return Task("made", "Made up.", data, "y")


@pytest.fixture
def forms(task):
    records = [
        ProgramRecord(
            "made",
            f"program {place}",
            Score(evidence=math.log(share), structure=f"{place}"),
            0.0,
            -2.0,
            -2.0,
            fresh=1,
        )
        for place, share in enumerate(SHARES)
    ]
    return RunPosterior.from_records("made", records, task=task).forms


def late_for(*sources):
    """Predictions that come in time for all programs but some."""

    def posterior(source, task, draws, rows):
        if source in sources:
            raise TimeoutError
        number = ROWS + (len(next(iter(rows.values()))) if rows else 0)
        noise = np.random.default_rng(0).normal(size=(1, draws, number))
        return PosteriorDraws({}, np.zeros((1, draws, number)), noise, "smc", 500.0, -1.0)

    return posterior


def pictures(task, forms, posterior):
    end = time.monotonic() + 60.0
    return task_pictures(task, forms, {"x": 1.0}, posterior, plotted=4, deadline=end)


def figure_of(found, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(drawing, "_save", lambda figure, path: drawn.append(figure))
    draw_models("made", found.models[0], found.shares, tmp_path / "posterior.png")
    return drawn[0]


def bars(axes):
    return [bar.get_width() for bar in axes.patches]


@pytest.mark.parametrize("late", [(), ("program 0",), ("program 0", "program 2", "program 3")])
def test_the_best_form_has_its_bar_and_one_of_nothing_has_none(task, forms, monkeypatch, tmp_path, late):
    found = pictures(task, forms, late_for(*late))
    figure = figure_of(found, monkeypatch, tmp_path)
    np.testing.assert_allclose(bars(figure.axes[-1]), SHARES[:2], atol=1e-9)
    title = figure.axes[0].get_title(loc="left")
    assert ("of the posterior" in title) == bool(late)
    if late:
        assert "10.0%" in title


def test_without_predictions_nothing_is_drawn_of_them(task, forms):
    found = pictures(task, forms, late_for(*(f"program {place}" for place in range(4))))
    assert found.models == ()
    assert [each.share for each in found.shares] == pytest.approx(SHARES[:2])


@pytest.mark.parametrize("levels", [2, 20])
def test_names_of_levels_do_not_overlap(levels, monkeypatch, tmp_path):
    names = [f"subject {100 + row % levels}" for row in range(80)]
    table = {"subject": names, "y": np.linspace(1.0, 2.0, 80).tolist()}
    task = TableTask(understand(table, "y"), name="made")
    record = ProgramRecord("made", "program 0", Score(evidence=-1.0, structure="a"), 0.0, -2.0, -2.0, fresh=1)
    forms = RunPosterior.from_records("made", [record], task=task).forms

    def posterior(source, task, draws, rows):
        number = 80 + (len(next(iter(rows.values()))) if rows else 0)
        noise = np.random.default_rng(0).normal(size=(1, draws, number))
        return PosteriorDraws({}, np.zeros((1, draws, number)), noise, "smc", 500.0, -1.0)

    end = time.monotonic() + 60.0
    found = task_pictures(task, forms, {"subject_code": 1.0}, posterior, plotted=1, deadline=end)
    figure = figure_of(found, monkeypatch, tmp_path)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) == levels
    assert all(left.x1 <= right.x0 + 1.0 for left, right in itertools.pairwise(boxes))


def test_forms_of_which_no_predictions_came_have_their_bars(task, forms, monkeypatch, tmp_path):
    found = pictures(task, forms, late_for(*(f"program {place}" for place in range(len(SHARES)))))
    assert found.models == ()
    assert found.shares == form_shares(forms, 4)
    drawn = []
    monkeypatch.setattr(drawing, "_save", lambda figure, path: drawn.append(figure))
    draw_shares("made", found.shares, tmp_path / "posterior.png")
    assert bars(drawn[0].axes[0]) == pytest.approx(SHARES[:2], rel=1e-3)


GRAPHS = [
    'with pm.Model():\n    a = pm.Normal("a", 0, 1)\n    pm.Normal("y", a, 1, observed=y)',
    'with pm.Model():\n    a = pm.Normal("a", 0, 1)\n    pm.Laplace("y", a, 1, observed=y)',
    'with pm.Model():\n    a = pm.Normal("a", 0, 1)\n    b = pm.Normal("b", 0, 1)\n'
    '    pm.Normal("y", a + b*x, 1, observed=y)',
]


@pytest.mark.parametrize(("seconds", "placed"), [(60.0, 3), (-1.0, None)])
def test_a_map_is_drawn_of_structures_that_have_places(task, seconds, placed):
    records = []
    with Sandbox() as sandbox:
        for source in GRAPHS:
            graph = parse_graph(sandbox.build(source, task.schema, task.covariates), task.schema)
            score = Score(evidence=-1.0, structure=source, graph=graph.to_record())
            records.append(ProgramRecord("made", source, score, 0.0, -2.0, -2.0, fresh=1))
    forms = RunPosterior.from_records("made", records, task=task).forms
    end = time.monotonic() + seconds
    found = task_pictures(task, forms, {"x": 1.0}, late_for(), plotted=4, deadline=end)
    if placed is None:
        assert found.search is None
        assert "the map of structures: the deadline came first" in found.left_out
    else:
        assert found.search is not None
        assert len(found.search.places.x) == len(found.search.shares) == placed


@pytest.mark.parametrize(("steps", "bars_of_colour"), [((0, 0, 0), 0), ((0, 1, 2), 1), ((0, None, 2), 0)])
def test_a_map_has_a_bar_of_colours_where_steps_differ(monkeypatch, tmp_path, steps, bars_of_colour):
    places = place(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]))
    drawn = []
    monkeypatch.setattr(drawing, "_save", lambda figure, path: drawn.append(figure))
    draw_map(DrawnMap(places, (0.5, 0.3, 0.2), ("a", "b", "c"), steps), tmp_path / "search.png")
    points, *others = drawn[0].axes
    assert points.collections[0].get_offsets()[:, 0].tolist() == pytest.approx(places.x.tolist())
    assert len(others) == bars_of_colour
    for axes in others:
        assert all(float(tick).is_integer() for tick in axes.get_yticks())
