"""Every documented invalid design gives its message; none of BoxingGym's holes is open."""

import pytest

from synthstats_lightning.tasks.simulators import SIMULATORS, DesignError

HUMANS = '{"group_1": ["boy"], "group_2": ["girl"], "intervention": "stay"}'
WHEEL = {"prizes": [10, 20, 30], "probabilities": [0.2, 0.3, 0.5], "winner": 1}

CASES = [
    ("dugongs_simulator", "corrected", "-1", "age must be a number from 0 to 5, got '-1'"),
    ("dugongs_simulator", "boxing_gym", 5.01, "age must be a number from 0 to 5, got 5.01"),
    ("peregrines_simulator", "boxing_gym", -0.5, "year must be a number from 0 to 5, got -0.5"),
    ("peregrines_simulator", "corrected", 2.0, "year must be a number from -1.67 to 1.67, got 2.0"),
    ("death_process", "corrected", 0, "time must be a number from 0 to 2, ends excluded, got 0"),
    ("death_process", "boxing_gym", 2.0, "time must be a number from 0 to 2, ends excluded, got 2.0"),
    ("item_response", "boxing_gym", [-1, 0], "student must be a whole number from 0 to 5, got -1"),
    ("item_response", "corrected", "6, 0", "student must be a whole number from 0 to 5, got '6'"),
    ("item_response", "corrected", "0, 6", "question must be a whole number from 0 to 5, got '6'"),
    (
        "item_response",
        "corrected",
        [0.5, 1],
        "student must be a whole number from 0 to 5, got 0.5, which is not",
    ),
    ("item_response", "corrected", "[1]", "a design needs 2 values (student, question), got 1 value"),
    ("location_finding", "corrected", [0.0, 6.0], "x2 must be a number from -5 to 5, got 6.0"),
    (
        "location_finding",
        "boxing_gym",
        [0.0, float("inf")],
        "x2 must be a number, got inf, which is not finite",
    ),
    ("location_finding", "boxing_gym", "[1, 2, 3]", "a design needs 2 values (x1, x2), got 3 values"),
    (
        *("hyperbolic_discounting", "boxing_gym", [10, 10, 5]),
        "delayed_reward must be larger than immediate_reward, 10, got 10",
    ),
    (
        *("hyperbolic_discounting", "corrected", [20, 10, 5]),
        "delayed_reward must be larger than immediate_reward, 20, got 10",
    ),
    (
        *("hyperbolic_discounting", "boxing_gym", [-5, 10, 5]),
        "immediate_reward must be a whole number from 1 to 1e+06, got -5",
    ),
    ("hyperbolic_discounting", "corrected", [5, 10, 0], "days must be a whole number from 1 to 365, got 0"),
    (
        *("hyperbolic_discounting", "corrected", "ten, twenty, 5"),
        "immediate_reward must be a whole number from 1 to 300, got 'ten', which is not a number",
    ),
    ("survival", "boxing_gym", 100, "patient must be a whole number from 0 to 99, got 100"),
    ("survival", "corrected", -1, "patient must be a whole number from 0 to 99, got -1"),
    (
        "survival",
        "corrected",
        "3.5",
        "patient must be a whole number from 0 to 99, got '3.5', which is not whole",
    ),
    ("lotka_volterra", "corrected", 50.1, "time must be a number from 0 to 50, got 50.1"),
    ("lotka_volterra", "boxing_gym", "soon", "time must be a number from 0 to 50, got 'soon', which is not"),
    (
        *("moral_machines", "corrected", HUMANS.replace("boy", "man")),
        "group_1 must be one of stroller, boy, girl, pregnant_woman,",
    ),
    (
        "moral_machines",
        "corrected",
        HUMANS.replace("stay", "brake"),
        "must be one of swerve, stay, got 'brake'",
    ),
    (
        *("moral_machines", "corrected", [[], ["boy"], "stay"]),
        "group_1 must be a list of 1 to 5 entries, got 0",
    ),
    (
        *("moral_machines", "boxing_gym", [["boy"], ["cat"] * 6, "stay"]),
        "group_2 must be a list of 1 to 5 entries, got 6",
    ),
    (
        "emotion",
        "corrected",
        {**WHEEL, "probabilities": [0.5, 0.5, 0.5]},
        "probabilities must sum to 1, got 1.5",
    ),
    (
        *("emotion", "corrected", {**WHEEL, "probabilities": [1.2, -0.1, -0.1]}),
        "probabilities must be a number from 0 to 1, got 1.2",
    ),
    ("emotion", "boxing_gym", {**WHEEL, "winner": 3}, "winner must be a whole number from 0 to 2, got 3"),
    ("emotion", "corrected", {**WHEEL, "prizes": [1, 2]}, "prizes must be a list of 3 entries, got 2"),
    (
        "emotion",
        "corrected",
        {**WHEEL, "prizes": [1, 2, 101]},
        "prizes must be a number from 0 to 100, got 101",
    ),
    ("eight_schools_simulator", "corrected", 8, "school must be a whole number from 0 to 7, got 8"),
    (
        "surgical_simulator",
        "corrected",
        "hospital=12",
        "hospital must be a whole number from 0 to 11, got '12'",
    ),
]


