"""Programs run in the worker itself before any other, so that forks find modules imported and code warm."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.sandbox.inside import program
from synthstats_lightning.sandbox.inside.expressions import PROVENANCE
from synthstats_lightning.sandbox.protocol import Job

SOURCE = """\
import pymc as pm
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", np.mean(x), 1, shape=2)
    s = pm.HalfNormal("s", 1)
    m = pm.Deterministic("m", a + b[0] * np.log(x) + pm.math.dot(b, b) + pt.exp(-b[1] * x))
    pm.StudentT("y", nu=4, mu=m, sigma=s, observed=data["y"])
"""


COMMON = """\
with pm.Model() as model:
    a = pm.Normal("a", mu=0.0, sigma=1.0)
    b = pm.HalfCauchy("b", 1.0)
    c = pm.LogNormal("c", 0.0, 1.0)
    d = pm.Gamma("d", 2.0, 1.0)
    e = pm.Exponential("e", 1.0)
    m = a - b * x + c * pm.math.exp(-d * x) / (1.0 + x ** 2) + np.sqrt(x)
    pm.Normal("y", mu=m, sigma=e, observed=y)
"""
REPEATS = 12
"""Python 3.11 rewrites code on its eighth call: in a fork that would be a copy of its page each time."""


def build_programs() -> None:
    """Builds small model graphs.

    Raises:
        RuntimeError: If that fails, which means that this release of PyMC is not supported.
    """
    schema = DataSchema(columns={"x": "float64"}, response="y", response_dtype="float64", num_rows=3)
    covariates = {"x": np.array([1.0, 2.0, 4.0])}
    for source in REPEATS * (SOURCE, COMMON):
        document = program.run(Job(source, build=True, schema=schema, covariates=covariates), 1 << 20)
        PROVENANCE.clear()
        if b'"failure"' in document:
            raise RuntimeError(f"the sandbox cannot read this release of PyMC: {document.decode()}")
