"""What honest programs may look like, and what they find in scope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs.canonical import canonical_form, canonicalise
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox import Sandbox
from tests.sandbox.conftest import COVARIATES, LINEAR, SCHEMA

BODY = """
        a = pm.Normal("a", 0, 10)
        b = pm.Normal("b", 0, 10)
        s = pm.HalfNormal("s", 1)
        pm.Normal("obs", a + b * np.log({age}), s, observed={length})
"""


def block(head: str, tail: str = "", **names: str) -> str:
    """A program around the body of the linear one."""
    return head + BODY.format(**{"age": "age", "length": "length"} | names) + tail


FORMS = {
    "module": LINEAR,
    "other name": LINEAR.replace("as model", "as growth"),
    "no name": LINEAR.replace(" as model", ""),
    "model as name of two": "with pm.Model() as other:\n    pm.Normal('z')\n" + LINEAR,
    "two names": LINEAR + "\nalias = model",
    "model(data)": block(
        "def model(data):\n    with pm.Model() as m:", "    return m", age="data.age", length="data.length"
    ),
    "build(data)": block(
        "def build(data):\n    with pm.Model() as m:",
        "    return m",
        age="data['age']",
        length="data['length']",
    ),
    "build()": block("def build():\n    with pm.Model() as m:", "    return m"),
    "build, called": block(
        "def build(d):\n    with pm.Model() as m:", "    return m\nmodel = build(data)", age="d.age"
    ),
    "gen_model": block(
        "def gen_model(observed_data):\n    with pm.Model() as m:",
        "    return m, {'var_names': ['a']}",
        age="observed_data['age']",
        length="observed_data['length'].values",
    ),
    "gen_model that samples": block(
        "import pymc as pm\nimport numpy as np\ndef gen_model(observed_data):\n    with pm.Model() as m:",
        """
        trace = pm.sample(1000, tune=1000, return_inferencedata=False)
        posterior_predictive = pm.sample_posterior_predictive(trace, random_seed=314,
        return_inferencedata=False)
    rng1 = np.random.default_rng(42)
    return m, posterior_predictive, trace
""",
        age="np.array(observed_data.age)",
        length="np.asarray(observed_data['length'])",
    ),
    "gen_model that returns nothing": block(
        "def gen_model(observed_data):\n    assert len(observed_data) == 9\n    with pm.Model() as m:",
        "    return pm.sample()",
    ),
    "main guard": block("def main():\n    with pm.Model() as m:", "\nif __name__ == '__main__':\n    main()"),
    "exits well": LINEAR + "\nimport sys\nsys.exit(0)",
    "pm.Data": LINEAR.replace("a = pm", "x = pm.Data('x', age)\n    y = pm.Data('y', length)\n    a = pm")
    .replace("(age)", "(x)")
    .replace("=length", "=y"),
    "new data after sampling": LINEAR.replace(
        "a = pm", "x = pm.Data('x', age)\n    y = pm.Data('y', length)\n    a = pm"
    )
    .replace("(age)", "(x)")
    .replace("=length", "=y, shape=x.shape")
    + """
    idata = pm.sample()
    pm.set_data({"x": [1.0, 2.0], "y": [0.0, 0.0]})
    idata.extend(pm.sample_posterior_predictive(idata, predictions=True))
with model:
    model.set_data("x", np.linspace(0, 1, 5))
""",
    "another value of shared data after sampling": "import pytensor\nx = pytensor.shared(np.asarray(age))\n"
    + LINEAR.replace("(age)", "(x)")
    + "    idata = pm.sample()\nx.set_value(np.ones(2))\n",
    "a model to predict with": LINEAR.replace("as model", "as growth")
    + """
with pm.Model() as predictions:
    a = pm.Flat("a")
    pm.Normal("new", a, 1)
    pm.sample_posterior_predictive(None)
""",
    "an intervention": LINEAR.replace("as model", "as growth") + "without = pm.do(growth, {'b': 0.0})\n",
    "data before sampling": LINEAR.replace(
        "a = pm", "x = pm.Data('x', np.ones(9))\n    pm.set_data({'x': age})\n    a = pm"
    ).replace("(age)", "(x)"),
    "rows of predictions given the response": LINEAR
    + """
    c = pm.Normal("c", pt.sum(pt.as_tensor_variable(np.asarray(length)[:8])), 1)
    d = pm.Deterministic("d", 2 * c)
    e = pm.Normal("e", d + model["obs"][0], 1, shape=np.int64(3))
