"""Columns of yes and no: compared in words they are right, or the program is refused with what to write."""

import json

import numpy as np
import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.tasks import TableTask, understand

CODES = [0, 1, 1, 0, 1, 0]
TABLE = {
    "cd": [("no", "yes")[code] for code in CODES],
    "y": [1.0, 2.5, 3.1, 0.2, 4.4, 2.2],
    "age": [3.0, 1.0, 4.0, 1.5, 2.6, 0.3],
}
PROGRAM = """
import numpy as np
import pandas as pd
import pymc as pm

x = np.asarray({line})
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=2)
    pm.Normal("y", a[0] + a[1] * x, 1, observed=y)
"""
RIGHT = [
    'data["cd"].isin(["yes"]).astype(int)',
    'np.isin(data["cd"].values, "yes") * 1',
    'pd.Categorical(data["cd"], categories=["no", "yes"]).codes',
    '1 - pd.Categorical(data["cd"], categories=["yes", "no"]).codes',
    '1 - pd.DataFrame(data)["cd"].astype(pd.CategoricalDtype(["yes", "no"])).cat.codes',
    '1 - pd.DataFrame(data)["cd"].astype("category").cat.reorder_categories(["yes", "no"]).cat.codes',
    '(data["cd"].astype(str) == "yes").astype(int)',
    '(pd.Series(data["cd"]) == "yes").astype(int)',
    '(np.asarray(data["cd"]) == "yes").astype(int)',
    '[1 if c == "yes" else 0 for c in data["cd"]]',
    '[["no", "yes"].index(c) for c in data["cd"]]',
    '[int(data["cd"][i] == "yes") for i in range(6)]',
    '(data["cd"][np.arange(6)] == "yes") * 1',
    'pd.DataFrame(data)["cd"].isin({"yes"}).astype(int)',
    '(pd.DataFrame(data)["cd"].astype(str) == "yes").astype(int)',
    'pd.get_dummies(pd.DataFrame(data)["cd"])["yes"].astype(int)',
    'pd.Series(data["cd"]).map({"no": 0, "yes": 1})',
    'pd.Series(data["cd"]).replace({"no": 0, "yes": 1})',
    'data["cd"].apply(lambda c: 1 if c == "yes" else 0)',
    'pd.read_csv("x.csv")["cd"].apply(lambda c: c == "yes").astype(int)',
    'data["cd"].str.startswith("y").astype(int)',
    'data["cd"].cat.codes',
    'pd.read_csv("x.csv").assign(z=lambda d: np.where(d["cd"].isin(["yes"]), 1, 0))["z"]',
    '(2.0 * data["cd"] - 1) / 2 + 0.5',
    'data["cd"].astype(float)',
    'pd.factorize(data["cd"])[0]',
]
REFUSED = [
    '(pd.DataFrame(data).cd.values == "yes").astype(int)',
    "pd.DataFrame(data).eval(\"cd == 'yes'\").astype(int)",
    'pd.Index(["yes", "no"]).get_indexer(data["cd"])',
    '(data["cd"] == "Yes").astype(int)',
    'np.where(np.asarray(data["age"]) == "yes", 1, 0)',
]


@pytest.fixture(scope="module")
def task() -> TableTask:
    return TableTask(understand(TABLE, "y"))


@pytest.mark.parametrize("line", RIGHT)
def test_words_mean_their_rows(sandbox: Sandbox, task: TableTask, line: str) -> None:
    graph = json.loads(sandbox.build(PROGRAM.format(line=line), task.schema, task.covariates))
    wanted = sandbox.build(PROGRAM.format(line=f"np.array({CODES})"), task.schema, task.covariates)
    assert _mean(graph) == pytest.approx(_mean(json.loads(wanted)))


def _mean(graph: dict) -> list[float]:
    """What the slope is multiplied with, by evaluating the graph's constants and columns."""
    values: list = []
    for node in graph["nodes"]:
        inputs = [values[place] for place in node.get("inputs", [])]
        match node["op"]:
            case "constant":
                values.append(np.array(node["value"]))
            case "covariate":
                values.append(np.array(CODES))
            case "random":
                values.append(np.array([0.0, 1.0]) if len(values) < len(graph["nodes"]) - 1 else inputs[0])
            case "index":
                values.append(inputs[0][tuple(node["index"])])
            case "cast":
                values.append(inputs[0].astype(node["dtype"]))
            case name:
                numpy = {
                    "mul": "multiply",
                    "div": "divide",
                    "sub": "subtract",
                    "eq": "equal",
                    "neg": "negative",
                }
                values.append(getattr(np, numpy.get(name, name))(*inputs))
    return np.broadcast_to(values[-1], (6,)).astype(float).tolist()


@pytest.mark.parametrize("line", REFUSED)
def test_words_that_meet_no_column_are_refused(sandbox: Sandbox, task: TableTask, line: str) -> None:
    with pytest.raises(
        ProgramFailure, match=r"'cd' holds 0 for 'no' and 1 for 'yes'. Write data\['cd'\] == 1"
    ) as caught:
        sandbox.build(PROGRAM.format(line=line), task.schema, task.covariates)
    assert caught.value.category is FailureCategory.UNSUPPORTED


def test_words_that_compare_nothing_are_let_be(sandbox: Sandbox) -> None:
    table = {**TABLE, "answer": ["yes", "no", "perhaps", "no", "yes", "perhaps"]}
    task = TableTask(understand(table, "y"))
    lines = ('np.where(np.asarray(data["answer"]) == "yes", 1.0, 0.0)', 'data["cd"]')
    for line in lines:
        source = PROGRAM.format(line=line).replace("pm.Model()", 'pm.Model(coords={"cd": ["no", "yes"]})')
        assert "nodes" in json.loads(sandbox.build(source, task.schema, task.covariates))
