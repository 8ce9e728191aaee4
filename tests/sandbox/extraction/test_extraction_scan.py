"""Loops of fixed length, unrolled: model graphs against PyTensor's own evaluation of the loop."""

from __future__ import annotations

import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from tests.sandbox.extraction.test_extraction import check

HEAD = """
import pytensor
from pytensor import scan

with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Beta("b", 2, 3)
    v = pm.Normal("v", a, 1, shape=3)
"""
TAIL = '    pm.Normal("obs", mu, pm.math.exp(b), observed=length)\n'

LOOPS = {
    "recurrence": """
    out, _ = scan(lambda x, last, a, b: a * x + b * last, sequences=[pt.as_tensor_variable(age)],
                  outputs_info=[pt.zeros(())], non_sequences=[a, b])
    mu = out
""",
    "last value": """
    out, _ = scan(fn=lambda last, a, b: last * b + a, outputs_info=a, n_steps=4, non_sequences=[a, b])
    mu = out[-1] * age + out[1]
""",
    "taps": """
    out, _ = scan(lambda x, two, one, a, b: a + 0.5 * one - b * two + x, sequences=[pt.as_tensor(age)],
                  outputs_info=[dict(initial=pt.stack([a, b]), taps=[-2, -1])], non_sequences=[a, b])
    mu = out
""",
    "taps of a sequence": """
    out, _ = scan(lambda now, before, b: now - b * before,
                  sequences=[dict(input=pt.as_tensor(age), taps=[0, -1])], non_sequences=[b])
    mu = pt.concatenate([pt.stack([a]), out])
""",
    "several outputs": """
    def step(x, g, level, trend, b, v):
        new = b * x + (1 - b) * (level + trend)
        return new, 0.3 * (new - level) + 0.7 * trend, level + trend + v[g]

    (level, trend, mu), _ = pytensor.scan(
        step, sequences=[pt.as_tensor(age), pt.as_tensor(site)], outputs_info=[a, pt.zeros(()), None],
        non_sequences=[b, v])
    pm.Deterministic("level", level)
""",
    "vector state": """
    A = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.1, 0.0, 0.3]])
    out, _ = scan(lambda x, state, b: pt.dot(A, state) * b + x, sequences=[pt.as_tensor(age)],
                  outputs_info=[v], non_sequences=[b])
    mu = out[:, 1] + out[::2].sum()
""",
    "map": """
    columns = [pt.as_tensor(age), pt.as_tensor(site)]
    out, _ = pytensor.map(lambda x, g, b, v: pt.exp(-b * x) + v[g], columns, [b, v])
    mu = out
""",
    "reduce": """
    from pytensor.scan.views import reduce
    out, _ = reduce(lambda x, total, b: total + b * x**2, [pt.as_tensor(age)], a, [b])
    mu = out * age
""",
    "foldl": """
    from pytensor.scan.views import foldl
    out, _ = foldl(lambda x, total, a: pt.maximum(total, a * x), [pt.as_tensor(age)], pt.zeros(()), [a])
    mu = out + age
""",
    "backwards": """
    out, _ = scan(lambda x, last, b: last * b + x, sequences=[pt.as_tensor(age)], outputs_info=[a],
                  non_sequences=[b], go_backwards=True)
    mu = out[::-1]
""",
    "branch": """
    out, _ = scan(lambda x, last, b: pt.switch(last > 1, last * b, last + x),
                  sequences=[pt.as_tensor(age)], outputs_info=[a], non_sequences=[b])
    mu = out
""",
    "loop in a loop": """
    def outer(x, last, b, v):
        inner, _ = scan(lambda y, b, last: y * b + last, sequences=[v], non_sequences=[b, last])
        return inner.sum() / (1 + x)

    mu, _ = scan(outer, sequences=[pt.as_tensor(age)], outputs_info=[a], non_sequences=[b, v])
""",
    "counting": """
    out, _ = scan(lambda i, last, v: last + v[i % 3], sequences=[pt.arange(9)], outputs_info=[pt.zeros(())],
                  non_sequences=[v])
    mu = out
""",
    "one step": """
    out, _ = scan(lambda last, a, b: last * b + a, outputs_info=[a], n_steps=1, non_sequences=[a, b])
    mu = out[0] * age
""",
    "constant coefficients": """
    out, _ = scan(lambda x, last: 0.3 * last + x, sequences=[pt.as_tensor(age)], outputs_info=[a])
    mu = out
""",
    "integers": """
    count, _ = scan(lambda g, last: last + pt.eq(g, 1), sequences=[pt.as_tensor(site)],
                    outputs_info=[pt.as_tensor(np.int64(0))])
    mu = a * count
""",
}


@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
@pytest.mark.parametrize("name", LOOPS)
def test_loops_agree_with_pytensor(name: str) -> None:
    check(HEAD + LOOPS[name] + TAIL)


REFUSED = {
    "until": (
        """
    from pytensor.scan.utils import until
    out, _ = scan(lambda last: (last * 2, until(last > 8)), outputs_info=[a], n_steps=50)
    mu = out[-1] * age
""",
        "ends by a condition",
    ),
    "draws": (
        """
    def step(last):
        noise = pm.Normal.dist(0, 1)
        return last + noise, pm.pytensorf.collect_default_updates([noise])

    out, _ = scan(step, outputs_info=[a], n_steps=9)
    mu = out
""",
        "draws random variables",
    ),
    "reads a variable of the model that it was not given": (
        """
    out, _ = scan(lambda last: last * b, outputs_info=[a], n_steps=9)
    mu = out
""",
        "non_sequences",
    ),
    "too long a chain": (
        """
    def step(last, b):
        return pt.tanh(pt.sin(pt.tanh(pt.sin(last * b + 1) + b) + 1) + b)

    out, _ = scan(step, outputs_info=[a], n_steps=450, non_sequences=[b])
    mu = out[-1] * age
""",
        "450 steps, which unrolls to .* nodes in chains",
    ),
    "too many steps": (
        """
    out, _ = scan(lambda last, b: last * b, outputs_info=[a], n_steps=100_000, non_sequences=[b])
    mu = out[-1] * age
""",
        "100000 steps",
    ),
    "random length": (
        """
    steps = pt.cast(pt.exp(a), "int64") + 1
    out, _ = scan(lambda last, b: last * b, outputs_info=[a], n_steps=steps, non_sequences=[b])
    mu = out[-1] * age
""",
        "depends on a random variable",
    ),
}


@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_loops_outside_the_language_say_why(name: str) -> None:
    source, reason = REFUSED[name]
    with pytest.raises(ProgramFailure, match=reason) as failure:
        check(HEAD + source + TAIL)
    assert failure.value.category == FailureCategory.UNSUPPORTED
