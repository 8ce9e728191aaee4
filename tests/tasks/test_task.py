import csv

import numpy as np
import pytest

from synthstats_lightning.tasks import (
    CSVTask,
    Dugongs,
    EightSchools,
    TableTask,
    Task,
    baseline_program,
    get_task,
    task_prompt,
    understand,
)

AGES = "1 1.5 1.5 1.5 2.5 4 5 5 7 8 8.5 9 9.5 9.5 10 12 12 13 13 14.5 15.5 15.5 16.5 17 22.5 29 31.5"
AGES = [float(value) for value in AGES.split()]
LENGTHS = (
    "1.80 1.85 1.87 1.77 2.02 2.27 2.15 2.26 2.47 2.19 2.26 2.40 2.39 2.41 2.50 2.32 2.32 2.43"
    " 2.47 2.56 2.65 2.47 2.64 2.56 2.70 2.72 2.57"
)
LENGTHS = [float(value) for value in LENGTHS.split()]


def test_dugongs_are_the_published_values():
    task = get_task("dugongs")
    np.testing.assert_array_equal(task.covariates["age"], AGES)
    np.testing.assert_array_equal(task.data["length"], LENGTHS)
    assert task.response == "length"
    assert task.schema.columns == {"age": "float64"}
    assert task.schema.num_rows == 27


def test_prompt_tells_the_response_by_name_kind_range_and_rows_only():
    prompt = task_prompt(Dugongs())
    assert "response length: continuous, 1.77 to 2.72 metres" in prompt.request
    assert "rows: 27" in prompt.request
    for value in set(LENGTHS) - {1.77, 2.72}:
        assert f"{value:.2f}" not in prompt.request
    shown = task_prompt(Dugongs(shown_rows=3))
    assert "first values of length: 1.8, 1.85, 1.87" in shown.request


