"""The bundled real data sets: published values, and what a prompt says of them."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import (
    EightSchools,
    Peregrines,
    Surgical,
    baseline_program,
    get_task,
    task_prompt,
)


def numbers(text):
    return [float(value) for value in text.replace(",", " ").split()]


EFFECTS = numbers("28 8 -3 7 -1 1 18 12")
ERRORS = numbers("15 10 16 11 9 11 10 18")
OPERATIONS = numbers("47 148 119 810 211 196 148 215 207 97 256 360")
DEATHS = numbers("0 18 8 46 8 13 9 31 14 8 29 24")
PAIRS = numbers(
    "34, 45, 39, 36, 20, 18, 21, 20, 17, 20, 23, 27, 29, 39, 43, 47, 57, 56, 63, 70, 82, 90, 95, 107, 114,"
    " 121, 132, 134, 143, 150, 154, 172, 163, 164, 161, 137, 157, 153, 191, 193"
)


def test_eight_schools_are_the_published_values():
    task = get_task("eight_schools")
    np.testing.assert_array_equal(task.data["effect"], EFFECTS)
    np.testing.assert_array_equal(task.data["standard_error"], ERRORS)
    np.testing.assert_array_equal(task.data["school"], np.arange(8))
    assert task.schema.columns == {"school": "int64", "standard_error": "float64"}
    assert task.schema.response_dtype == "float64"


def test_surgical_is_the_published_values():
    task = get_task("surgical")
    np.testing.assert_array_equal(task.data["operations"], OPERATIONS)
    np.testing.assert_array_equal(task.data["deaths"], DEATHS)
    np.testing.assert_array_equal(task.data["hospital"], np.arange(12))
    assert task.total == "operations"
    assert "out of operations" in task_prompt(task).request
    assert 'pm.Binomial("deaths", operations, p, observed=deaths)' in baseline_program(task)


def test_peregrines_are_the_published_values():
    task = get_task("peregrines")
    np.testing.assert_array_equal(task.data["adult_pairs"], PAIRS)
    np.testing.assert_array_equal(task.data["year"], np.arange(1964, 2004))
    time = task.data["time"]
    assert time.mean() == pytest.approx(0.0, abs=1e-6)
    assert time.std(ddof=1) == pytest.approx(1.0, abs=1e-5)
    assert time[0] == pytest.approx(-1.668, abs=1e-3)
    assert list(Peregrines(standardised_year=False).covariates) == ["year"]


@pytest.mark.parametrize("make", [EightSchools, Surgical, Peregrines])
def test_without_domain_knowledge_no_word_of_the_domain_is_left(make):
    task, plain = make(), make(domain_knowledge=False)
    words = {word for name in task.data for word in name.split("_")}
    words |= {
        word for word in task.description.lower().replace(",", "").replace(".", "").split() if len(word) > 4
    }
    words -= {"known", "standard", "errors"}
    request = task_prompt(plain).request.lower()
    assert not [word for word in words if word in request.split()], request
    assert plain.response == "y"
    assert set(plain.column_names.values()) == set(plain.data)
    for name, values in task.data.items():
        np.testing.assert_array_equal(plain.data[plain.column_names[name]], values)
    assert plain.fingerprint != task.fingerprint
    compile(baseline_program(plain), "baseline", "exec")
