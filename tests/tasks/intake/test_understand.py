"""Tables as people have them, and what is understood of them."""

import re

import numpy as np
import pytest

from synthstats_lightning.tasks import CSVTask, TableTask, task_prompt, understand

RNG = np.random.default_rng(0)
ROWS = 40


def table(**columns):
    return {"y": RNG.normal(size=ROWS).round(3).tolist(), **columns}


def by_name(found):
    return {column.original: column for column in found.columns}


def test_names_become_those_of_programs():
    names = [
        "petal width (cm)",
        "class",
        "pm",
        "2nd dose [mg/l]",
        "Größe",
        "naïve %",
        "a",
        "a ",
        "_x",
        "长度",
        "!",
        "len",
        "type",
    ]
    found = understand(table(**{name: RNG.normal(size=ROWS).tolist() for name in names}), "y")
    programs = {column.original: column.name for column in found.columns}
    plain = ["petal_width", "class_", "pm_", "x_2nd_dose", "Größe", "naive_percent", "a", "a_2", "_x"]
    assert list(programs.values())[1:] == [*plain, "长度", "column", "len_", "type"]
    assert by_name(found)["petal width (cm)"].unit == "cm"
    assert by_name(found)["2nd dose [mg/l]"].unit == "mg/l"


def test_columns_of_no_use_are_left_out_and_said():
    found = understand(
        table(
            row=[f"r{place}" for place in range(ROWS)],
            id=list(range(1, ROWS + 1)),
            constant=[3] * ROWS,
            site=["A"] * ROWS,
            empty=[None] * ROWS,
            remarks=[f"text {place % 30} of {place}" for place in range(ROWS)],
            sparse=[1.5, 2.5, 3.5, *[None] * (ROWS - 3)],
            week=list(range(1, ROWS + 1)),
            x=RNG.normal(size=ROWS).tolist(),
        ),
        "y",
    )
    left_out = {column.original: column.notes[0] for column in found.columns if not column.used}
    assert left_out == {
        "row": "another text in every row: names of rows",
        "id": "another number in every row: numbers of rows",
        "constant": "the same in every row (3)",
        "site": "the same in every row (A)",
        "empty": "every cell is missing",
        "remarks": "another text in every row: names of rows",
        "sparse": "37 of 40 cells are missing",
    }
    assert list(found.data) == ["y", "week", "x"]
    assert found.num_rows == ROWS


