"""The command that makes the perceptrons of the screen, and the data sets that it simulates."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from synthstats_lightning.learning.screen import load_perceptrons
from synthstats_lightning.learning.screen.screening import shipped
from synthstats_lightning.pretraining.datasets import MadeUpData
from synthstats_lightning.pretraining.screen.__main__ import main
from synthstats_lightning.pretraining.screen.simulation import (
    accepted_task,
    covariate_values,
    request,
    simulated,
)
from synthstats_lightning.tasks.columns import Column


@pytest.mark.slow
def test_the_command_writes_perceptrons_that_read_like_the_shipped_ones(tmp_path, capsys):
    path = tmp_path / "few.npz"
    main(["--output", str(path), "--data_sets", "110", "--fit.steps", "60", "--fit.width", "8"])
    found, known = load_perceptrons(path), shipped()
    assert found.keys() == known.keys()
    for name, each in found.items():
        assert each.shift.shape == known[name].shift.shape
        probabilities = np.exp(list(each.log_probs(each.shift).values()))
        assert probabilities.sum() == pytest.approx(1.0)
    assert "held-out cross-entropy" in capsys.readouterr().out


def test_the_shipped_ones_gain_on_data_sets_that_they_have_not_seen():
    known, gains = shipped(), []
    for each in itertools.islice(simulated(Random(987), 6), 400):
        if not each.accepted:
            continue
        gain = 0.0
        for question in ("family", "spread"):
            seen = known[question].log_probs(each.inputs.digest)
            blind = known[f"{question}_blind"].log_probs(each.inputs.request)
            gain += seen[each.classes[question]] - blind[each.classes[question]]
        for name, (request_only, both) in each.inputs.columns.items():
            own = each.classes[f"part {name}"]
            gain += known["part"].log_probs(both)[own] - known["part_blind"].log_probs(request_only)[own]
        gains.append(gain)
    assert len(gains) > 35
    assert np.mean(gains) - 2 * np.std(gains) / np.sqrt(len(gains)) > 0.2


def test_covariates_fill_their_ranges():
    rng, generator = Random(3), np.random.default_rng(3)
    for _ in range(40):
        data = request(rng)
        values = covariate_values(rng, generator, data)
        for column in data.covariates:
            own = values[column.name]
            assert own.shape == (data.num_rows,)
            assert column.low <= own.min() <= own.max() <= column.high
            if column.kind != "continuous":
                assert (own == np.rint(own)).all()


def test_acceptance_goes_by_the_ends_of_the_response_alone():
    x = np.linspace(0.0, 1.0, 20)
    data = MadeUpData("", (Column("x", "continuous", 0.0, 1.0),), Column("y", "continuous", 2.0, 4.0), 20)

    def accepted(low, high):
        return accepted_task(data, {"x": x}, np.linspace(low, high, 20)) is not None

    assert accepted(2.0, 4.0)
    assert accepted(1.01, 4.99)
    assert not accepted(0.9, 4.0)
    assert not accepted(2.0, 5.1)
    assert not accepted(3.0, 3.0)
