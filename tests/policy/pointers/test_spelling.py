"""Names become tokens and tokens names in one place, whatever the names are."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from synthstats_lightning.policy.pointers.pieces import source_pieces
from synthstats_lightning.policy.pointers.request import request_text
from synthstats_lightning.policy.pointers.spelling import PointerSpelling
from synthstats_lightning.policy.pointers.table import pointer_table
from synthstats_lightning.policy.pointers.vocabulary import COLUMNS
from synthstats_lightning.policy.prompt_room import PromptError, UnreadableDataError
from synthstats_lightning.pretraining.datasets import made_up_data
from synthstats_lightning.pretraining.grammar import write_program
from synthstats_lightning.tasks import Column, task_prompt
from synthstats_lightning.tasks.facts import Facts
from synthstats_lightning.tasks.proposal import looking
from tests.policy.pointers.conftest import SCRIPTS, table_task

RESPONSE = Column("mu", "continuous", -1.0, 2.0)


def facts_of(*names, **more):
    columns = tuple(Column(name, "continuous", 0.0, 1.0) for name in names)
    return Facts(columns, RESPONSE, 20, **more)


def written(writer, text, facts):
    """What comes out of tokens whose text, pointers spelled out, is given."""
    return writer.decode(writer.tokenizer(text, add_special_tokens=False).input_ids, facts)


@pytest.mark.parametrize("number", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_programs_of_the_grammar_come_back_exactly_under_any_names(writer, number):
    rng = Random(number)
    for _ in range(number):
        data = made_up_data(rng)
        facts = Facts(data.covariates, data.response, data.num_rows)
        source = write_program(rng, data)
        ids = writer.encode_program(source, facts)
        assert writer.decode(ids, facts) == source
        uses = [piece for piece in source_pieces(source, pointer_table(facts)) if piece == "<y>"]
        assert len(uses) == 1  # the response, and not the label of the same name


def test_thirty_columns_in_any_script(writer):
    names = [f"{name}_{number}" for number, name in enumerate(SCRIPTS * 3)]
    facts = facts_of(*names)
    source = "with pm.Model() as model:\n" + "".join(
        f"    p{i} = {name} * 2\n" for i, name in enumerate(names)
    )
    ids = writer.encode_program(source, facts)
    assert sum(token in ids for token in writer.tokenizer.convert_tokens_to_ids(list(COLUMNS))) == 30
    assert writer.decode(ids, facts) == source
    with pytest.raises(PromptError, match="at most 32 covariates, got 33"):
        writer.encode_prompt("", "", facts=facts_of(*(f"x{i}" for i in range(33))))


def test_a_column_that_a_parameter_is_called_like_keeps_its_name(writer):
    text = (
        'with pm.Model() as model:\n    pm.Normal("y", a*<c1> + mu, sigma, observed=<y>)\n'
        '    sigma = pm.HalfNormal("sigma", sigma=1)\n    a = pm.Normal("a", mu=0, sigma=2)\n    a_ = 1'
    )
    assert written(writer, text, facts_of("a", "sigma")) == (
        'with pm.Model() as model:\n    a_ = 1\n    a__ = pm.Normal("a__", mu=0, sigma=2)\n'
        '    sigma_ = pm.HalfNormal("sigma_", sigma=1)\n    pm.Normal("y", a__*a + mu_, sigma_, observed=mu)'
    )


def test_only_tokens_point_and_what_points_nowhere_stays_visible(writer):
    facts = facts_of("age")
    spelled = [*writer.tokenizer("1 <", split_special_tokens=True).input_ids]
    spelled += writer.tokenizer("c1> 2", split_special_tokens=True).input_ids
    assert writer.decode(spelled, facts) == "1 <c1> 2"
    assert written(writer, "1*<c1> + <c2>", facts) == "1*age + <c2>"
    assert written(writer, "b<c1> + <c1><y>", facts) == "b<c1> + <c1><y>"
    source = "x = 'age <c1>' + pm.age(age=age) # age"
    pieces = source_pieces(source, pointer_table(facts))
    assert pieces == ["x = 'age <c1>' + pm.age(age=", "<c1>", ") # age"]
    assert writer.decode(writer.encode_program(source, facts), facts) == source


def test_sizes_point_at_the_column_that_indexes_them(writer):
    columns = (
        Column("county", "count", 0.0, 11.0, role="group"),
        Column("rater", "count", 0.0, 11.0, role="group"),
        Column("floor", "count", 0.0, 4.0),
    )
    facts = Facts(columns, replace(RESPONSE, name="radon"), 90, levels=4, views={"floor_z": "floor"})
    table = pointer_table(facts)
    assert request_text(facts, table) == (
        "rows: 90\n<g1><g1.n>: group of 12\n<g2><g2.n>: group of 12\n<c1><c1.n><c1.i><c1.z>: count, 0 to 4\n"
        "response <y>: continuous, -1 to 2<y.n>"
    )
    source = (
        'with pm.Model() as model:\n    u = pm.Normal("u", 0, 12, shape=12)\n'
        '    v = pm.Normal("v", 0, 1, shape=(5, 12))\n'
        "    w = pm.Normal('w', 0, 1, shape=3)\n    mu = u[rater] + v[floor, county] + floor_z"
    )
    assert source_pieces(source, table)[1::2] == [
        *("<g2>", "<c1.i>", "<g1>", "<c1.z>"),
        "<y.n>",
        *("<c1.n>", "<g1.n>"),
        "<g2.n>",
    ]
    assert writer.decode(writer.encode_program(source, facts), facts) == source


def test_a_number_is_no_size_of_a_column_that_the_program_does_not_name(writer):
    columns = Column("county", "count", 0.0, 3.0, role="group"), Column("depth", "continuous", 0.0, 9.0)
    facts = Facts(columns, replace(RESPONSE, name="radon"), 90)
    table = pointer_table(facts)
    knots = 'with pm.Model() as model:\n    c = pm.Normal("c", 0, 1, shape=4)\n    mu = c[0]*depth + c[3]'
    assert source_pieces(knots, table)[1::2] == ["<c1>"]
    effects = 'with pm.Model() as model:\n    c = pm.Normal("c", 0, 1, shape=4)\n    mu = c[county]*depth'
    assert source_pieces(effects, table)[1::2] == ["<g1>", "<c1>", "<g1.n>"]
    for source in (knots, effects):
        assert writer.decode(writer.encode_program(source, facts), facts) == source


def test_places_and_strides_are_pointers_that_only_whole_numbers_have(writer):
    columns = (
        Column("year", "count", 1871.0, 1970.0),
        Column("depth", "integer", -4.0, 5.0),
        Column("site", "count", 0.0, 2.0),
        Column("pole", "count", 0.0, 7.0),
        Column("weight", "continuous", 0.0, 9.0),
        Column("births", "count", 3.0, 4000.0),
    )
    facts = Facts(columns, RESPONSE, 120)
    table = pointer_table(facts)
    assert "<c1><c1.n><c1.i>: count, 1871 to 1970" in request_text(facts, table)
    assert table.counts == {"<c1.n>": 100, "<c2.n>": 10, "<c3.n>": 3, "<c4.n>": 8}
    source = (
        'with pm.Model() as model:\n    w = pm.GaussianRandomWalk("w", sigma=1, shape=100)\n'
        '    v = pm.Normal("v", 0, 1, shape=3*8)\n    d = pm.Normal("d", 0, 1, shape=10)\n'
        "    m = w[year - 1871] + v[site*8 + pole] + d[depth + 4] + year*(year - 1871) + w[(year - 1871) % 7]"
    )
    assert source_pieces(source, table)[1::2] == [
        *("<c1.i>", "<c3.i>", "<c4.n>", "<c4.i>", "<c2.i>", "<c1>", "<c1>", "<c1.i>"),
        *("<c2.n>", "<c3.n>", "<c4.n>", "<c1.n>"),
    ]
    assert writer.decode(writer.encode_program(source, facts), facts) == source
    few = pointer_table(replace(facts, rows=60))
    assert few.places == {"<c2.i>": "depth + 4", "<c3.i>": "site", "<c4.i>": "pole"}  # no year for each row


def test_columns_of_one_purpose_have_pointers_that_are_never_copied(writer):
    roles = ("upper limit", "exposure", "total", "standard error", "exposure", "")
    names = ("cut", "area", "n", "se", "area2", "x")
    columns = tuple(
        Column(name, "continuous", 0.0, 1.0, role=role) for name, role in zip(names, roles, strict=True)
    )
    facts = Facts(columns, replace(RESPONSE, total="n"), 20, views={"area_z": "area", "x_z": "x"})
    table = pointer_table(facts)
    pointers = ("<upper>", "<exposure>", "<total>", "<error>", "<c1>", "<c2>")
    assert [table.names[name] for name in names] == list(pointers)
    assert (table.names["area_z"], table.names["x_z"]) == ("<exposure.z>", "<c2.z>")
    assert request_text(facts, table) == (
        "rows: 20\n<upper>: upper limit\n<exposure><exposure.z>: continuous, 0 to 1, exposure\n"
        "<total>: continuous, 0 to 1, total\n<error>: continuous, 0 to 1, standard error\n"
        "<c1>: continuous, 0 to 1, exposure\n<c2><c2.z>: continuous, 0 to 1\n"
        "response <y>: continuous, -1 to 2, out of <total>"
    )
    assert written(writer, "f(upper=<upper>, n=<total>, sigma=<error>)*<exposure>*<lower>", facts) == (
        "f(upper=cut, n=n, sigma=se)*area*<lower>"
    )


def test_a_program_that_gives_way_to_columns_is_written_as_any_other(writer):
    source = 'with pm.Model() as model:\n    {0} = pm.Normal("{0}", 0, 1)\n    pm.Normal("y", {0}*{1}, 1)'
    clear = writer.encode_program(source.format("a", "x"), facts_of("x"))
    assert writer.encode_program(source.format("a_", "a"), facts_of("a")) == clear
    assert writer.decode(clear, facts_of("a")) == source.format("a_", "a")
    both = "a_ = 1\na__ = 2\nb_ = a_ + a__ + a"
    assert writer.decode(writer.encode_program(both, facts_of("a")), facts_of("a")) == both


def test_a_tokenizer_of_an_earlier_version_is_refused(writer):
    class Earlier:
        def get_vocab(self):
            return {name: i for name, i in writer.tokenizer.get_vocab().items() if name != "<upper>"}

        def convert_tokens_to_ids(self, token):
            return self.get_vocab().get(token)

    with pytest.raises(ValueError, match=r"policy 'mine' must have every pointer .* lacks 1, <upper> among"):
        PointerSpelling(Earlier(), 1280, "mine")


def test_names_units_and_words_are_in_no_prompt(writer):
    plain, other = table_task(), table_task([f"x{number}" for number in range(10)], response="z")
    assert writer.encode_prompt(*task_prompt(plain)) == writer.encode_prompt(*task_prompt(other))


def test_the_prior_is_told_nothing_of_the_response_and_the_digest_nothing_of_other_rows(writer):
    task = looking(table_task(held_out=10), "digest")
    shuffled, other = looking(table_task(held_out=10), "digest"), looking(table_task(held_out=10), "digest")
    values = task.data["y"].copy()
    values[:30] = values[:30][::-1]
    shuffled.data["y"] = values
    other.data["y"] = task.data["y"].copy()
    other.data["y"][30:] += 5.0
    given, mixed, same = task_prompt(task), task_prompt(shuffled), task_prompt(other)
    assert writer.encode_prompt(*given.prior) == writer.encode_prompt(*mixed.prior)
    assert writer.encode_prompt(*given) != writer.encode_prompt(*mixed)
    assert writer.encode_prompt(*given) == writer.encode_prompt(*same)
    assert writer.encode_prompt(*given.prior) == writer.encode_prompt(*task_prompt(table_task(held_out=10)))


def test_what_it_cannot_word_is_refused(writer):
    with pytest.raises(PromptError, match="that of no task"):
        writer.encode_prompt("rules", "request")
    with pytest.raises(PromptError, match="no task is given"):
        writer.encode_program("x = 1")
    with pytest.raises(UnreadableDataError, match="'nothing' or 'digest'"):
        writer.encode_prompt(*task_prompt(looking(table_task(), "rows")))
