"""Views of covariates: programs use them by name, model graphs hold what they are made of."""

import json

import numpy as np
import pytest

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.tasks import TableTask, understand

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
    with pytest.raises(ProgramFailure, match="age, species_code, age_z, species_a, species_b, species_c, y"):
        sandbox.build(PROGRAM.format(mean='data["age_s"]'), task.schema, task.covariates)