def test_groups_are_recognised():
    found = understand(
        table(
            subject_id=[101 + place % 8 for place in range(ROWS)],
            firm=[f"firm {place % 6}" for place in range(ROWS)],
            sex=["m", "f"] * (ROWS // 2),
            children=[place % 4 for place in range(ROWS)],
        ),
        "y",
    )
    roles = {column.name: (column.kind, column.role) for column in found.columns}
    assert roles == {
        "y": ("continuous", "response"),
        "subject_id_code": ("category", "group"),
        "firm_code": ("category", "group"),
        "sex_code": ("category", "covariate"),
        "children": ("count", "covariate"),
    }
    assert found.column("subject_id_code").levels[:2] == ("101", "102")
    assert found.data["subject_id_code"][:3].tolist() == [0, 1, 2]


def test_roles_of_numbers():
    counts = RNG.poisson(4.0, ROWS).tolist()
    population = RNG.uniform(1e3, 1e5, ROWS).tolist()
    found = understand({"deaths": counts, "population": population}, "deaths")
    assert found.column("population").role == "exposure"
    assert "exposure" in task_prompt(TableTask(found, "Deaths.")).request
    claims = understand({"claims": counts, "Holders": [20 + value for value in counts]}, "claims")
    assert claims.column("Holders").role == "exposure"
    roads = understand({"accidents": counts, "vehicle_km": population}, "accidents")
    assert roads.column("vehicle_km").role == "exposure"
    out_of = {"deaths": counts, "population": population, "trials": [50] * 20 + [60] * 20}
    found = understand(out_of, "deaths")
    assert found.column("trials").role == "total"
    assert TableTask(found, "Deaths.").total == "trials"
    assert found.column("population").role == "covariate"  # a share of trials is no rate
    said = understand(out_of, "deaths", roles={"population": "exposure"})
    assert said.column("population").role == "exposure"
    errors = understand({"effect": [1.5, 2.5, 0.5], "effect_se": [0.25, 0.5, 0.75]}, "effect")
    assert errors.column("effect_se").role == "standard_error"
    given = understand(table(x=RNG.uniform(1, 2, ROWS).tolist()), "y", roles={"x": "exposure"})
    assert given.column("x").role == "exposure"


@pytest.mark.parametrize(
    ("values", "kind", "asked"),
    [
        ([0, 1, 1, 0], "binary", False),
        (["died", "lived", "died"], "binary", False),
        (["yes", "no", "no"], "binary", False),
        ([0, 3, 9, 2], "count", False),
        ([0, 300, 90, 2], "count", True),
        ([1120, 1160, 963, 1210], "continuous", True),
        ([0.5, 3.25, 9.0], "continuous", False),
        ([-3, 4, 5], "continuous", False),
        ([60323.0, 61122.0, 60171.0], "continuous", True),
        ([2685, 12051, 7000, 3120], "continuous", True),
        ([985, 12051, 7000, 3120], "count", True),
    ],
)
def test_kind_of_the_response(values, kind, asked):
    found = understand({"x": [0.5 * place for place in range(len(values))], "y": values}, "y")
    assert found.response_kind == kind
    assert any("response_kind" in text for text in found.warnings) is asked
    if set(found.data["y"].tolist()) == {0, 1} and isinstance(values[0], str):
        assert found.data["y"].tolist() == [int(value in ("lived", "yes")) for value in values]


@pytest.mark.parametrize(
    ("cells", "one"),
    [([1, 2, 2], 2), (["1.0", "2.0", "2.0"], "2.0"), ([-1, 1, 1], 1), (["0 %", "100 %", "100 %"], "100 %")],
)
def test_two_numbers_are_no_and_yes(cells, one):
    answers = (cells * 8)[:20]
    found = understand({"x": list(range(21)), "y": [*answers, None]}, "y")
    assert found.response_kind == "binary"
    assert found.data["y"].tolist() == [int(cell == one) for cell in answers]
    assert "taken for no and yes: 1 is" in found.warnings[0]
    assert len(found.data["x"]) == 20
    for kind in ("count", "continuous") if cells[0] == 1 else ("continuous",):
        said = understand({"x": list(range(20)), "y": answers}, "y", kind=kind)
        assert said.response_kind == kind
        assert len(set(said.data["y"].tolist()) - {0, 1}) > 0
    assert understand({"x": [1, 2, 4], "y": cells}, "y", kind="binary").data["y"].tolist() == [0, 1, 1]
    assert understand({"x": [1, 2, 4], "y": cells}, "y").response_kind != "binary"


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("turnout", [f"{40 + place}%" for place in range(40)], "continuous"),
        ("part (mm)", list(range(1, 41)), "continuous"),
        ("paid", [f"${7 * place}" for place in range(40)], "continuous"),
        ("flat", [f"{1 + place % 7} rooms" for place in range(40)], "count"),
        ("calls (per day)", list(range(1, 41)), "count"),
    ],
)
def test_whole_numbers_in_a_unit_of_measurement_are_measured(name, cells, kind):
    assert understand({name: cells, "x": RNG.normal(size=40).tolist()}, name).response_kind == kind


def test_numbers_that_name_subjects_predict_nothing():
    y = RNG.normal(size=30).tolist()
    rows = {"patient": [7, 3, 12, *range(50, 77)], "visitor": list(range(30)), "y": y}
    twice = {"subject_id": [*range(100, 125), *range(100, 105)], "y": y}
    roles = {column.original: column.role for column in understand(rows, "y").columns}
    assert roles == {"patient": "left_out", "visitor": "covariate", "y": "response"}
    (first, _) = understand(twice, "y").columns
    assert (first.role, first.notes[0][:39]) == ("left_out", "25 different numbers in 30 rows: names ")
    assert understand(twice, "y", roles={"subject_id": "group"}).columns[0].role == "group"
    few = {"site": [17, 9, 8, 7], "y": y[:4]}
    assert understand(few, "y").column("site").role == "covariate"


