"""A digest as a whole: what it is computed from, what it leaves out, and what it says of awkward data."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import TableTask, Task, task_prompt, understand
from synthstats_lightning.tasks.digest import SECTIONS, digest_text, task_digest
from synthstats_lightning.tasks.proposal import looking


def table(rows=60, **columns):
    rng = np.random.default_rng(3)
    age, height = rng.uniform(1, 30, rows), rng.normal(170, 10, rows)
    clinic = rng.integers(0, 5, rows)
    known = {"age": age, "height": height, "clinic": clinic}
    y = 2 + 0.5 * np.log(age) + 0.3 * clinic + rng.normal(0, 0.1, rows)
    return {**known, "y": np.round(y, 3), **columns}


def test_it_finds_what_made_the_data_and_says_so():
    digest = task_digest(Task("t", "T.", table(), "y"))
    by_name = {scan.name: scan for scan in digest.scan}
    assert by_name["age"].best == "log"
    assert by_name["age"].gain > 30
    assert by_name["height"].gain < 3
    assert abs(digest.regression["clinic"]) > 5
    (groups,) = digest.groups
    assert (groups.name, groups.slope_of) == ("clinic", "age")
    assert groups.f > 10
    assert digest.recording.spacing == 0.001
    text = digest_text(digest)
    assert text.startswith("digest of y in 60 rows:\n")
    assert "\nage: best log, " in text
    assert "groups of clinic: 5 of " in text
    assert "recorded to 0.001" in text


def test_other_rows_play_no_part():
    data = table()
    digest = task_digest(Task("t", "T.", data, "y", shown_rows=6, held_out=10))
    counting = {name: values[6:50] for name, values in data.items()}
    assert digest == task_digest(Task("t", "T.", counting, "y"))
    for rows in (slice(0, 6), slice(50, 60)):
        for name in data:
            changed = data[name].copy()
            changed[rows] = changed[rows][::-1] + 1
            task = Task("t", "T.", {**data, name: changed}, "y", shown_rows=6, held_out=10)
            assert task_digest(task) == digest
            assert task_prompt(looking(task, "digest")).data == digest_text(digest)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_can_be_dropped(section):
    data = table()
    task = Task("t", "T.", data, "y")
    if section == "counts":
        task = Task("t", "T.", {**data, "y": np.arange(60) % 7}, "y")
    digest = task_digest(task)
    assert getattr(digest, section) is not None
    without = digest.without(section)
    assert getattr(without, section) is None
    assert without == task_digest(task, [each for each in SECTIONS if each != section])
    assert len(digest_text(without)) < len(digest_text(digest))


def test_an_unknown_section_and_a_task_without_rows_are_refused():
    task = Task("t", "T.", table(), "y")
    with pytest.raises(ValueError, match=r"sections must be of response, .*, got scatter"):
        task_digest(task, ["scatter"])
    with pytest.raises(ValueError, match="sections must be of"):
        task_digest(task).without("scatter")
    nothing = Task("none", "T.", {"y": np.array([1.0, 2.0])}, "y", held_out=2, ranges={"y": (0.0, 3.0)})
    with pytest.raises(ValueError, match="a digest needs rows that count, and task 'none' has none"):
        task_digest(nothing)


def test_counts_are_taken_as_rates_and_log_odds_and_binary_ones_as_they_are():
    rng = np.random.default_rng(4)
    x, population = rng.normal(0, 1, 50), rng.integers(100, 10_000, 50)
    cases = rng.poisson(population * np.exp(-3 + 0.5 * x))
    frame = {"x": x.tolist(), "population": population.tolist(), "cases": cases.tolist()}
    rates = task_digest(TableTask(understand(frame, "cases", roles={"population": "exposure"})))
    assert rates.scale == "log rate"
    assert [scan.name for scan in rates.scan] == ["x"]
    assert 0.4 < rates.counts.dispersion < 2
    shares = task_digest(Task("t", "T.", {"x": x, "n": population, "y": population // 3}, "y", total="n"))
    assert shares.scale == "log odds"
    assert shares.counts.family == "Binomial"
    binary = task_digest(Task("t", "T.", {"x": x, "y": (x > 0).astype(int)}, "y"))
    assert (binary.scale, binary.counts, binary.residuals) == ("its own scale", None, None)
    assert binary.regression["x"] > 5
    assert "log odds" in digest_text(shares)


def test_names_of_levels_are_groups_and_have_no_curve():
    rng = np.random.default_rng(6)
    kinds = [["ash", "beech", "cedar", "oak"][number] for number in rng.integers(0, 4, 40)]
    frame = {"kind": kinds, "x": rng.normal(0, 1, 40).tolist(), "y": rng.normal(0, 1, 40).tolist()}
    digest = task_digest(TableTask(understand(frame, "y")))
    assert [scan.name for scan in digest.scan] == ["x"]
    assert [group.name for group in digest.groups] == ["kind_code"]


@pytest.mark.parametrize(
    "columns",
    [
        {"y": np.array([1.0, 2.0])},
        {"y": np.array([3.5])},
        {"x": np.ones(5), "y": np.arange(5.0) ** 2},
        {"x": np.arange(12.0), "y": 3 * np.arange(12.0) + 1},
        {"x": np.arange(12.0), "y": np.zeros(12, dtype=np.int64)},
        {**{f"x{k}": np.random.default_rng(k).normal(0, 1, 9) for k in range(20)}, "y": np.arange(9.0) % 4},
        {"x": np.array([1e-90, 1.0, 2.0, 3.0, 4.0, 1e90]), "y": np.arange(6.0) ** 3},
        {"x": 1e12 + np.arange(30.0), "y": 1e-9 * np.random.default_rng(1).normal(0, 1, 30)},
    ],
)
def test_awkward_data_have_a_digest_of_finite_numbers(columns):
    with np.errstate(all="raise", under="ignore"):
        text = digest_text(task_digest(Task("t", "T.", columns, "y")))
    assert "nan" not in text
    assert "inf" not in text
    assert text.startswith("digest of y in ")


def test_many_columns_are_named_by_what_they_gain_and_repeats_are_told():
    rng = np.random.default_rng(7)
    data = {f"x{k}": rng.normal(0, 1, 100) for k in range(20)}
    task = Task(
        "t", "T.", {**data, "inches": data["x3"] / 2.54 + 1, "y": data["x3"] + rng.normal(0, 1, 100)}, "y"
    )
    lines = digest_text(task_digest(task)).splitlines()
    assert lines[3].startswith("x3: best ")
    assert any(line.startswith("8 more covariates gain at most ") for line in lines)
    assert "inches is a linear function of x3" in lines
    numbered = Task("t", "T.", {"row": np.arange(1, 21), "y": rng.normal(0, 1, 20)}, "y")
    assert "row (it numbers the rows): best " in digest_text(task_digest(numbered))
