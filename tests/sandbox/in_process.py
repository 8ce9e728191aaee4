"""Extraction in the test's own process, and two independent evaluations of what it yields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.compile.mode import Mode

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.sandbox.inside import program, pymc_adapter
from synthstats_lightning.sandbox.inside.entry import Recorder, find_model
from synthstats_lightning.sandbox.inside.expressions import PROVENANCE
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.namespace import columns_of, module_for
from synthstats_lightning.sandbox.inside.rescaling import RESCALINGS
from synthstats_lightning.sandbox.inside.response import taken_for_missing
from synthstats_lightning.sandbox.protocol import Job

PLAIN = Mode("py", None)


def model_and_graph(
    source: str, schema: DataSchema, covariates: dict[str, np.ndarray]
) -> tuple[pm.Model, dict[str, Any]]:
    """The model that a program leaves and its graph; nothing of it stays in this process."""
    try:
        return _model_and_graph(source, schema, covariates)
    finally:
        PROVENANCE.clear()
        RESCALINGS.clear()
        taken_for_missing().clear()


def _model_and_graph(
    source: str, schema: DataSchema, covariates: dict[str, np.ndarray]
) -> tuple[pm.Model, dict[str, Any]]:
    columns = columns_of(Job(source, build=True, schema=schema, covariates=covariates))
    module = module_for(columns, schema.num_rows, schema.own_names)
    with Recorder() as recorder:
        exec(program.parse(source), module.__dict__)
        model = find_model(module, columns, schema.num_rows, recorder)
    return model, extract_graph(model, schema, covariates)


def evaluate(
    graph: dict[str, Any], draws: dict[str, np.ndarray], covariates: dict[str, np.ndarray]
) -> list[np.ndarray | None]:
    """Every node's value by NumPy, given values of the random ones."""
    values: list[Any] = []
    for node in graph["nodes"]:
        inputs = [values[i] for i in node.get("inputs", [])]
        if node["op"] == "constant":
            values.append(np.array(node["value"], dtype=node["dtype"]))
        elif node["op"] == "covariate":
            values.append(covariates[node["name"]])
        elif node["op"] == "random":
            values.append(draws.get(node["name"]))
        else:
            attributes = {key: value for key, value in node.items() if key not in ("op", "inputs")}
            values.append(OPERATIONS[node["op"]].evaluate(inputs, attributes))
    return values


def pytensor_parameters(model: pm.Model, draws: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Parameters of every random variable by PyTensor, given values of the free ones."""
    free = {variable: variable.type() for variable in model.free_RVs}
    wanted: list[Any] = []
    sizes = []
    for variable in model.basic_RVs:
        _, parameters = pymc_adapter.random_inputs(variable)
        wanted += parameters
        sizes.append(len(parameters))
    function = pytensor.function(
        list(free.values()), wanted, givens=list(free.items()), mode=PLAIN, on_unused_input="ignore"
    )
    results = iter(function(*(draws[str(variable.name)] for variable in free)))
    return {
        str(variable.name): [np.asarray(next(results)) for _ in range(count)]
        for variable, count in zip(model.basic_RVs, sizes, strict=True)
    }


def random_draws(graph: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Values in (0, 1) or small counts for every random node but the response."""
    rng = np.random.default_rng(seed)
    draws = {}
    for index, node in enumerate(graph["nodes"]):
        if node["op"] == "random" and index != graph["response"]:
            draws[node["name"]] = rng.uniform(0.1, 0.9, size=node["shape"])
    return draws