@pytest.mark.parametrize(("name", "variant", "design", "message"), CASES)
def test_invalid_design_has_its_message(name, variant, design, message):
    simulator = SIMULATORS[name](variant)
    simulator.reset(0)
    with pytest.raises(DesignError) as caught:
        simulator.validate(design)
    assert message in str(caught.value)
    with pytest.raises(DesignError):
        simulator.observe(design)


def test_every_environment_is_covered():
    assert {case[0] for case in CASES} == set(SIMULATORS)


@pytest.mark.parametrize("name", SIMULATORS)
@pytest.mark.parametrize("variant", ["corrected", "boxing_gym"])
def test_own_designs_are_valid(name, variant):
    simulator = SIMULATORS[name](variant)
    simulator.reset(3)
    designs = [*simulator.random_designs(8, simulator.design_rng), *simulator.grid(7), simulator.grid(1)[0]]
    for design in designs:
        assert simulator.validate(design) == design
        rows = simulator.observe(design)
        assert tuple(rows) == simulator.columns
        assert all(values.shape == (simulator.rows_per_design,) for values in rows.values())
    with pytest.raises(ValueError, match="at least one design, got 0"):
        simulator.grid(0)


def test_sums_that_rounding_misses_are_scaled():
    simulator = SIMULATORS["emotion"]()
    checked = simulator.validate("prizes: [50, 20, 10],\nprobabilities: [.33, .33, .33]\nwinner: 0")
    assert checked["probabilities"] == pytest.approx((1 / 3,) * 3)
    # sums of 0.6, 0.3 and 0.1 miss 1 by a rounding error, which BoxingGym refuses
    assert simulator.validate({**WHEEL, "probabilities": [0.6, 0.3, 0.1]})["winner"] == 1


def test_text_as_boxing_gym_writes_it():
    simulator = SIMULATORS["moral_machines"]()
    text = "Group 1: [old_man, homeless]\nGroup 2: [old_man, old_woman]\nIntervention: stay"
    assert simulator.validate(text) == {
        "group_1": ("old_man", "homeless"),
        "group_2": ("old_man", "old_woman"),
        "intervention": "stay",
    }


def test_finite_tables_do_not_repeat_designs():
    simulator = SIMULATORS["eight_schools_simulator"]()
    simulator.reset(0)
    schools = [design["school"] for design in simulator.random_designs(8, simulator.design_rng)]
    assert sorted(schools) == list(range(8))
    for choose in (simulator.grid, lambda n: simulator.random_designs(n, simulator.design_rng)):
        with pytest.raises(ValueError, match="has 8 designs, each with one response; 9 were asked for"):
            choose(9)
