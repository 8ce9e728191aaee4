"""Messages about a model name its parameters as its program does."""

import json

from synthstats_lightning.pool.own_names import in_own_names, with_known_names
from synthstats_lightning.programs import parse_graph
from synthstats_lightning.programs.canonical import canonicalise, latent_names
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.scoring.process.messages import TaskMessage
from tests.programs.models import DATA, ROWS, SCHEMA, log_linear


def told(schema=SCHEMA, **more):
    return TaskMessage(schema, DATA, DATA["age"], 0, "five rows", **more)


def test_every_latent_of_the_canonical_form_has_its_name():
    graph = log_linear().graph()
    names = latent_names(graph)
    assert set(names.values()) == {"alpha", "beta", "sigma"}
    priors = {node.attributes["name"]: node for node in canonicalise(graph).nodes if node.op == "random"}
    spread = next(name for name, own in names.items() if own == "sigma")
    assert priors[spread].attributes["distribution"] == "HalfNormal"


def test_a_message_is_in_the_program_s_words():
    document = json.dumps(log_linear().document())
    names = {own: name for name, own in latent_names(parse_graph(document, SCHEMA)).items()}
    text = f"{names['sigma']} ~ HalfNormal: too little, beside {names['alpha']} and v17, v2x and x.v1"
    found = in_own_names(text, document, told())
    assert found == "sigma ~ HalfNormal: too little, beside alpha and v17, v2x and x.v1"
    assert in_own_names("no name", "no document", told()) == "no name"


def test_columns_and_graphs_that_do_not_parse_stay_as_they_are():
    document = json.dumps(log_linear().document()).replace('"age"', '"v0"')
    schema = DataSchema({"v0": "float64", "count": "int64"}, "length", "float64", ROWS)
    assert in_own_names("v0 has values", document, told(schema)) == "v0 has values"
    assert in_own_names("v0 has values", "{}", told()) == "v0 has values"


def test_a_name_that_nothing_has():
    columns = {"time_limit": "float64", "age": "int64"}
    message = told(DataSchema(columns, "time", "float64", ROWS))
    unknown = "line 3: NameError: name '{}' is not defined"
    assert with_known_names(unknown.format("ages"), message).endswith("; the nearest column is 'age'")
    told_of = with_known_names(unknown.format("event"), message)
    assert told_of.endswith("; the columns are time_limit, age, time")
    cut = told(message.schema, censoring={"upper": "time_limit"})
    assert with_known_names(unknown.format("event"), cut).endswith(
        "; the columns are time_limit, age, time. Rows whose 'time' is only known to be beyond 'time_limit'"
        " are scored as such by themselves: observe it with its own distribution"
    )
    wide = told(DataSchema(dict.fromkeys(map("c{}".format, range(40)), "float64"), "y", "float64", ROWS))
    assert with_known_names(unknown.format("event"), wide).endswith(", c10, c11, ...")
    assert with_known_names("line 3: ValueError: no", message) == "line 3: ValueError: no"
