"""Parameters of one name: each of them keeps what it is for."""

from __future__ import annotations

import pytest

from synthstats_lightning import ProgramScorer
from synthstats_lightning.policy.pointers.declared import declared_once
from synthstats_lightning.tasks import get_task
from tests.policy.pointers.test_spelling import facts_of

TWICE = """with pm.Model() as model:
    a = pm.Normal("a", 2, 1)
    b = pm.Normal("b", 0, 1)
    c = pm.Normal("c", 0, 1)
    mu = a + b*age + c*age**2
    s = pm.HalfNormal("s", 1)
    c = pm.Normal("c", 0, 3)
    pm.SkewNormal("y", mu=mu, sigma=s, alpha=c, observed=length)"""
ONCE = TWICE.replace('c = pm.Normal("c", 0, 3)', 'c_ = pm.Normal("c_", 0, 3)').replace(
    "alpha=c,", "alpha=c_,"
)


def test_a_second_parameter_of_a_name_has_one_of_its_own():
    assert declared_once(TWICE) == ONCE
    with ProgramScorer(num_workers=1) as scorer:
        assert "already exists" in scorer.score(TWICE, get_task("dugongs")).message
        found, clear = (
            scorer.score(each, get_task("dugongs")) for each in (ONCE, ONCE.replace("c_", "skew"))
        )
    assert found.scored
    assert found.canonical == clear.canonical


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # the arguments of a declaration mean the one before it
        (
            ['c = pm.Normal("c", 0, 1)', 'c = pm.Normal("c", c, 1)', "mu = c*c[0]"],
            ['c = pm.Normal("c", 0, 1)', 'c_ = pm.Normal("c_", c, 1)', "mu = c_*c_[0]"],
        ),
        # names that are taken, arguments and attributes
        (
            [
                'u = pm.Normal("u", 0, 1)',
                "u_ = 2",
                'u = pm.Normal("u", mu=u_, sigma=1)',
                "mu = f(u=u, x=x.u)",
            ],
            [
                'u = pm.Normal("u", 0, 1)',
                "u_ = 2",
                'u__ = pm.Normal("u__", mu=u_, sigma=1)',
                "mu = f(u=u__, x=x.u)",
            ],
        ),
        (  # letters of other names
            ['p = pm.Beta("p", 1, 1)', 'p = pm.Beta("p", 2, 2)', "mu = pt.exp(p)*pm.p"],
            ['p = pm.Beta("p", 1, 1)', 'p_ = pm.Beta("p_", 2, 2)', "mu = pt.exp(p_)*pm.p"],
        ),
        (
            ["c = pm.Normal('c', 0, 1)"] * 3,
            ["c = pm.Normal('c', 0, 1)", "c_ = pm.Normal('c_', 0, 1)", "c__ = pm.Normal('c__', 0, 1)"],
        ),
    ],
)
def test_what_follows_means_the_last_one(lines, expected):
    block = [f"    {line}" for line in lines]
    wanted = [f"    {line}" for line in expected]
    header = "with pm.Model() as model:"
    assert declared_once("\n".join([header, *block])) == "\n".join([header, *wanted])


@pytest.mark.parametrize(
    "source",
    [
        TWICE.replace("with pm.Model() as model:", "with pm.Model('first') as model:"),
        ONCE,
        TWICE.replace('c = pm.Normal("c", 0, 3)', "c = 2*c"),
        "c = 1\nc = 2",
        "",
    ],
)
def test_other_programs_stay_as_they_are(source):
    assert declared_once(source) == source


def test_what_a_policy_writes_is_read_so(writer):
    source = TWICE.replace("age", "x").replace("length", "y")
    ids = writer.encode_program(source, facts_of("x"))
    read = writer.decode(ids, facts_of("x"))
    assert read == ONCE.replace("age", "x").replace("length", "y")
    # and what was read is read again as it is
    assert writer.decode(writer.encode_program(read, facts_of("x")), facts_of("x")) == read
