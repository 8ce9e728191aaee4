"""Documents that are filled in are those that a build gives, to the character."""

import json
import random

import numpy as np
import pytest

from synthstats_lightning.pool.templates.documents import PROBES, learn, probes
from synthstats_lightning.pool.templates.known import BUILDS, KnownTemplates
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.sandbox import Sandbox

ROWS = 9
DATA = {"age": np.linspace(1.0, 30.0, ROWS), "count": np.arange(ROWS)}
SCHEMA = DataSchema({"age": "float64", "count": "int64"}, "length", "float64", ROWS)
EXTREMES = (
    "1e-6",
    "1000000.0",
    "1",
    "1.0",
    "2",
    "100",
    "0.5",
    "3.0",
    "1e3",
    "7.25",
    "2.0",
    "1e-3",
    "999999.9",
)

PROGRAMS = {
    "every_law": """
with pm.Model() as model:
    a = pm.Normal("a", 1.5, sigma=2.0)
    b = pm.HalfNormal("b", 1.5)
    c = pm.LogNormal("c", -0.5, 0.25)
    d = pm.Exponential("d", 3.0)
    e = pm.Gamma("e", 2.0, 0.5)
    f = pm.InverseGamma("f", alpha=3.0, beta=0.5)
    g = pm.HalfCauchy("g", 0.5)
    h = pm.Cauchy("h", 0.5, 2.5)
    i = pm.Laplace("i", mu=0.5, b=2.5)
    j = pm.HalfStudentT("j", 4.0, 2.5)
    k = pm.Beta("k", 1.5, 2.5)
    m = pm.Logistic("m", 1.5, 2.5)
    n = pm.Gumbel("n", 1.5, beta=2.5)
    o = pm.Weibull("o", 1.5, 2.5)
    mu = a + b * c + d * e + f * g + h * i + j * k + m * n + o
    pm.StudentT("y", 4.0, mu=mu, sigma=0.5, observed=length)
""",
    "shapes": """
import pymc as pm
with pm.Model() as model:
    a = pm.Normal("a", -2.0, 0.4, shape=2)
    b = pm.Normal("b", a, 0.4, shape=(3, 2))
    c = pm.Normal("c", mu=a[0], sigma=0.3)
    z = (age - age.mean()) / age.std()
    pm.Deterministic("total", a[0] + a[1] * z)
    pm.Normal("y", a[0] + a[1] * z ** 2 + b[0, 1] + c, pm.math.exp(b[1, 0]) + 1.0, observed=length)
""",
    "arguments": """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.5)
    pm.Normal("y", a * age, 0.7, observed=length)
""",
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as one:
        yield one


@pytest.mark.parametrize("name", PROGRAMS)
def test_documents_are_what_a_build_gives(sandbox, name):
    from synthstats_lightning.pool.templates.text import template_of

    template, generator, known, built = template_of(PROGRAMS[name]), random.Random(0), KnownTemplates(), []

    def build(source):
        built.append(source)
        return sandbox.build(source, SCHEMA, DATA)

    sources = [PROGRAMS[name]]
    for _ in range(12):
        sources.append(template.filled([generator.choice(EXTREMES) for _ in template.constants]))
    sources += [template.filled([constant] * len(template.constants)) for constant in EXTREMES]
    for source in sources:
        assert known.build(source, SCHEMA, "data", build) == sandbox.build(source, SCHEMA, DATA)
    assert len(built) == BUILDS + PROBES
    assert known.filled == len(sources) - BUILDS


def test_constants_that_change_more_than_numbers_are_built(sandbox):
    """PyMC makes shape and rate of mean and standard deviation: neither is a constant as it is written."""
    source = """
with pm.Model() as model:
    a = pm.Gamma("a", mu=%s, sigma=0.5)
    pm.Normal("y", a, 1.0, observed=length)
"""
    known = KnownTemplates()
    for mean in ("1.25", "2.5", "3.5", "4.5"):
        text = source % mean
        found = known.build(text, SCHEMA, "data", lambda each: sandbox.build(each, SCHEMA, DATA))
        assert found == sandbox.build(text, SCHEMA, DATA)
    assert known.filled == 0


def test_other_data_and_columns_are_other_templates():
    known, source = KnownTemplates(), PROGRAMS["arguments"]
    for fingerprint in ("one", "other"):
        for _ in range(2 * BUILDS):
            assert (
                known.build(source, SCHEMA, fingerprint, lambda text, name=fingerprint: name) == fingerprint
            )
    renamed = DataSchema({"pm": "float64"}, "length", "float64", ROWS)
    for _ in range(2 * BUILDS):
        assert known.build(source, renamed, "one", lambda text: "renamed") == "renamed"
    assert known.filled == 0


def test_programs_that_fail_are_built_each_time():
    known, calls = KnownTemplates(), []

    def build(source):
        calls.append(source)
        raise ProgramFailure(FailureCategory.RAISED, "no")

    for _ in range(5):
        with pytest.raises(ProgramFailure, match="no"):
            known.build(PROGRAMS["arguments"], SCHEMA, "data", build)
    assert len(calls) == 5


def node(value, dtype="float64"):
    return {"op": "constant", "value": value, "dtype": dtype}


def document(*nodes, response=0):
    return json.dumps({"format": 1, "nodes": nodes, "response": response}, separators=(",", ":"))


def test_only_what_constants_explain_is_learned():
    made = [("2.5",), *probes(1, 0)]
    numbers = [int(written) if written.isdigit() else float(written) for (written,) in made]
    types = ["int64" if isinstance(number, int) else "float64" for number in numbers]
    plain = [document(node(x, t), node(9.0)) for x, t in zip(numbers, types, strict=True)]
    learned = learn(list(zip(made, plain, strict=True)))
    assert learned.filled(("7",)) == document(node(7, "int64"), node(9.0))
    over = [document(node([[-1.0 / x]])) for x in numbers]
    assert learn(list(zip(made, over, strict=True))).filled(("8.0",)) == document(node([[-0.125]]))
    for wrong in (
        [document(node(x**2)) for x in numbers],
        [document(node(float(x))) for x in numbers],  # a whole number stays one
        [document(node(9.0)) for _ in numbers],  # the constant has gone
        [document(node(x, t), response=k) for k, (x, t) in enumerate(zip(numbers, types, strict=True))],
        [document(*[node(x, t)] * (1 + k)) for k, (x, t) in enumerate(zip(numbers, types, strict=True))],
        [document({"op": "exp", "inputs": [x]}) for x in numbers],
    ):
        assert learn(list(zip(made, wrong, strict=True))) is None


def test_constants_that_a_library_makes_one_of_where_they_are_equal_are_not_learned():
    made = [("2.5", "3.5"), *probes(2, 0)]
    apart, merged = [], []
    for written in made:
        each = [node(int(x), "int64") if x.isdigit() else node(float(x)) for x in written]
        apart.append((written, document(*each)))
        merged.append((written, document(*(each if written[0] != written[1] else each[:1]))))
    assert learn(apart).filled(("4.5", "4.5")) == document(node(4.5), node(4.5))
    assert learn(merged) is None


def test_probes_show_every_constant_as_every_kind_of_number():
    for count in (1, 2, 5):
        made = probes(count, 7)
        assert len(made) == PROBES
        assert len({*made[-1]}) == 1
        for slot in range(count):
            assert sorted(written[slot].isdigit() for written in made) == [False, False, True]
            assert len({written[slot] for written in made}) == PROBES
