"""Forms: what leaves them as they are, what changes them, and what a person reads."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from synthstats_lightning.programs import DataSchema, parse_graph, structure_hash
from synthstats_lightning.programs.forms.features import FEATURES
from synthstats_lightning.programs.forms.form import MAX_TEXT, form_of
from synthstats_lightning.sandbox import Sandbox
from tests.programs.forms.cases import CASES, DATA, ROWS, SAME, graphs, schema
from tests.programs.models import SCHEMA, Writer, log_linear, random_model, rewrite

TEXTS = {
    "line": "Normal(a + b*x, sigma)",
    "quad": "Normal(a + b*x + c*x^2, sigma)",
    "interaction": "Normal(a + b*w + c*x + d*w*x, sigma)",
    "log": "Normal(a + b*log(x), sigma)",
    "expdecay": "Normal(a + b*exp(c*x), sigma)",
    "power": "Normal(a*x^b, sigma)",
    "mm": "Normal(a*x/(b + x), sigma)",
    "knot": "Normal(a + b*x + c*max(d + x, 0), sigma)",
    "student": "StudentT(·, a + b*x, sigma)",
    "hier": "Normal(a + b*x + u[g], sigma)",
    "slopes": "Normal(a + b*x + u[g] + x*v[g], sigma)",
    "gmeans": "Normal(a[g], sigma)",
    "mix": "Mixture(Normal(mu, sigma), Normal(mu2, sigma))",
    "offset": "Poisson(w*exp(a + b*x))",
    "nb": "NegativeBinomial(exp(a + b*x), alpha)",
    "logit": "Binomial(·, sigmoid(a + b*x))",
    "betabin": "BetaBinomial(·, sigmoid(a + b*x), nu)",
    "olre": "Poisson(exp(a + b*x + u[row]))",
    "walk": "Normal(RandomWalk[row], sigma)",
}
FEATURED = {
    "line": set(),
    "log": {"nonlinear"},
    "offset": set(),
    "poisson": set(),
    "logit": set(),
    "interaction": {"interaction"},
    "nb": {"overdispersion"},
    "betabin": {"overdispersion"},
    "olre": {"overdispersion", "hierarchy"},
    "student": {"heavy tails"},
    "hier": {"hierarchy"},
    "fixedgroup": set(),
    "slopes": {"hierarchy", "interaction"},
    "hetero": {"varying spread"},
    "zip": {"mixture"},
    "walk": {"series"},
}


@pytest.mark.parametrize("name", CASES)
def test_one_form_however_it_is_written(name):
    found = {form_of(graph) for graph in graphs(name)}
    assert len(found) == 1, {form.text for form in found}


def test_forms_differ():
    keys = {name: form_of(graphs(name)[0]).key for name in CASES}
    for first, second in itertools.combinations(CASES, 2):
        assert (keys[first] == keys[second]) == ({first, second} in SAME), (first, second)


@pytest.mark.parametrize(("name", "text"), TEXTS.items())
def test_a_person_can_read_it(name, text):
    assert form_of(graphs(name)[0]).text == text


@pytest.mark.parametrize(("name", "features"), FEATURED.items())
def test_features(name, features):
    assert form_of(graphs(name)[0]).features == features
    assert features <= set(FEATURES)


def test_covariates_are_those_that_the_response_reads():
    assert form_of(graphs("hier")[0]).covariates == {"x", "g"}
    assert form_of(graphs("intercept")[0]).covariates == set()
    assert form_of(graphs("offset")[0]).covariates == {"x", "w"}


@pytest.mark.parametrize("column", ["group", "row", "label", "one"])
def test_columns_may_have_any_name(column):
    text = json.dumps(CASES["hier"]["programs"][0]["graph"]).replace('"name": "g"', f'"name": "{column}"')
    named = DataSchema({"x": "float64", column: "int64"}, "y", "float64", ROWS)
    form = form_of(parse_graph(text, named))
    assert form.covariates == {"x", column}
    assert form.text == f"Normal(a + b*x + u[{column}], sigma)"
    assert form.features == {"hierarchy"}


def test_a_column_of_a_matrix_of_its_own_is_the_column():
    document = json.loads(json.dumps(CASES["log"]["programs"][0]["graph"]))
    place = next(index for index, node in enumerate(document["nodes"]) if node.get("name") == "x")
    alone = [
        {"op": "reshape", "shape": [ROWS, 1], "inputs": [place]},
        {"op": "index", "index": [{"slice": [None, None, None]}, 0], "inputs": [place + 1]},
    ]
    later = {index: index + 2 for index in range(place, len(document["nodes"]))}
    for node in document["nodes"]:
        if "inputs" in node:
            node["inputs"] = [later.get(each, each) for each in node["inputs"]]
    document["nodes"][place + 1 : place + 1] = alone
    document["response"] += 2
    assert form_of(parse_graph(json.dumps(document), schema("log"))) == form_of(graphs("log")[0])


@pytest.mark.parametrize("seed", range(40))
def test_spelling_makes_no_difference_and_any_graph_has_a_form(seed):
    rng = random.Random(seed)
    document = random_model(rng)
    form = form_of(parse_graph(json.dumps(document), SCHEMA))
    assert form == form_of(parse_graph(json.dumps(rewrite(document, rng)), SCHEMA))
    assert 0 < len(form.text) <= MAX_TEXT
    assert "\n" not in form.text
    assert form.covariates <= set(SCHEMA.columns)


def test_structures_are_finer_than_forms():
    first, second = graphs("line")[0], graphs("line")[2]
    assert structure_hash(first) != structure_hash(second)
    assert form_of(first) == form_of(second)
    assert form_of(log_linear(2.5).graph()) == form_of(log_linear(-1.0, 3.0).graph())


def test_large_expressions_are_not_taken_apart():
    writer = Writer()
    scale = writer.draw("Normal", writer.const(0.0), writer.const(1.0), name="b")
    value = writer.op("mul", scale, writer.column("age"))
    for _ in range(60):
        value = writer.op("mul", writer.op("sin", value), writer.op("cos", value))
    writer.respond("Normal", value, writer.const(1.0))
    form = form_of(writer.graph())
    assert form.covariates == {"age"}
    assert len(form.text) <= MAX_TEXT


@pytest.mark.slow
def test_programs_still_build_these_graphs():
    with Sandbox() as sandbox:
        for name, case in CASES.items():
            columns = schema(name)
            for program, graph in zip(case["programs"], graphs(name), strict=True):
                built = sandbox.build(program["source"], columns, DATA)
                assert form_of(parse_graph(built, columns)) == form_of(graph), program["source"]