def test_missing_cells_by_policy():
    cells = {
        "y": [1.5, 2.5, 3.25, None, 5.0, 0.5],
        "x": [1, None, 3, 4, 5, 2],
        "s": ["a", "b", None, "a", "b", "a"],
    }
    dropped = understand(cells, "y")
    assert dropped.rows.tolist() == [0, 4, 5]
    assert "3 of 6 rows are left out for missing cells: y (1), x (1), s (1)" in dropped.notes
    with pytest.raises(ValueError, match=r"has missing cells: y \(1\), x \(1\), s \(1\)"):
        understand(cells, "y", gaps="refuse")
    kept = understand(cells, "y", gaps="indicator")
    assert kept.rows.tolist() == [0, 1, 2, 4, 5]
    assert kept.data["x"].tolist() == [1, 2, 3, 5, 2]
    assert kept.data["x_missing"].tolist() == [0, 1, 0, 0, 0]
    assert kept.column("s_code").levels == ("a", "b", "missing")
    assert kept.data["s_code"].tolist() == [0, 1, 2, 1, 0]
    encoded = kept.encode({"x": [None, 7], "s": ["b", None]})
    assert {name: values.tolist() for name, values in encoded.items()} == {
        "x_missing": [1, 0], "x": [2, 7], "s_code_missing": [0, 1], "s_code": [1, 2],
    }  # fmt: skip
    with pytest.raises(ValueError, match="gaps must be one of drop, refuse, indicator, got 'impute'"):
        understand(cells, "y", gaps="impute")


def test_how_rows_are_kept_is_said_where_many_are_lost():
    y = [float(place) ** 1.5 for place in range(20)]
    gaps = [None if place < 8 else 0.5 * place for place in range(20)]
    assert "indicator keeps 8 of these rows" in understand({"x": gaps, "y": y}, "y").notes[-1]
    assert len(understand({"x": gaps, "y": y}, "y", gaps="indicator").rows) == 20
    assert not any("indicator" in note for note in understand({"x": y, "y": gaps}, "y").notes)


def test_new_rows_are_put_through_the_same_encoding(tmp_path):
    path = tmp_path / "trees.csv"
    path.write_text("height (m);species;planted\n" + "".join(
        f"{2 + place / 7:.2f};{'oak' if place % 3 else 'ash'};2020-01-{place + 1:02d}\n".replace(".", ",")
        for place in range(20)
    ))  # fmt: skip
    task = CSVTask(path, "height (m)")
    assert list(task.data) == ["height", "species_code", "planted"]
    new = task.encode({"species": ["ash", "oak"], "planted": ["2020-02-01", "2020-01-02"]})
    assert {name: values.tolist() for name, values in new.items()} == {
        "species_code": [0, 1],
        "planted": [31, 1],
    }
    for rows, message in (
        ({"species": ["elm"], "planted": ["2020-02-01"]}, "row 1: column 'species' holds 'elm'"),
        (
            {"species": ["ash", None], "planted": ["2020-02-01"] * 2},
            "row 2: column 'species' has a missing cell",
        ),
        ({"planted": ["2020-02-01"]}, "has no column 'species'; columns: planted"),
        ({"species": ["ash"], "planted": ["then"]}, "column 'planted' holds 'then'"),
    ):
        with pytest.raises(ValueError, match=message):
            task.encode(rows)
    own = task.encode({name: column[:2] for name, column in {
        "species": ["ash", "oak"], "planted": ["2020-01-01", "2020-01-02"]}.items()})  # fmt: skip
    assert own["species_code"].dtype == task.data["species_code"].dtype


