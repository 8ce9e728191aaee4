"""PyMC's side of a parity check: model graphs, and what PyMC itself makes of the same models.

Torch-free, so that it runs in an environment with another release of PyMC than the scorer's own:
`cd benchmarks; python -m scoring_parts.parity_reference reference.json` there, and then
`python benchmarks/scoring_parity.py --reference reference.json` here.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from figures_file import Options
from pytensor.compile.mode import Mode
from scoring_parts.parity_cases import GROUP, ROWS, Case, X

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.sandbox.inside.expressions import PROVENANCE
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import response as placeholder

COVARIATES: dict[str, Any] = {"x": X, "group": GROUP}
POINTS = 3
SPREAD = 0.5
UNREWRITTEN = Mode(linker="py", optimizer=None)


ABSTRACT = frozenset(
    {"Continuous", "CustomDist", "DensityDist", "Discrete", "Distribution", "SymbolicRandomVariable"}
)
"""Names that PyMC exports with its distributions and that are none: base classes and ways to write one."""
ALIASES = frozenset({"Lognormal"})


def documented() -> list[str]:
    """The distributions that this release of PyMC documents."""
    return sorted(set(pm.distributions.__all__) - ABSTRACT - ALIASES)


def all_cases() -> Iterator[tuple[str, int, Case]]:
    """Every case: distribution, number and model, from all modules `parity_cases*.py` beside this one."""
    for path in sorted(Path(__file__).parent.glob("parity_cases*.py")):
        for name, cases in importlib.import_module(f"{__package__}.{path.stem}").CASES.items():
            for number, case in enumerate(cases):
                yield name, number, case


def schema_of(case: Case) -> DataSchema:
    """What the case's graph may refer to."""
    return DataSchema({"x": "float64", "group": "int64"}, "y", str(case.response.dtype), ROWS)


def build(case: Case, observed: Any) -> pm.Model:
    """The case's model, with literals in double precision.

    PyTensor holds `2.0` as float32 by default and folds with that precision; model graphs know float64 only.
    """
    with pytensor.config.change_flags(cast_policy="numpy+floatX"), pm.Model() as model:
        case.program(observed)
    return model


def graph_document(case: Case) -> str:
    """The model graph that extraction makes of the case."""
    PROVENANCE.clear()
    schema = schema_of(case)
    model = build(case, placeholder("y", ROWS, schema.response_dtype))
    return json.dumps(extract_graph(model, schema, COVARIATES))


def reference(case: Case, seed: int = 0) -> dict[str, Any]:
    """PyMC's numbers for the case at a few random points.

    Returns:
        `names` of the free variables and, for each of `points`, their unconstrained values, the log `prior`
        with Jacobians (normalised), the log-likelihood of every one of `rows` (of all together where one
        number covers them) and the `gradient` of the sum of both.
    """
    model = build(case, case.response)
    values = [model.rvs_to_values[variable] for variable in model.free_RVs]
    with pytensor.config.change_flags(cast_policy="numpy+floatX"):
        prior = model.logp(vars=model.free_RVs, jacobian=True)
        (rows,) = model.logp(vars=model.observed_RVs, sum=False)
    # PyTensor's own loops for derivatives of incomplete gamma functions need its default policy
    slopes = pt.grad(prior + rows.sum(), values, disconnected_inputs="ignore")
    start = model.initial_point(random_seed=1)
    rng = np.random.default_rng(seed)
    drawn = [
        [SPREAD * rng.standard_normal(np.shape(start[value.name])) for value in values] for _ in range(POINTS)
    ]
    points = []
    for point, (log_prior, log_rows, *gradient) in zip(
        drawn, evaluated(values, [prior, rows, *slopes], drawn), strict=True
    ):
        points.append(
            {
                "values": [x.tolist() for x in point],
                "prior": float(log_prior) - case.excess,
                "rows": np.atleast_1d(log_rows).tolist(),
                "gradient": [np.asarray(x).tolist() for x in gradient],
            }
        )
    return {"names": [str(variable.name) for variable in model.free_RVs], "points": points}


def evaluated(inputs: list[Any], outputs: list[Any], points: list[list[Any]]) -> list[list[Any]]:
    """Outputs of a graph at several points, of the graph as it is written where PyTensor computes that.

    Rewriting takes most of a compilation's time, and a few operations (`CAR`'s) need it. So do derivatives
    of a density that chooses between two formulas (`ExGaussian`'s): as written, the one that is not chosen
    makes them not-a-number where it overflows.
    """
    try:
        function = pytensor.function(inputs, outputs, mode=UNREWRITTEN)
        computed = [function(*point) for point in points]
        if all(np.all(np.isfinite(output)) for outputs in computed for output in outputs):
            return computed
    except Exception:  # PyTensor has no one error for what it cannot compute so
        pass
    function = pytensor.function(inputs, outputs, mode="FAST_COMPILE")
    return [function(*point) for point in points]


def record(case: Case) -> dict[str, Any]:
    """A case's graph, response and numbers, or the reason why there is no graph."""
    try:
        graph = graph_document(case)
    except ProgramFailure as failure:
        return {"failure": str(failure)}
    return {"graph": graph, "response": case.response.tolist(), **reference(case)}


def main() -> None:
    """Records every case, one JSON object keyed `name[number]`."""
    parser = Options(description=__doc__)
    parser.add_argument("path", type=Path, help="where to write")
    path = parser.parse_args().path
    records = {}
    for name, number, case in all_cases():
        records[f"{name}[{number}]"] = record(case)
        print(f"{name}[{number}] {records[f'{name}[{number}]'].get('failure', '')}", file=sys.stderr)
    path.write_text(json.dumps({"pymc": pm.__version__, "documented": documented(), "records": records}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
