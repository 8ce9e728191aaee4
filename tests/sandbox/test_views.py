"""Views of covariates: programs use them by name, model graphs hold what they are made of."""

import json
from dataclasses import replace

import numpy as np
import pytest

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.tasks import TableTask, understand
from synthstats_lightning.tasks.prompt import task_prompt

TABLE = {
    "age": [1.0, 2.5, 4.0, 9.0, 3.0, 5.0],
    "species": ["b", "a", "b", "c", "a", "c"],
    "y": [0.5, 1.5, 2.0, 4.0, 1.0, 3.0],
}
PROGRAM = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=3)
    pm.Normal("y", {mean}, 1, observed=y)
"""


@pytest.fixture(scope="module")
def task() -> TableTask:
    return TableTask(understand(TABLE, "y"))


def test_a_view_is_its_expression_in_the_graph(sandbox: Sandbox, task: TableTask) -> None:
    view = task.views["age_z"]
    by_hand = f"a[0] * (age - {view.centre}) / {view.scale}"
    assert view.centre == pytest.approx(np.mean(TABLE["age"]), abs=1e-5)
    graphs = [
        json.loads(sandbox.build(PROGRAM.format(mean=mean), task.schema, task.covariates))
        for mean in ("a[0] * age_z", 'a[0] * data["age_z"]', "a[0] * data.age_z", by_hand)
    ]
    nodes = [sorted(json.dumps(node.get("name", node["op"])) for node in graph["nodes"]) for graph in graphs]
    assert nodes[0] == nodes[1] == nodes[2]
    assert '"age"' in nodes[0]
    assert '"age_z"' not in nodes[0]
    constants = [node["value"] for node in graphs[0]["nodes"] if node["op"] == "constant"]
    assert view.centre in constants
    assert view.scale in constants


def test_indicators_and_codes_of_levels(sandbox: Sandbox, task: TableTask) -> None:
    assert list(task.covariates) == ["age", "species_code"]
    assert task.covariates["species_code"].tolist() == [1, 0, 1, 2, 0, 2]
    for mean in ("a[species_code]", "a[0] + a[1] * species_b + a[2] * species_c"):
        graph = sandbox.build(PROGRAM.format(mean=mean), task.schema, task.covariates)
        names = {node["name"] for node in json.loads(graph)["nodes"] if node["op"] == "covariate"}
        assert names == {"species_code"}


def test_an_unknown_view_is_answered_with_the_names(sandbox: Sandbox, task: TableTask) -> None:
    with pytest.raises(
        ProgramFailure, match="age, species_code, age_z, species_a, species_b, species_c, species, y"
    ):
        sandbox.build(PROGRAM.format(mean='data["age_s"]'), task.schema, task.covariates)


VISITS = {
    "site": [308, 309, 308, 310, 309, 310],
    "visits": [5, 5, 5, 5, 5, 5],
    "sex": ["m", "f", "m", "f", "f", "m"],
    "seen": [0, 1, 2, 5, 3, 0],
    "temp": [1.5, 2.0, 0.5, 3.0, 2.5, 1.0],
}


@pytest.mark.parametrize(
    ("line", "by_task"),
    [
        ("i = np.unique(site, return_inverse=True)[1]", "i = site_code"),
        ("i = np.searchsorted(np.sort(np.unique(site)), site)", "i = site_code"),
        ('i = (sex == "m") * 1', "i = sex_m"),
        ('i = (sex == "m").astype(int)', "i = sex_m"),
        ('i = np.array([{"f": 0, "m": 1}[each] for each in sex])', "i = sex_code"),
        ("i = site - 308", "i = np.array([308, 309, 310])[site_code] - 308"),
    ],
)
def test_a_tables_own_values_are_there_under_their_own_names(
    sandbox: Sandbox, line: str, by_task: str
) -> None:
    task = TableTask(understand(VISITS, "seen", roles={"visits": "left_out", "site": "group"}))
    graphs = [
        sandbox.build(f"{first}\n{COUNTS.format(n=5)}", task.schema, task.covariates)
        for first in (line, by_task)
    ]
    assert graphs[0] == graphs[1]
    assert '"site_code"' in graphs[0] or '"sex_code"' in graphs[0]


COUNTS = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=3)
    pm.Binomial("y", n={n}, logit_p=a[i], observed=seen)
"""


def test_a_number_of_all_rows_is_known_by_its_name(sandbox: Sandbox) -> None:
    table = {"limit": [7.0] * 6, **{name: VISITS[name] for name in ("sex", "temp")}}
    task = TableTask(understand(table, "temp"))
    assert list(task.covariates) == ["sex_code"]
    source = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=2)
    pm.Normal("y", a[sex_code] * limit / limit[0], limit.mean(), observed=temp)