def test_settings_that_name_no_column_or_say_what_is_not_so():
    cells = table(x=RNG.normal(size=ROWS).tolist())
    for settings, message in (
        ({"response": "z"}, "response 'z' is not a column of the table; columns: y, x"),
        ({"columns": ["z"]}, "columns: 'z' is not a column"),
        ({"roles": {"x": "king"}}, "roles of 'x' must be one of covariate, group"),
        ({"kinds": {"x": "colour"}}, "kinds of 'x' must be one of number, category"),
        ({"kinds": {"x": "date"}}, "column 'x' holds '.*', and not all of it is dates"),
        ({"screen": 0}, "screen must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            understand(**{"table": cells, "response": "y", **settings})
    with pytest.raises(TypeError, match="table must be a path, a mapping, or a table"):
        understand(3, "y")


def test_screening_keeps_what_goes_with_the_response():
    x = RNG.normal(size=ROWS)
    noise = {f"noise{place}": RNG.normal(size=ROWS).tolist() for place in range(30)}
    cells = {**noise, "x": x.tolist(), "y": (np.exp(x) + 0.01 * RNG.normal(size=ROWS)).tolist()}
    found = understand(cells, "y", screen=3)
    assert len(found.covariates) == 3
    assert "x" in found.data
    assert "28 covariates are left out because others go with the response better" in found.notes[-1]


def test_views_standardise_by_numbers_of_the_task():
    found = understand(
        {"y": [1.5, 2.0, 0.5, 1.0], "age": [10.0, 20.0, 30.0, 40.0], "age_z": [1, 5, 3, 4]}, "y"
    )
    assert "age_z" not in found.views
    view = found.views["age_z_z"]
    assert ((found.data["age_z"] - view.centre) / view.scale).std() == pytest.approx(1, abs=1e-5)
    assert understand(table(x=RNG.normal(size=ROWS).tolist()), "y", views=False).views == {}


def test_prompts_name_views_where_asked_for():
    cells = {"y": [1.5, 2.0, 0.5, 1.0], "age": [10.0, 20.0, 30.0, 40.0], "s": ["a", "b", "a", "b"]}
    found = understand(cells, "y")
    assert "age_z" not in task_prompt(TableTask(found)).request
    told = task_prompt(TableTask(found, tell_views=True)).request
    assert "\nalso in scope: age_z (age, standardised), s_a (s_code, 1 where it is 0, else 0), s_b (" in told


def test_without_domain_knowledge_nothing_is_called_by_its_name():
    cells = table(species=["oak", "ash"] * (ROWS // 2), age=RNG.normal(size=ROWS).tolist())
    task = TableTask(understand(cells, "y"), "Trees.", domain_knowledge=False)
    request = task_prompt(task).request
    assert "oak" not in request
    assert sorted(task.views) == ["x1_ash", "x1_oak", "x2_z"]
    assert list(task.encode({"species": ["oak"], "age": [1.0]})) == ["x1", "x2"]


def test_frames_of_other_libraries_are_the_same_as_the_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "y": [1.5, 2.5, 3.5, 4.0],
            "when": pandas.to_datetime(["2020-01-01", "2020-01-05", None, "2020-02-01"]),
            "size": pandas.Categorical(["s", "l", "s", "l"], categories=["s", "l"], ordered=True),
            "n": pandas.array([1, None, 3, 4], dtype="Int64"),
            "flag": [True, False, True, True],
        }
    )
    found = understand(frame, "y")
    assert found.rows.tolist() == [0, 3]
    assert found.data["when"].tolist() == [0, 31]
    assert found.data["size_code"].tolist() == [0, 1]
    assert found.data["n"].tolist() == [1, 4]
    assert found.column("flag").kind == "binary"
    pyarrow = pytest.importorskip("pyarrow")
    from_arrow = understand(pyarrow.Table.from_pandas(frame), "y")
    path = tmp_path / "frame.parquet"
    frame.to_parquet(path)
    for other in (from_arrow, CSVTask(path, "y").understood):
        assert {name: values.tolist() for name, values in other.data.items()} == {
            name: values.tolist() for name, values in found.data.items()
        }
    path.write_text("no parquet")
    with pytest.raises(ValueError, match="is no Parquet file"):
        CSVTask(path, "y")


def test_numbers_that_are_codes_already_keep_their_name():
    """Programs that people have written index by the column; `plot_code` is for numbers from 1 on."""
    numbers = range(ROWS)
    columns = {
        "rat": [i // 5 for i in numbers],
        "plot": [1 + i // 5 for i in numbers],
        "day": [7.5 * (i % 5) for i in numbers],
    }
    found = understand(table(**columns), response="y")
    assert [by_name(found)[name].name for name in columns] == ["rat", "plot_code", "day"]
    assert [by_name(found)[name].role for name in columns] == ["group", "group", "covariate"]
    assert found.data["plot_code"].tolist() == found.data["rat"].tolist() == columns["rat"]


def test_a_response_alone_is_described():
    task = TableTask(understand({"waiting": [54.5, 61.25, 48.0, 80.5, 77.0, 66.5]}, response="waiting"))
    assert task.description == "Waiting."


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            [0.0] * 8 + [0.5 + place for place in range(32)],
            "exactly 0 in 20 % .* a hurdle, .* limits: {lower: 0}",
        ),
        ([100.0] * 12 + [55.5 + place for place in range(28)], "exactly 100 in 30 % .* limits: {upper: 100}"),
        ([0.0] * 2 + [0.5 + place for place in range(38)], None),
        ([0.5 * (place % 4) for place in range(40)], None),  # a coarse scale
        ([5.0 * (place % 10) + 1440.0 for place in range(40)], None),  # rounded ones repeat
    ],
)
def test_a_value_at_an_end_that_comes_too_often_is_said(values, told):
    found = understand({"x": list(range(3, 43)), "y": values}, "y")
    texts = [text for text in found.warnings if "is exactly" in text]
    assert bool(texts) == (told is not None)
    if told is not None:
        assert re.search(told, texts[0])
        assert ("hurdle" in texts[0]) == (values[0] == 0)


def test_where_values_were_cut_off_is_not_asked_where_a_column_says_it():
    times = [104.0] * 12 + [30.5 + place for place in range(28)]
    table = {"time": times, "status": [0] * 12 + [1] * 28}
    assert not [text for text in understand(table, "time").warnings if "is exactly" in text]
    assert [text for text in understand({"time": times}, "time").warnings if "is exactly" in text]


def test_trials_that_are_the_same_in_every_row_are_a_total():
    deaths = [0, 3, 7, 20, 12, 1]
    found = understand({"deaths": deaths, "N": [20] * 6, "dose": [1, 2, 3, 4, 5, 6]}, "deaths")
    assert {column.name: column.role for column in found.columns}["N"] == "total"
    # no trials: fewer than the response, another name, another response
    for columns, response in (
        ({"deaths": deaths, "N": [19] * 6, "dose": [1, 2, 3, 4, 5, 6]}, "deaths"),
        ({"deaths": deaths, "year": [1990] * 6, "dose": [1, 2, 3, 4, 5, 6]}, "deaths"),
        ({"height": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5], "n": [20] * 6, "dose": [1, 2, 3, 4, 5, 6]}, "height"),
    ):
        same = next(name for name in columns if name not in ("deaths", "height", "dose"))
        found = understand(columns, response)
        assert {column.original: column.role for column in found.columns}[same] == "left_out"


