"""Composite distributions in the graph language: hostile attributes, canonical form, rendering."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthstats_lightning.programs import FailureCategory, ProgramFailure, canonical_hash, parse_graph
from synthstats_lightning.programs.canonical import canonical_form, structure_hash
from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.rendering.render import summarise
from tests.programs.models import COUNTS, ROWS, SCHEMA, Writer

NESTED = {"distribution": "Mixture", "components": ["Normal"]}
BAD, UNSUPPORTED = FailureCategory.BAD_GRAPH, FailureCategory.UNSUPPORTED


def respond(w: Writer, law: dict[str, Any], *inputs: int) -> Writer:
    """Adds a response that follows a composite."""
    w.response = w.add(op="random", inputs=list(inputs), name="length", shape=[ROWS], **law)
    return w


def failure(w: Writer, schema: Any = SCHEMA) -> ProgramFailure:
    with pytest.raises(ProgramFailure) as caught:
        parse_graph(json.dumps(w.document()), schema)
    return caught.value


def two_normals(first: str = "Normal", second: str = "Normal") -> Writer:
    w = Writer()
    mu = w.draw("Normal", w.const(0.0), w.const(1.0), name="mu")
    weights = w.const([0.3, 0.7])
    law = {"distribution": "Mixture", "components": [first, second]}
    return respond(w, law, weights, mu, w.const(1.0), w.const(2.0), w.const(0.5))


def test_a_mixture_passes_and_reads_as_mathematics() -> None:
    graph = two_normals().graph()
    assert graph.dtypes[graph.response] == "float64"
    line = summarise(graph)
    assert line.startswith("response ~ Mixture([0.3, 0.7], Normal(v0, 1), Normal(2, 0.5)); v0 ~ Normal(0, 1)")


def test_bounds_and_nesting_read_as_mathematics() -> None:
    w = Writer()
    weights = w.const([0.5, 0.5])
    law = {
        "distribution": "Mixture",
        "components": [
            {"distribution": "Truncated", "bounds": ["lower"], "components": ["Gamma"]},
            "HalfNormal",
        ],
    }
    inputs = [w.const(x) for x in (1.0, 2.0, 0.5, 0.0, 3.0)]
    line = summarise(respond(w, law, weights, *inputs).graph())
    assert line == "response ~ Mixture([0.5, 0.5], Truncated(Gamma(2, scale=0.5), lower=1), HalfNormal(3))"


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"distribution": "Mixture"}, "needs components"),
        ({"distribution": "Normal", "components": ["Normal"]}, "takes no components"),
        ({"distribution": "Mixture", "components": []}, "not a list of 1 to"),
        ({"distribution": "Mixture", "components": ["Normal"] * 33}, "not a list of 1 to"),
        ({"distribution": "Mixture", "components": "Normal"}, "not a list"),
        ({"distribution": "Mixture", "components": [3, None]}, "neither a name nor an object"),
        ({"distribution": "Mixture", "components": ["Mixture", "Normal"]}, "needs its own components"),
        ({"distribution": "Mixture", "components": [{"distribution": "Normal"}, "Normal"]}, "no composite"),
        ({"distribution": "Mixture", "components": [NESTED]}, "no composite"),
        ({"distribution": "Mixture", "components": [{"distribution": []}]}, "no composite"),
        ({"distribution": "Mixture", "components": ["Normal"], "bounds": ["lower"]}, "components or bounds"),
        ({"distribution": "Truncated", "components": ["Normal"]}, "needs components or bounds"),
        ({"distribution": "Truncated", "components": ["Normal"], "bounds": []}, "bounds of Truncated"),
        ({"distribution": "Truncated", "components": ["Normal"], "bounds": ["upper", "lower"]}, "bounds of"),
        ({"distribution": "Truncated", "components": ["Normal"], "bounds": [["lower"]]}, "bounds of"),
        ({"distribution": "Truncated", "components": ["Normal"] * 2, "bounds": ["lower"]}, "list of 1 to 1"),
        ({"distribution": "Hurdle", "components": ["DiracDelta"]}, "Hurdle of a DiracDelta"),
        ({"distribution": "Mixture", "components": ["Normal", "Poisson"]}, "discrete and continuous"),
    ],
)  # fmt: skip
def test_malformed_composites_are_bad_graphs(law: dict[str, Any], message: str) -> None:
    w = Writer()
    caught = failure(respond(w, law, w.const([0.5, 0.5]), w.const(0.0), w.const(1.0)))
    assert caught.category is BAD
    assert message in caught.message


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"distribution": "Mixture", "components": ["Nonesuch", "Normal"]}, "Nonesuch"),
        ({"distribution": "Truncated", "components": ["Rice"], "bounds": ["lower"]}, "distribution function"),
        ({"distribution": "Hurdle", "components": ["Normal"]}, "neither a count nor positive"),
        ({"distribution": "Mixture", "components": ["Categorical"]}, "along an axis"),
    ],
)  # fmt: skip
def test_what_the_scorer_lacks_is_unsupported(law: dict[str, Any], message: str) -> None:
    w = Writer()
    caught = failure(respond(w, law, w.const([0.5, 0.5]), w.const(0.0), w.const(1.0)))
    assert caught.category is UNSUPPORTED
    assert message in caught.message


def test_weights_match_components() -> None:
    w = Writer()
    law = {"distribution": "Mixture", "components": ["Normal", "Normal"]}
    inputs = [w.const(x) for x in (0.0, 1.0, 2.0, 0.5)]
    assert (
        "2 components with 3 weights" in failure(respond(w, law, w.const([0.2, 0.3, 0.5]), *inputs)).message
    )

    w = Writer()
    law = {"distribution": "Mixture", "components": ["Normal"]}
    caught = failure(respond(w, law, w.const([0.2, 0.8]), w.const([0.0, 1.0, 2.0]), w.const([1.0])))
    assert "3 components with 2 weights" in caught.message

    w = Writer()
    assert "at least 1 axes" in failure(respond(w, law, w.const(1.0), w.const([0.0]), w.const([1.0]))).message


def test_point_masses_lie_on_one_number() -> None:
    """A DiracDelta for each row would let a list of literals copy a count response."""
    law = {"distribution": "Mixture", "components": ["DiracDelta", "Poisson"]}
    w = Writer()
    weights = w.const([0.5, 0.5])
    respond(w, law, weights, w.const(list(range(ROWS)), "int64"), w.const(2.0))
    caught = failure(w, COUNTS)
    assert caught.category is UNSUPPORTED
    assert "one constant" in caught.message

    w = Writer()
    weights = w.const([0.5, 0.5])
    assert respond(w, law, weights, w.const(0, "int64"), w.const(2.0)).graph(COUNTS).dtypes[-1] == "int64"
    w = Writer()
    weights = w.const([0.5, 0.5])
    assert failure(respond(w, law, weights, w.column("count"), w.const(2.0)), COUNTS).category is UNSUPPORTED


def test_atoms_of_a_censored_response_are_known_from_covariates() -> None:
    law = {"distribution": "Censored", "bounds": ["upper"], "components": ["Normal"]}
    w = Writer()
    assert respond(w, law, w.column("age"), w.const(0.0), w.const(1.0)).graph().nodes
    w = Writer()
    caught = failure(respond(w, law, w.const([float(i) for i in range(ROWS)]), w.const(0.0), w.const(1.0)))
    assert "list of literals" in caught.message
    w = Writer()
    random = w.op("exp", w.draw("Normal", w.const(0.0), w.const(1.0), name="top"))
    assert "random bound" in failure(respond(w, law, random, w.const(0.0), w.const(1.0))).message


def test_latents_have_a_transform() -> None:
    """A censored latent has point masses, a mixture of different supports has no common coordinate."""
    for law, inputs in (
        ({"distribution": "Censored", "bounds": ["upper"], "components": ["Normal"]}, (1.0, 0.0, 1.0)),
        ({"distribution": "Mixture", "components": ["Normal", "Exponential"]}, ([0.5, 0.5], 0.0, 1.0, 1.0)),
    ):
        w = Writer()
        refs = [w.const(x) for x in inputs]
        z = w.add(op="random", inputs=refs, name="z", shape=[], **law)
        w.respond("Normal", z, w.const(1.0))
        caught = failure(w)
        assert caught.category is UNSUPPORTED
        assert "only the response may" in caught.message


def test_supports_of_composites() -> None:
    def support(name: str, part: str, *bounds: str) -> Support:
        return distribution_of({"distribution": name, "components": [part], "bounds": list(bounds)}).support

    assert support("Truncated", "Normal", "lower") is Support.ABOVE
    assert support("Truncated", "Normal", "upper") is Support.BELOW
    assert support("Truncated", "Gamma", "upper") is Support.INTERVAL
    assert support("Truncated", "Gamma", "lower") is Support.ABOVE
    assert support("Truncated", "Poisson", "lower") is Support.NATURAL
    assert support("Censored", "Normal", "lower") is Support.MIXED


def test_canonical_form_and_structure() -> None:
    """Equal weights keep their axis; components count for the structure, constants for the form alone."""
    plain, other = two_normals().graph(), two_normals("Normal", "Logistic").graph()
    assert canonical_hash(plain) != canonical_hash(other)
    assert structure_hash(plain) != structure_hash(other)

    w = Writer()
    law = {"distribution": "Mixture", "components": ["Normal", "Normal"]}
    sd = w.const(0.5)
    weights = w.const([0.5, 0.5])
    mean = w.draw("Normal", w.const(0.0), w.const(1.0), name="another")
    equal = respond(w, law, weights, mean, w.const(1.0), w.const(2.0), sd).graph()
    assert structure_hash(equal) == structure_hash(plain)
    assert canonical_hash(equal) != canonical_hash(plain)
    assert [
        node["value"] for node in json.loads(canonical_form(equal))["nodes"] if node["op"] == "constant"
    ].count([0.5, 0.5]) == 1


@pytest.mark.parametrize(
    ("x", "height", "category", "message"),
    [
        ([0.0, 1.0], [1.0], BAD, "as many heights"),
        ([0.0, 0.0], [1.0, 1.0], BAD, "increasing"),
        ([0.0, 1.0], [1.0, -1.0], BAD, "not negative"),
        ([0.0, 1.0], [0.0, 0.0], BAD, "not negative"),
        (None, [1.0, 1.0], UNSUPPORTED, "constant vectors"),
    ],
)
def test_points_of_an_interpolated_density(x: Any, height: Any, category: Any, message: str) -> None:
    w = Writer()
    z = w.draw("Normal", w.const(0.0), w.const(1.0), name="z", shape=(2,))
    inputs = [z if x is None else w.const(x), w.const(height), w.const(height)]
    w.add(op="random", distribution="Interpolated", inputs=inputs, name="i", shape=[])
    caught = failure(w)
    assert caught.category is category
    assert message in caught.message