""",
    "numbers of NumPy as shapes": LINEAR
    + "    pm.Normal('u', 0, 1, shape=site.max() + 1)\n    pm.Normal('v', 0, 1, size=np.int8(3))\n",
    "pm.MutableData": LINEAR.replace("a = pm", "x = pm.MutableData('x', age)\n    a = pm").replace(
        "(age)", "(x)"
    ),
    "observed afterwards": LINEAR.replace(", observed=length", "")
    + "\nmodel = pm.observe(model, {'obs': length})",
    "pictures": """
import matplotlib.pyplot as plt
import seaborn as sns
import plotly.express as px
from IPython.display import display
sns.set_theme()
plt.style.use("ggplot")
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
left.hist(age)
for ax in plt.subplots(2, 2)[1].flatten():
    ax.scatter(age, np.log(age), color="C0")
heights, edges, bars = plt.hist(age, bins=5)
display(px.scatter(x=age, y=age))
"""
    + LINEAR
    + """
    idata = pm.sample()
for name in idata.posterior.keys():
    plt.plot(idata.posterior[name].mean("draw"))
plt.savefig("trace.png")
plt.show()
""",
    "samplers": "import nutpie, numpyro\nfrom pymc.sampling.jax import sample_numpyro_nuts\n"
    "numpyro.set_host_device_count(4)\n"
    + LINEAR
    + "    sample_numpyro_nuts(draws=500)\nnutpie.sample(nutpie.compile_pymc_model(model), seed=1)\n",
    "pandas' pictures": "import pandas as pd\ndf = pd.DataFrame({'age': age, 'length': length})\n"
    "df.plot.scatter(x='age', y='length')\ndf['age'].plot(kind='hist')\ndf.hist()\ndf.info()\n" + LINEAR,
    "older names": "import aesara.tensor as at\nimport theano.tensor as tt\n"
    + LINEAR.replace("Model()", "Model(coords_mutable={'row': range(9)})")
    .replace("    a = pm", "    model.add_coord('two', [0, 1], mutable=True)\n    a = pm")
    .replace("a + b * np.log(age)", "at.add(a, tt.mul(b, np.log(age)))")
    .replace("=length", "=length, dims='row'"),
    "cast response": LINEAR.replace("=length", "=np.asarray(length).astype(float)"),
    "int response": LINEAR.replace("=length", "=length.astype(int)"),
    "to_numpy": LINEAR.replace("=length", "=length.to_numpy()[:]"),
    "data frame": LINEAR.replace("=length", "=__import__('pandas').DataFrame(dict(data))['length']"),
    "coordinates": LINEAR.replace("Model()", "Model(coords={'row': range(9)})").replace(
        "=length", "=length, dims='row'"
    ),
    "initial values": LINEAR.replace('("a", 0, 10)', '("a", 0, 10, initval=3.0)'),
}


def test_the_ordered_transform_has_its_older_names(sandbox: Sandbox) -> None:
    source = """