def test_whole_numbers_of_less_spread_than_counts_are_measured():
    diameters = [27, 23, 26, 23, 24, 21, 25, 22, 26, 24, 25, 23]
    plates = list("aabbccddeeff")
    assert understand({"zone": diameters, "plate": plates}, "zone").response_kind == "continuous"
    counts = [27, 13, 36, 23, 14, 21, 35, 12, 26, 34, 15, 23]
    assert understand({"bees": counts, "plate": plates}, "bees").response_kind == "count"
    # of so many trials, or too few rows to say
    correct = {"correct": diameters, "n": [28] * 11 + [30], "plate": plates}
    assert understand(correct, "correct").response_kind == "count"
    few = {"y": [21, 20, 15], "z": [0.5, 1.5, 2.5]}
    assert understand(few, "y").response_kind == "count"


def test_large_numbers_of_successes_are_counts_beside_their_trials():
    putts = {"distance": [0.5, 2.0, 5.0, 9.0], "tries": [45198, 183020, 169503, 113094]}
    successes = [45183, 182899, 168594, 108953]
    found = understand({**putts, "successes": successes}, "successes")
    assert found.response_kind == "count"
    assert found.column("tries").role == "total"
    # without trials so large a number measures something
    del putts["tries"]
    assert understand({**putts, "successes": successes}, "successes").response_kind == "continuous"


