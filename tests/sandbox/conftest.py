"""A worker shared by the tests of this room, and extraction in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.sandbox import Sandbox, SandboxLimits

ROWS = 9
AGE = np.array([1.0, 1.5, 2.5, 4.0, 5.0, 8.5, 12.0, 17.0, 31.5])
SITE = np.array([0, 1, 2, 0, 1, 2, 0, 2, 1])
COVARIATES = {"age": AGE, "site": SITE}
SCHEMA = DataSchema(
    columns={"age": "float64", "site": "int64"}, response="length", response_dtype="float64", num_rows=ROWS
)
COUNTS = DataSchema(
    columns={"age": "float64", "site": "int64"}, response="length", response_dtype="int64", num_rows=ROWS
)

LINEAR = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 10)
    b = pm.Normal("b", 0, 10)
    s = pm.HalfNormal("s", 1)
    pm.Normal("obs", a + b * np.log(age), s, observed=length)
"""


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A warm sandbox with short limits; its worker outlives every program of these tests."""
    limits = SandboxLimits(cpu_seconds=2, wall_seconds=1.0, address_space=256 << 20)
    with Sandbox(limits) as warm:
        yield warm.start()


@pytest.fixture
def build(sandbox: Sandbox) -> Any:
    """Source to model graph, as Python data."""

    def run(source: str, schema: DataSchema = SCHEMA) -> dict[str, Any]:
        return json.loads(sandbox.build(source, schema, COVARIATES))

    return run