def test_csv_task_from_a_file(tmp_path):
    path = tmp_path / "plants.csv"
    path.write_text("dose, height ,alive,count\n0.5,3,1,4\n1.5,5,0,0\n2.5,-6,1,12\n")
    task = CSVTask(path, response="count", description="Plants.")
    assert task.name == "plants"
    assert {name: column.kind for name, column in task.columns.items()} == {
        "dose": "continuous",
        "height": "integer",
        "alive": "binary",
        "count": "count",
    }
    assert task.data["count"].dtype == np.int64
    as_continuous = CSVTask(path, response="count", description="Plants.", response_kind="continuous")
    assert as_continuous.data["count"].dtype == np.float64
    assert CSVTask(path, response="height", description="").response_kind == "continuous"
    assert list(CSVTask(path, "count", "Plants.", columns=["dose"]).covariates) == ["dose"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "response 'y' is not a column of .*; columns: a, b"),
        ("a,y\n1,2\n2,x\n", "line 3: column 'y' holds 'x', which is not a number"),
        ("a,y\n1,2\n2\n", "line 3: 1 fields, the header has 2"),
        ("a,y\n", "needs a header line and at least one row"),
        ("a,y\n1,2\n2,2\n", "response 'y' of task .* is constant"),
        ("a,y\n1,\n2,nan\n", "response 'y' of .* holds nothing"),
        ("a,b,y\n1,,2\n,3,1\n4,5,\n", r"has no row without a missing cell: a \(1\), b \(1\), y \(1\)"),
        ("a,y\n1,red\n2,green\n3,blue\n", "has 3 levels .*: a response must be numbers, or words of two"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        CSVTask(path, response="y", description="")


def test_missing_file_and_unknown_task():
    with pytest.raises(FileNotFoundError, match=r"no CSV file at nowhere\.csv"):
        CSVTask("nowhere.csv", response="y", description="")
    with pytest.raises(ValueError, match="task 'dugong' is not one of: dugongs"):
        get_task("dugong")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shown_rows": 3}, "shown_rows of task 't' must be from 0 to 2, got 3"),
        ({"response_kind": "nominal"}, "response_kind must be one of continuous, count, binary, ordinal"),
        ({"response_kind": "binary"}, "must hold 0 and 1"),
        ({"units": {"z": "m"}}, "units of task 't' name no column: z"),
        ({"name": "a task"}, "name must be a word"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    data = {"x": np.arange(3.0), "y": np.array([1.5, 2.5, 4.0])}
    with pytest.raises(ValueError, match=message):
        Task(**{"name": "t", "description": "", "data": data, "response": "y", **settings})


def test_fingerprint_changes_with_the_response_and_nothing_else_leaves_values():
    data = {"x": np.arange(3.0), "y": np.array([1.5, 2.5, 4.0])}
    one = Task("t", "", data, "y")
    other = Task("t", "", {**data, "y": np.array([1.5, 2.5, 3.0])}, "y")
    assert one.fingerprint != other.fingerprint
    assert one.schema == other.schema


def test_fingerprint_tells_apart_what_programs_see_of_equal_numbers():
    x, y = np.arange(3.0), np.array([1.5, 2.5, 4.0])
    tasks = [
        Task("t", "", {"x": x, "y": y}, "y"),
        Task("t", "", {"y": y, "x": x}, "y"),
        Task("t", "", {"x": x, "z": y}, "z"),
        Task("t", "", {"x": x, "y": y}, "y", quantities={"slope": ""}),
    ]
    assert len({task.fingerprint for task in tasks}) == 4
    assert Task("other", "A text.", {"x": x, "y": y}, "y").fingerprint == tasks[0].fingerprint


def test_baseline_programs_cover_every_kind_of_response():
    x = np.arange(4.0)
    for y, name in (
        (x + 0.5, "Normal"),
        (np.array([0, 3, 9, 2]), "Poisson"),
        (np.array([0, 1, 1, 0]), "Bernoulli"),
    ):
        source = baseline_program(Task("t", "", {"x": x, "y": y}, "y"))
        assert f'pm.{name}("y"' in source
        assert "observed=y" in source
        compile(source, "baseline", "exec")


def test_bundled_csv_equals_the_file_that_users_would_read():
    from importlib.resources import files

    text = files("synthstats_lightning.tasks").joinpath("data/dugongs.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [float(row["length"]) for row in rows] == LENGTHS


def test_rounding_of_the_response():
    task = Dugongs(rounding=0.01)
    assert task.rounding == 0.01
    assert Dugongs().rounding == 0.01
    assert EightSchools().rounding == 1.0
    exact = Dugongs(rounding=None)
    assert task_prompt(task) == task_prompt(exact)
    assert len({exact.fingerprint, task.fingerprint, Dugongs(rounding=0.005).fingerprint}) == 3


@pytest.mark.parametrize(
    ("values", "rounding", "message"),
    [
        ([1.0, 2.0], 0.0, "rounding of task 't' must be a number above 0, got 0"),
        ([1.0, 2.0], float("nan"), "must be a number above 0"),
        ([1.0, 2.03], 0.1, "'y' of task 't' holds 2.03, which is no multiple of the rounding 0.1"),
        ([0, 3], 1.0, "is for a continuous response; 'y' is of kind 'count'"),
    ],
)
def test_wrong_rounding_is_refused(values, rounding, message):
    with pytest.raises(ValueError, match=message):
        Task("t", "", {"y": np.array(values)}, "y", rounding=rounding)


def test_rounding_from_a_csv_file(tmp_path):
    path = tmp_path / "heights.csv"
    path.write_text("x,y\n1,1.5\n2,2.25\n3,-0.75\n")
    assert CSVTask(path, "y", "", rounding=0.25).rounding == 0.25
    with pytest.raises(ValueError, match="no multiple"):
        CSVTask(path, "y", "", rounding=0.5)


def test_the_levels_that_codes_stand_for_are_part_of_a_task():
    x = np.random.default_rng(0).normal(size=30)
    ones = (np.arange(30) % 3 == 0).astype(int)
    responses = {"coded": ones, "one and two": 1 + ones, "signs": 2 * ones - 1}
    tasks = {
        name: TableTask(understand({"x": x.tolist(), "y": values.tolist()}, "y"))
        for name, values in responses.items()
    }
    assert all(np.array_equal(task.data["y"], ones) for task in tasks.values())
    levels = {name: task.schema.response_levels for name, task in tasks.items()}
    assert levels == {"coded": ("0", "1"), "one and two": ("1", "2"), "signs": ("-1", "1")}
    assert len({task.fingerprint for task in tasks.values()}) == 3
