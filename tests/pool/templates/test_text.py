"""Which programs are so plain that their priors' constants can be told from their text."""

import ast

import pytest

from synthstats_lightning.pool.templates.text import template_of

PLAIN = """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 0.4, shape=2)  # two of them
    rate = pm.Exponential("rate", lam=3)
    mu = a[0] + a[1] * np.log(age) - 0.5 * pm.math.exp(
        -rate * (age - age.mean())
    )
    pm.StudentT("y", nu=4.0, mu=mu, sigma=.25, observed=length)
"""


def block(*lines: str) -> str:
    return "\n".join(["with pm.Model() as model:", *(f"    {line}" for line in lines), ""])


def test_constants_of_priors_are_lifted_and_put_back():
    template = template_of(PLAIN)
    assert template is not None
    assert template.constants == ("2.0", "0.4", "3", "4.0", ".25")
    assert template.filled(template.constants) == PLAIN
    other = template.filled(("1.5", "7", "2.5", "5", "1e-3"))
    assert template_of(other).parts == template.parts
    numbers = [node.value for node in ast.walk(ast.parse(other)) if isinstance(node, ast.Constant)]
    assert {1.5, 7, 2.5, 5, 1e-3, 0.5} < set(numbers)


def test_what_a_library_may_treat_apart_stays_in_the_text():
    source = block(
        'a = pm.Normal("a", 0, -1.5)', 'b = pm.Normal("b", 0.0, 1e9)', 'c = pm.Gamma("c", 2.0, 300)'
    )
    template = template_of(source)
    assert template.constants == ("1.5", "2.0")
    assert template_of(block('u = pm.Uniform("u", 0.5, 1.0)')) is None
    # arithmetic, lengths and numbers of other calls are no constants of a prior
    assert template_of(block('a = pm.Normal("a", 2.0 * 3.0, np.log(2.0), shape=3, initval=0.5)')) is None


@pytest.mark.parametrize(
    "line",
    [
        'x = 1.0 if 0.5 < 0.7 else pm.Normal("a", 2.0, 1.5)',
        'x = [pm.Normal("a", 2.0, 1.5) for i in age]',
        'x = (lambda z: z)(pm.Normal("a", 2.0, 1.5))',
        'pm = pm.Normal("a", 2.0, 1.5)',
        'np.random.seed(pm.Normal("a", 2.0, 1.5))',
        'x = pm.Normal("a", 2.0, 1.5) or 3.0',
        'x = pm.Normal("a", 2.0, 1.5).eval()',
        'x = age.mean(pm.Normal("a", 2.0, 1.5))',
        'x = float(pm.Normal("a", 2.0, 1.5))',
        'x = (y := pm.Normal("a", 2.0, 1.5))',
        'x = pm.Normal("a\\n", 2.0, 1.5)',
        'x = pm.Normal(f"a", 2.0, 1.5)',
        'x = pm.Normal("a", 2.0, 1.5); y = 3.0',
        'x = pm.Normal("a", 2.0, 1_5)',
        'x = pm.Normal("a", 2.0, 0x10)',
        'x = pm.Normal("a", 2.0, 1.5j)',
        'x = pm.Normal("a", 2.0, 1.5)\nx = 3.0',
        'x = pm.Normal("a", 2.0, 1.5)\n        y = 3.0',
        'x = age.__class__\n    y = pm.Normal("a", 2.0, 1.5)',
        'x = np.float32\n    y = pm.Normal("a", 2.0, 1.5)',
        'x = np.load("a")\n    y = pm.Normal("a", 2.0, 1.5)',
        'x = pm.math.exp.f(pm.Normal("a", 2.0, 1.5))',
        'x = pm.Normal("a", 2.0, 1.5',
        'x = pm.Normal("a", 2.0, 1.5))',
        'x = data["age"] @ pm.Normal("a", 2.0, 1.5)',
        'x = pm.Normal("ä", 2.0, 1.5)',
        '# coding: latin-1\n    x = pm.Normal("a", 2.0, 1.5)',
    ],
)
def test_whatever_could_choose_is_not_plain(line):
    assert template_of(block('b = pm.Normal("b", 0.5, 1.5)')) is not None
    assert template_of(block('b = pm.Normal("b", 0.5, 1.5)', line)) is None


@pytest.mark.parametrize(
    "source",
    [
        'import pymc as pm\nimport os\nwith pm.Model() as model:\n    x = pm.Normal("a", 2.0, 1.5)\n',
        'x = pm.Normal("a", 2.0, 1.5)\n',
        'with pm.Model() as model: x = pm.Normal("a", 2.0, 1.5)\n',
        'with pm.Model(coords=c) as model:\n    x = pm.Normal("a", 2.0, 1.5)\n',
        'def f():\n    with pm.Model() as model:\n        x = pm.Normal("a", 2.0, 1.5)\n',
        'with pm.Model() as model:\n\tx = pm.Normal("a", 2.0, 1.5)\n',
        "",
        "with pm.Model() as model:\n",
        "(" * 3000,
        PLAIN + "\n" * 5000,
    ],
)
def test_other_layouts_are_not_plain(source):
    assert template_of(source) is None


def test_imports_as_people_write_them_are_plain():
    assert template_of("import pymc as pm\nimport numpy as np\n" + PLAIN) is not None