with pm.Model() as model:
    m = pm.Normal("m", 0, 5, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
    pm.NormalMixture("obs", w=[0.5, 0.5], mu=m, sigma=1, observed=length)
"""
    graphs = {
        sandbox.build(source.replace("transforms.ordered", f"transforms.{name}"), SCHEMA, COVARIATES)
        for name in ("ordered", "univariate_ordered", "multivariate_ordered")
    }
    assert len(graphs) == 1


@pytest.mark.parametrize("name", FORMS)
def test_forms_give_the_same_graph(name: str, sandbox: Sandbox) -> None:
    def canonical(source: str) -> str:
        return canonical_form(canonicalise(parse_graph(sandbox.build(source, SCHEMA, COVARIATES), SCHEMA)))

    assert canonical(FORMS[name]) == canonical(LINEAR)


HONEST = {
    "imports": "import pymc as pm, numpy as np, arviz as az, math, warnings, os, logging\nimport random\n"
    "import pytensor.tensor as pt\nimport scipy.stats as st\nfrom scipy import special\nimport pandas as pd\n"
    "import matplotlib.pyplot as plt\nfrom dataclasses import dataclass\nfrom typing import Any\n",
    "silence": "import warnings, logging, os\nwarnings.filterwarnings('ignore')\n"
    "logging.getLogger('pymc').setLevel(logging.ERROR)\nos.environ['OMP_NUM_THREADS'] = '1'\n",
    "seeds": "np.random.seed(3)\nrng = np.random.default_rng(1)\nimport random\nrandom.seed(0)\n",
    "shape of the response": "assert len(length) == length.shape[0] == length.size == data.shape[0] == 9\n"
    "zeros = np.zeros_like(length); n = np.shape(length)\nprint(length, repr(length))\n",
    "columns": "assert set(data) == {'age', 'site', 'length'} and data.columns == list(data.keys())\n"
    "top = round(float(age.max()), 1); low = f'{age.mean():.2f}'; d = {age.min(): 1}; s = sorted(age)\n"
    "groups = np.unique(site); k = len(groups); i = int(site.max()) + 1; c = age.copy(); c[0] = 2\n",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_preambles_are_accepted(name: str, build: Any) -> None:
    assert build(HONEST[name] + LINEAR) == build(LINEAR)


STUBBED = """
    idata = pm.sample(1000, tune=1000, chains=4, cores=4, random_seed=1)
    prior = pm.sample_prior_predictive(500)
    idata.extend(pm.sample_posterior_predictive(idata))
    approx = pm.fit(20000, method="advi")
    map_estimate = pm.find_MAP()
    smc = pm.sample_smc()
    steps = [pm.Metropolis(vars=[a]), pm.ElemwiseCategorical(vars=[a], values=[0, 1]), pm.NUTS([a])]
    trace = pm.sample(1000, step=steps, callback=lambda *rest: None)
    tracker = pm.ADVI().fit(1000)
    pm.compute_log_likelihood(idata)
import arviz as az
from arviz import loo
summary = az.summary(idata, var_names=["a"])
print(summary, f"{idata.posterior['a'].mean():.3f}", summary.shape, loo(idata).elpd_loo)
az.plot_trace(idata)
for name in idata.posterior:
    raise AssertionError
pm.model_to_graphviz(model)
"""


@pytest.mark.parametrize(
    "statistic",
    ["np.asarray(length).mean()", "np.array(length, dtype=float).std()", "np.log(np.asarray(length)).max()"],
)
def test_a_copy_of_the_response_has_no_values_either(statistic: str, sandbox: Any) -> None:
    with pytest.raises(ProgramFailure, match="has no values here"):
        sandbox.build(LINEAR.replace('("a", 0', f'("a", {statistic}'), SCHEMA, COVARIATES)


WHAT_TO_WRITE = {
    "import bambi as bmb": "No module named 'bambi'; write the columns and coefficients",
    "from sklearn.preprocessing import StandardScaler": "write what it computes with NumPy",
    "pm.find_constrained_prior(pm.Normal, 0, 1)": "write the parameters that it finds as numbers",
    "with pm.Model():\n    a = pm.Normal('a', **pm.find_MAP(pm.Normal('b')))": "programs do not sample",
    "import pymc_bart as pmb": "Write a spline or a Gaussian process",
    "import pymc3 as pm": "write a program of PyMC 5",
    "import pymc_extras as pmx": "with distributions of pymc alone",
    "import jax.numpy as jnp": "samplers belong to the scorer",
    "from patsy import dmatrix": "write the columns and coefficients",
    "with pm.Model():\n    z = pm.Normal('z', 0, 1, shape=3.0)": r"line 2: .* write int\(",
    "pm.ode.DifferentialEquation(func=None, times=age, n_states=1, n_theta=1)": "steps of Euler",
}


@pytest.mark.parametrize("line", WHAT_TO_WRITE)
def test_what_cannot_be_is_answered_with_what_to_write(line: str, sandbox: Any) -> None:
    with pytest.raises(ProgramFailure, match=WHAT_TO_WRITE[line]):
        sandbox.build(f"{line}\n{LINEAR}", SCHEMA, COVARIATES)


@pytest.mark.parametrize("line", ["pm.Normal('q', 0, sd=10)", "pm.Beta('q', alpha=2.0, beta=1.0, scale=3.0)"])
def test_an_argument_that_a_distribution_does_not_have_is_an_error(line: str, sandbox: Any) -> None:
    source = LINEAR.replace("    a = pm", f"    {line}\n    a = pm", 1)
    assert line in source
    with pytest.raises(ProgramFailure, match=r"line 3: .* unexpected keyword argument '(sd|scale)'"):
        sandbox.build(source, SCHEMA, COVARIATES)


MINIBATCH = """
x, y = pm.Minibatch(age, length, batch_size=3)
with pm.Model() as model:
    a = pm.Normal("a", 0, 10)
    b = pm.Normal("b", 0, 10)
    s = pm.HalfNormal("s", 1)
    pm.Normal("obs", a + b * np.log(x), s, observed=y, total_size=len(length))
    pm.fit(1000)
"""


def test_minibatches_are_all_rows(build: Any) -> None:
    assert build(MINIBATCH) == build(LINEAR)


def test_sampling_does_nothing_and_costs_nothing(build: Any) -> None:
    assert build(LINEAR + STUBBED) == build(LINEAR)


def test_what_sampling_would_have_given_has_no_value(sandbox: Sandbox) -> None:
    with pytest.raises(ProgramFailure, match="programs do not sample") as caught:
        sandbox.build(LINEAR + "    m = float(pm.sample().posterior['a'].mean())", SCHEMA, COVARIATES)
    assert caught.value.category is FailureCategory.RAISED


USES = [
    "length.mean()",
    "np.mean(length)",
    "np.std(length)",
    "length + 1",
    "1 / length",
    "np.log(length)",
    "length[0]",
    "length > 2",
    "float(length[0])",
    "list(length)",
    "max(length)",
    "length.max()",
    "length.tolist()",
    "length.sum()",
    "age * length",
    "np.dot(age, length)",
    "np.stack([age, length])",
    "np.sort(length)",
    "bool(length.any())",
    "data['length'].std()",
    "data.length.values.mean()",
    "'%f' % length",
    "np.where(length > 0, 1, 0)",
    "pm.math.log(pm.Data('y', length)).mean()",
    "pt.mean(length)",
]


@pytest.mark.parametrize("use", USES)
def test_the_response_has_no_values(use: str, sandbox: Sandbox) -> None:
    source = LINEAR.replace("a = pm", f"z = {use}\n    a = pm").replace("a + b", "a + 0 * z + b")
    with pytest.raises(ProgramFailure, match="only as observed=") as caught:
        sandbox.build(source, SCHEMA, COVARIATES)
    assert caught.value.category in {FailureCategory.RAISED, FailureCategory.BAD_GRAPH}


def test_no_value_of_the_response_can_reach_a_graph(sandbox: Sandbox) -> None:
    """What crosses to the worker is the schema and the covariates, without the response's values."""
    from synthstats_lightning.tasks import Task

    rng = np.random.default_rng(0)
    graphs = set()
    for _ in range(3):
        task = Task("t", "d", {**COVARIATES, "length": rng.normal(size=9)}, "length")
        graphs.add(sandbox.build(LINEAR, task.schema, task.covariates))
    assert len(graphs) == 1
    source = LINEAR.replace("a = pm", "z = length.view(np.ndarray).sum()\n    a = pm").replace(
        "a + b", "a + z + b"
    )
    assert len({sandbox.build(source, SCHEMA, COVARIATES) for _ in range(2)}) == 1


def test_programs_do_not_affect_each_other(build: Any) -> None:
    before = build(LINEAR)
    with pytest.raises(ProgramFailure):
        build("import numpy, pymc\nnumpy.log = numpy.exp\npymc.Normal = pymc.Cauchy\nassert 0")
    assert build(LINEAR) == before


BENIGN = json.loads((Path(__file__).parent / "benign.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("program", BENIGN, ids=lambda program: program["id"])
def test_honest_python_runs_to_its_end(program: dict[str, str], sandbox: Sandbox) -> None:
    sandbox.execute(program["code"])


def test_execute_returns_what_was_printed(sandbox: Sandbox) -> None:
    assert sandbox.execute("import sys\nprint('out')\nprint('err', file=sys.stderr)") == "out\nerr\n"
    assert sandbox.execute("print('\\udcff\\xff'.encode('utf-8', 'surrogateescape').decode('latin-1'))")