"""
    graph = json.loads(sandbox.build(source, task.schema, task.covariates))
    values = [node["value"] for node in graph["nodes"] if node["op"] == "constant"]
    assert 7.0 in values
    for other in (3, 9):  # rows: it is no list of so many numbers
        fewer = {"sex_code": np.resize([0, 1], other)}
        schema = replace(task.schema, num_rows=other)
        nodes = json.loads(sandbox.build(source, schema, fewer))["nodes"]
        assert [node["op"] for node in nodes] == [node["op"] for node in graph["nodes"]]


def test_what_was_left_out_as_asked_has_no_name(sandbox: Sandbox) -> None:
    table = {"limit": [7.0] * 6, **VISITS}
    task = TableTask(understand(table, "temp", roles={"limit": "left_out"}))
    assert "limit" not in task.views
    assert {"site", "sex", "visits"} <= set(task.views) | set(task.covariates)
    assert not {"site", "sex", "visits"} & set(TableTask(understand(table, "temp", views=False)).views)


def test_prompts_name_only_what_standardises_to_the_bundled_policy() -> None:
    task = TableTask(understand(VISITS, "temp"))
    assert "as the table has it" not in task_prompt(task).request
    told = task_prompt(TableTask(understand(VISITS, "temp"), tell_views=True)).request
    assert "site (site_code, as the table has it)" in told
    assert "visits (5 in every row)" in told


NUMBERED = {
    "obs": [1, 2, 3, 4, 5, 6],
    "id": [7, 3, 9, 12, 5, 1],
    "x": [0.5, 1.5, 2.0, 0.1, 0.7, 1.1],
    "y": [3, 1, 4, 1, 5, 9],
}


def test_programs_may_choose_each_rows_own_effect_by_a_column_that_numbers_the_rows(
    sandbox: Sandbox,
) -> None:
    task = TableTask(understand(NUMBERED, "y"))
    assert list(task.covariates) == ["x"]
    assert (task.views["obs"].constant, task.views["obs"].step) == (1.0, 1)
    assert "id" not in task.views  # these do not count the rows
    program = """
with pm.Model() as model:
    u = pm.Normal("u", 0, 1, shape=6)
    pm.Poisson("y", pm.math.exp(u[{place}]), observed=y)
"""
    named, counted = (
        json.loads(sandbox.build(program.format(place=place), task.schema, task.covariates))
        for place in ("obs - 1", "np.arange(6)")
    )
    assert named == counted
    told = task_prompt(TableTask(understand(NUMBERED, "y"), tell_views=True)).request
    assert "obs (numbers the rows from 1)" in told
    # a row left out in between: what is left is no count of the rows
    gap = {**NUMBERED, "x": [0.5, 1.5, None, 0.1, 0.7, 1.1]}
    assert "obs" not in understand(gap, "y").views


@pytest.mark.parametrize(
    "line",
    [
        'data["cd"] == "yes"',
        'np.where(data.cd == "yes", 1.0, 0.0)',
        '(cd != "no").astype(float)',
        'data["cd"].map({"no": 0, "yes": 1})',
        '1 - data["cd"].map({"yes": 0, "no": 1})',
        'data["cd"].values == "yes"',
        'pd.read_csv("data.csv").cd.eq("yes").astype(int)',
        '(data["cd"].map({"yes": "a", "no": "b"}) == "a").astype(int)',
    ],
)
def test_a_column_of_yes_and_no_is_compared_with_its_words(sandbox: Sandbox, line: str) -> None:
    table = {"cd": ["no", "yes", "yes", "no", "yes", "no"], "y": TABLE["y"]}
    task = TableTask(understand(table, "y"))
    assert task.schema.words == {"cd": ("no", "yes")}
    program = "import pandas as pd\n" + PROGRAM.format(mean=f"a[0] + a[1] * ({line})")
    graph = json.loads(sandbox.build(program, task.schema, task.covariates))
    held = [np.ravel(node["value"]) for node in graph["nodes"] if node["op"] == "constant"]
    numbers = [values.tolist() for values in held if len(values) == 6]
    named = any(node.get("name") == "cd" for node in graph["nodes"])
    assert named or numbers == [[0, 1, 1, 0, 1, 0]]
    other = TableTask(understand({**table, "cd": [0, 1, 1, 0, 1, 0]}, "y"))
    assert not other.schema.words
    assert other.fingerprint != task.fingerprint


@pytest.mark.parametrize(
    "line",
    [
        'data["ph.ecog"] * (data["class"] == "b")',
        'pd.read_csv("data.csv")["ph.ecog"].values * (pd.read_csv("data.csv")["class"] == "b").values',
        'data[["ph.ecog", "class"]]["ph.ecog"] * (data["class"] == "b")',
    ],
)
def test_columns_go_by_the_names_of_their_table_too(sandbox: Sandbox, line: str) -> None:
    table = {"ph.ecog": TABLE["age"], "class": TABLE["species"], "y": TABLE["y"]}
    task = TableTask(understand(table, "y"))
    assert task.schema.own_names == {"ph.ecog": "ph_ecog", "class": "class_"}
    program = "import pandas as pd\n" + PROGRAM.format(mean=f"a[0] + a[1] * ({line})")
    graph = json.loads(sandbox.build(program, task.schema, task.covariates))
    held = [np.ravel(node["value"]) for node in graph["nodes"] if node["op"] == "constant"]
    wanted = np.where(np.array(TABLE["species"]) == "b", TABLE["age"], 0.0).tolist()
    named = any(node.get("name") == "ph_ecog" for node in graph["nodes"])
    assert named or wanted in [values.tolist() for values in held]
    hidden = TableTask(understand(table, "y"), domain_knowledge=False)
    assert not hidden.schema.own_names