@pytest.mark.parametrize("size", [1.7e308, 1e-200])
def test_numbers_without_squares_are_refused(size):
    table = {
        "x": [1.0, 2.0, 4.0, 3.0],
        "y": [size, size / 2, size / 3, size / 5],
        "note": ["a", "b", "c", "d"],
    }
    for response in ("x", "y"):
        with pytest.raises(ValueError, match=re.escape("column 'y'")):
            understand(table, response)
    assert understand(table, "x", roles={"y": "left_out"}).response_kind == "count"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("bwt", "continuous"), ("time", "continuous"), ("angle", "continuous"), ("deaths", "count")],
)
def test_whole_numbers_that_spread_are_told_apart_by_their_name(name, kind):
    values = [709, 2523, 4990, 1330, 2877, 3100, 1885, 2410, 3651, 2920]
    assert understand({name: values, "x": list(range(10))}, name).response_kind == kind


@pytest.mark.parametrize("name", ["BROOD", "pig", "replicate", "Location", "stratum"])
def test_numbers_that_repeat_and_name_broods_or_places_are_groups(name):
    table = {name: [*range(501, 513)] * 3, "y": [place % 5 + 0.5 for place in range(36)]}
    assert understand(table, "y").columns[0].role == "group"


def test_of_more_columns_than_have_a_token_those_that_explain_the_response_are_told():
    rng = np.random.default_rng(0)
    table = {f"x{place}": rng.normal(size=50).round(2) for place in range(40)}
    table["y"] = (table["x39"] + 0.1 * rng.normal(size=50)).round(3)
    found = understand(table, "y")
    assert len(found.predictors) == 40
    assert len(found.untold) == 8
    assert "x39" not in found.untold
    assert any(note.startswith("8 covariates are told to no policy") for note in found.notes)
    assert understand(table, "y", screen=40).untold == ()
    assert understand(table, "y", columns=[*table]).untold == ()
    assert [len(understand(table, "y", screen=32).predictors)] == [32]
    task = TableTask(found)
    facts = task_prompt(task).facts
    assert facts is not None
    assert {column.name for column in facts.columns} == {*task.covariates}.difference(found.untold)
    assert len(task.covariates) == 40


@pytest.mark.parametrize("gap", [False, True])
def test_responses_that_are_held_out_do_not_choose_the_columns(tmp_path, gap):
    rng = np.random.default_rng(3)
    table = {f"x{place}": rng.normal(size=30).round(3).tolist() for place in range(12)}
    y = (np.array(table["x4"]) + 0.3 * rng.normal(size=30)).round(3)
    if gap:
        table["x7"][25] = ""  # so that six rows from row 23 on are the last five of those that are kept
    other = y.copy()
    other[25:] = [500.0, -400.0, 300.0, -200.0, 100.0]
    found = []
    for number, response in enumerate((y, other)):
        path = tmp_path / f"{number}.csv"
        columns = {**table, "y": response}
        lines = [",".join(str(column[row]) for column in columns.values()) for row in range(30)]
        path.write_text("\n".join([",".join(columns), *lines]) + "\n")
        task = CSVTask(path, "y", screen=3, held_out=5)
        found.append([each.name for each in task.understood.predictors])
        assert task.held_out == 5
        everything = CSVTask(path, "y", screen=3)
        found.append([each.name for each in everything.understood.predictors])
    assert found[0] == found[2]
    assert "x4" in found[0]
    assert found[1] != found[3]  # of which the rows would tell otherwise
