from __future__ import annotations

import json
import random

from synthstats_lightning.programs import canonical_model, parse_graph
from synthstats_lightning.programs.rendering.model_card import model_card
from synthstats_lightning.programs.rendering.render import statements, summarise
from tests.programs.models import SCHEMA, log_linear, random_model, rewrite


def test_card_of_a_regression():
    graph = log_linear().graph()
    card = model_card(graph, "length", {"log evidence": "-3.2 nats", "a|b": "<i>`x`\n"})
    lines = card.splitlines()
    assert lines[0] == "# Model of length"
    assert lines[2:6] == [
        "    length ~ Normal(v0 + v1*log(age), v2)",
        "    v0 ~ Normal(2.5, 1)",
        "    v1 ~ Normal(0, 0.5)",
        "    v2 ~ HalfNormal(0.3)",
    ]
    model = canonical_model(graph)
    for expected in (
        "| rows | 5 |",
        "| columns | age |",
        "| parameters | 3 numbers in 3 |",
        f"| canonical form | {model.hash} |",
        f"| structure | {model.structure} |",
        "| log evidence | -3.2 nats |",
    ):
        assert expected in lines
    assert r"\mathrm{length} &\sim \mathrm{Normal}" in card
    assert "<i>" not in card
    assert all(line.count("|") - line.count("\\|") in (0, 3) for line in lines)


def test_equal_models_have_equal_cards():
    for seed in range(20):
        rng = random.Random(seed)
        document = random_model(rng)
        first = parse_graph(json.dumps(document), SCHEMA)
        assert model_card(first) == model_card(parse_graph(json.dumps(rewrite(document, rng)), SCHEMA))
        assert summarise(first)[:100] == "; ".join(statements(first))[:100]
