"""Reading designs: every accepted form, and one message for each kind of mistake."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.tasks.simulators import DesignError, DesignField
from synthstats_lightning.tasks.simulators.design import read_design
from synthstats_lightning.tasks.simulators.design_space import all_designs, grid, random_entry, spread

DOSE = DesignField("dose", "continuous", 0.0, 5.0, "mg", "how much")
OPEN = DesignField("time", "continuous", 0.0, 2.0, open_ends=True)
COUNT = DesignField("count", "integer", 1.0, 9.0)
FLAG = DesignField("flag", "binary")
WORD = DesignField("word", "category", categories=("left", "right"))
LIST = DesignField("values", "continuous", 0.0, 1.0, length=(2, 3))
WORDS = DesignField("words", "category", categories=("a", "b"), length=(1, 2))


@pytest.mark.parametrize(
    "given",
    [
        {"dose": 2.0, "count": 3},
        [2, 3],
        (2.0, 3.0),
        np.array([2.0, 3.0]),
        "2, 3",
        "2 3",
        "(2; 3)",
        "[2, 3]",
        " dose = 2, count = 3 ",
        "dose: 2\ncount: 3",
        "Dose: 2.0; COUNT=3",
        '{"count": 3, "dose": 2}',
        {"dose": "2", "count": Fraction(3)},
        {"dose": np.float32(2.0), "count": np.int64(3)},
        {"dose": np.array(2.0), "count": "3.0"},
    ],
    ids=repr,
)
def test_every_form_gives_the_same_design(given):
    design = read_design(given, (DOSE, COUNT))
    assert design == {"dose": 2.0, "count": 3}
    assert list(design) == ["dose", "count"]
    assert type(design["dose"]) is float
    assert type(design["count"]) is int


@pytest.mark.parametrize("given", [2.5, "2.5", "dose=2.5", [2.5], {"dose": 2.5}, np.float64(2.5)], ids=repr)
def test_one_field_takes_a_bare_number(given):
    assert read_design(given, (DOSE,)) == {"dose": 2.5}


def test_lists_and_words():
    fields = (LIST, WORD, FLAG)
    expected = {"values": (0.5, 1.0), "word": "left", "flag": 1}
    assert read_design([[0.5, 1], "left", True], fields) == expected
    assert read_design("values: [0.5, 1.0], word: left, flag: 1", fields) == expected
    assert read_design(json.dumps({"values": [0.5, 1], "word": " left ", "flag": 1}), fields) == expected
    assert read_design("Words: ['a', \"b\"]", (WORDS,)) == {"words": ("a", "b")}
    assert read_design([0.25, 0.5], (LIST,)) == {"values": (0.25, 0.5)}
    assert read_design({"values": np.array([0.25, 0.5])}, (LIST,)) == {"values": (0.25, 0.5)}


@pytest.mark.parametrize(
    ("given", "fields", "message"),
    [
        ("", (DOSE,), "the design is empty; it needs 1 value (dose)"),
        ("  \n", (DOSE, COUNT), "the design is empty; it needs 2 values (dose, count)"),
        ("9" * 3000, (DOSE,), "a design may have at most 2000 characters, got 3000"),
        ("{dose", (DOSE,), "the design '{dose' is not valid JSON"),
        ("[" * 1900, (DOSE,), "is not valid JSON"),
        ("dose =", (DOSE,), "the design 'dose =' cannot be read; write name = value, with commas between"),
        ("dose = 1, dose = 2", (DOSE,), "the design gives dose twice"),
        ("3 mg", (DOSE,), "a design needs 1 value (dose), got 2 values"),
        ([1, 2, 3], (DOSE, COUNT), "a design needs 2 values (dose, count), got 3 values"),
        ([], (DOSE,), "a design needs 1 value (dose), got 0 values"),
        (7, (DOSE, COUNT), "a design needs 2 values (dose, count), got 7"),
        (None, (DOSE, COUNT), "a design needs 2 values (dose, count), got None"),
        ({"dos": 1}, (DOSE,), "a design has no field 'dos'; its fields are dose"),
        ({1: 1}, (DOSE,), "a design has no field 1; its fields are dose"),
        ({"dose": 1}, (DOSE, COUNT), "a design needs 2 values (dose, count); count is missing"),
        ("much", (DOSE,), "dose must be a number from 0 to 5, got 'much', which is not a number"),
        (5.5, (DOSE,), "dose must be a number from 0 to 5, got 5.5"),
        (-0.1, (DOSE,), "dose must be a number from 0 to 5, got -0.1"),
        (math.nan, (DOSE,), "dose must be a number from 0 to 5, got nan, which is not finite"),
        ("[NaN]", (DOSE,), "dose must be a number from 0 to 5, got nan, which is not finite"),
        ("1e999", (DOSE,), "dose must be a number from 0 to 5, got '1e999', which is not finite"),
        (10**400, (DOSE,), "which is not finite"),
        (True, (DOSE,), "dose must be a number from 0 to 5, got True, which is a truth value"),
        (None, (DOSE,), "dose must be a number from 0 to 5, got None"),
        ([[1]], (DOSE,), "dose must be a number from 0 to 5, got [1]"),
        (0.0, (OPEN,), "time must be a number from 0 to 2, ends excluded, got 0.0"),
        (2, (OPEN,), "time must be a number from 0 to 2, ends excluded, got 2"),
        (2.5, (COUNT,), "count must be a whole number from 1 to 9, got 2.5, which is not whole"),
        (0, (COUNT,), "count must be a whole number from 1 to 9, got 0"),
        (2, (FLAG,), "flag must be 0 or 1, got 2"),
        ("up", (WORD,), "word must be one of left, right, got 'up'"),
        (3, (WORD,), "word must be one of left, right, got 3"),
        ([["a"]], (WORD,), "word must be one of left, right, got ['a']"),
        (0.5, (LIST,), "values must be a list of 2 to 3 entries, got 0.5"),
        ("0.5", (LIST,), "values must be a list of 2 to 3 entries, got 1"),
        ([0.5, 0.1, 0.1, 0.1], (LIST,), "values must be a list of 2 to 3 entries, got 4"),
        ([0.5, 2.0], (LIST,), "values must be a number from 0 to 1, got 2.0"),
        (["a", "c"], (WORDS,), "words must be one of a, b, got 'c'"),
    ],
    ids=lambda value: repr(value)[:40] if not isinstance(value, tuple) else "",
)
def test_every_mistake_has_its_message(given, fields, message):
    with pytest.raises(DesignError) as caught:
        read_design(given, fields)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert len(text) < 200


def test_half_open_ranges_say_so():
    assert DesignField("x", "integer", 1.0).allowed == "a whole number of at least 1"
    assert DesignField("x", "continuous", 0.0, open_ends=True).allowed == "a number above 0"
    assert DesignField("x", "continuous", high=3.0).allowed == "a number of at most 3"
    assert DesignField("x", "continuous").allowed == "a number"
    assert DOSE.line == "dose: a number from 0 to 5 mg (how much)"
    assert LIST.line == "values: a list of 2 to 3 entries, each a number from 0 to 1"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(given=json_values | st.text(max_size=60) | json_values.map(json.dumps))
def test_anything_is_either_a_valid_design_or_a_design_error(given):
    fields = (DOSE, COUNT, WORD)
    try:
        design = read_design(given, fields)
    except DesignError as error:
        message = str(error)
    else:
        message = ""
        assert list(design) == ["dose", "count", "word"]
        assert 0.0 <= design["dose"] <= 5.0
    assert "\n" not in message


def test_deeply_nested_values_are_refused_in_one_line():
    with pytest.raises(DesignError, match="dose must be a number"):
        read_design("[" * 900 + "]" * 900, (DOSE,))


def test_grid_list_and_random_entries():
    points = grid((DOSE,), 6)
    assert [point["dose"] for point in points] == pytest.approx([0, 1, 2, 3, 4, 5])
    inner = [point["time"] for point in grid((OPEN,), 3)]
    assert inner == pytest.approx([0.5, 1.0, 1.5])
    assert len(grid((DOSE, OPEN), 7)) == 7
    assert len({(point["dose"], point["time"]) for point in grid((DOSE, OPEN), 9)}) == 9
    assert len(all_designs((COUNT, FLAG))) == 18
    assert spread(5, 5) == [0, 1, 2, 3, 4]
    assert spread(9, 1) == [4]
    rng = np.random.default_rng(0)
    draws = [random_entry(COUNT, rng) for _ in range(2000)]
    assert set(draws) == set(range(1, 10))
    with pytest.raises(TypeError, match="random_design must be written for the field words"):
        random_entry(WORDS, rng)
    with pytest.raises(TypeError, match="dose is continuous"):
        all_designs((DOSE,))
