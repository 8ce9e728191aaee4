"""What evaluation points are drawn from, balanced ones, and the cells that item response keeps."""

import numpy as np
import pytest
from scipy import integrate, stats

from synthstats_lightning.tasks.simulators import SIMULATORS, DesignError
from synthstats_lightning.tasks.simulators.balanced import UnbalancedError, balanced_rows

SCALED_BETA = stats.beta(2, 5, scale=4)


def points(name, variant, n=4000, seed=0):
    simulator = SIMULATORS[name](variant)
    simulator.reset(seed)
    return simulator, simulator.evaluation_points(n)


def test_dugongs_points():
    simulator, rows = points("dugongs_simulator", "corrected")
    assert stats.kstest(rows["age"], SCALED_BETA.cdf).pvalue > 1e-4
    residual = rows["length"] - simulator.mean(simulator.latents_batch, rows)[0]
    assert residual.mean() == pytest.approx(0.0, abs=5 * 0.25 / np.sqrt(len(residual)))


@pytest.mark.parametrize(("name", "column"), [("peregrines_simulator", "year"), ("lotka_volterra", "time")])
def test_rounded_beta_points(name, column):
    rows = points(name, "boxing_gym")[1]
    drawn = rows[column][:: SIMULATORS[name].rows_per_design]
    values, counts = np.unique(np.rint(10 * drawn).astype(int), return_counts=True)
    cells = np.arange(0, 41)
    edges = SCALED_BETA.cdf(np.concatenate([[0.0], (cells[:-1] + 0.5) / 10, [4.0]]))
    expected = len(drawn) * np.diff(edges)[values]
    common = expected > 10
    chi_square = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert stats.chi2.sf(chi_square, common.sum() - 1) > 1e-4


def test_uniform_and_normal_points():
    for name, variant, column, law in (
        ("peregrines_simulator", "corrected", "year", stats.uniform(-1.67, 3.34)),
        ("death_process", "corrected", "time", stats.uniform(0.001, 1.999)),
        ("location_finding", "corrected", "x2", stats.norm()),
        ("survival", "corrected", "years", stats.uniform(0, 10)),
        ("emotion", "corrected", "prize_2", stats.uniform(0, 100)),
        ("emotion", "corrected", "probability_3", stats.beta(1, 2)),
    ):
        drawn = points(name, variant)[1][column][:: SIMULATORS[name].rows_per_design]
        assert stats.kstest(drawn, law.cdf).pvalue > 1e-4, (name, column)


def test_hyperbolic_points():
    rows = points("hyperbolic_discounting", "corrected")[1]
    now, later = rows["immediate_reward"], rows["delayed_reward"]
    assert now.min() == 1
    assert now.max() == 299
    assert later.max() <= 300
    assert (later > now).all()
    assert set(np.unique(rows["days"])) == set(range(1, 365))
    low = now < 5
    # the delayed reward of small ones is uniform up to 299
    assert later[low].mean() == pytest.approx((now[low] + 300).mean() / 2, abs=5 * 86 / np.sqrt(low.sum()))


def test_random_designs_of_hyperbolic_discounting_choose_the_delay_as_often_as_measured():
    simulator = SIMULATORS["hyperbolic_discounting"]()
    rng = np.random.default_rng(0)
    designs = [simulator.random_design(rng) for _ in range(8000)]
    latents = simulator.sample_latents(rng, 8000)
    rows = {name: np.array([design[name] for design in designs])[:, None] for name in simulator.columns[:-1]}
    assert simulator.mean(latents, rows).mean() == pytest.approx(0.327, abs=0.015)


def test_location_points_carry_noise_only_where_corrected():
    for variant, sd in (("corrected", 0.5), ("boxing_gym", 0.0)):
        simulator, rows = points("location_finding", variant)
        residual = rows[simulator.response] - simulator.mean(simulator.latents_batch, rows)[0]
        assert residual.std() == pytest.approx(sd, rel=0.06)


def test_emotion_points_use_the_prize_or_its_number():
    rows = points("emotion", "corrected", 400)[1]
    prizes = np.stack([rows[f"prize_{number}"] for number in (1, 2, 3)])
    assert (prizes == rows["win"]).any(0).all()
    assert set(np.unique(rows["rating"])) <= set(range(1, 10))
    faithful, felt = points("emotion", "boxing_gym", 400)
    same = {key: values for key, values in felt.items() if key != "rating"}
    right = faithful.log_likelihood(faithful.latents_batch, same, felt["rating"]).mean()
    number = (np.stack([felt[f"prize_{n}"] for n in (1, 2, 3)]) == felt["win"]).argmax(0).astype(float)
    by_number = {**same, "win": number}
    assert faithful.log_likelihood(faithful.latents_batch, by_number, felt["rating"]).mean() > right + 1.0


@pytest.mark.parametrize("name", ["hyperbolic_discounting", "survival", "moral_machines"])
def test_balanced_points_alternate(name):
    simulator = SIMULATORS[name]("boxing_gym")
    for seed in range(5):
        simulator.reset(seed)
        truth = simulator.evaluation_points(10)[simulator.response]
        assert truth.tolist() == [1, 0] * 5
    loose = SIMULATORS[name]()
    shares = []
    for seed in range(25):
        loose.reset(seed)
        shares.append(loose.evaluation_points(10)[loose.response].mean())
    assert len(set(shares)) > 2


def test_balanced_points_are_those_of_the_class():
    simulator = SIMULATORS["survival"]("boxing_gym")
    simulator.reset(2)
    rows = simulator.evaluation_points(8000)
    grid = np.linspace(0, 10, 2001)
    for died in (0, 1):
        chosen = rows["died"] == died
        weights = []
        for status in (0, 1):
            every = {"metastasised": np.full(2001, status), "years": grid}
            weights.append(
                np.exp(simulator.log_likelihood(simulator.latents_batch, every, np.full(2001, died))[0])
            )
        without, with_metastases = (integrate.trapezoid(values, grid) for values in weights)
        share = with_metastases / (without + with_metastases)
        assert rows["metastasised"][chosen].mean() == pytest.approx(share, abs=0.04)


def test_a_class_that_never_comes_ends_in_an_error():
    drawn = []

    def draw(count):
        drawn.append(count)
        return {"x": np.zeros(count), "y": np.ones(count, dtype=np.int64)}

    with pytest.raises(UnbalancedError, match="needs 5 rows with y = 0, but 1000 random rows hold 0"):
        balanced_rows(draw, "y", 10, limit=1000)
    assert sum(drawn) == 1000
    certain = SIMULATORS["survival"]("boxing_gym", baseline_shape=1e6, baseline_rate=1.0)
    certain.reset(0)
    with pytest.raises(UnbalancedError, match="rows with died = 0"):
        certain.evaluation_points(10)
    # every answer right: easy guesses
    easy = SIMULATORS["item_response"](
        "boxing_gym", mode="3pl", num_students=1, num_questions=2, num_evaluation=1
    )
    for seed in range(50):
        try:
            easy.reset(seed)
        except UnbalancedError:
            break
    with pytest.raises(UnbalancedError, match=f"all 2 answers of the instance with seed {seed} are"):
        easy.reset(seed)


def cells(rows):
    return list(zip(rows["student"].tolist(), rows["question"].tolist(), strict=True))


@pytest.mark.parametrize("variant", ["corrected", "boxing_gym"])
@pytest.mark.parametrize("mode", ["1pl", "2pl", "3pl"])
def test_item_response_cells(variant, mode):
    simulator = SIMULATORS["item_response"](variant, mode)
    repeated = 0
    for seed in range(20):
        simulator.reset(seed)
        rows = simulator.evaluation_points(10)
        kept = cells(rows)
        repeated += len(set(kept)) < 10
        np.testing.assert_array_equal(
            rows["correct"], simulator.latents["responses"][rows["student"], rows["question"]]
        )
        if variant == "boxing_gym":
            assert rows["correct"].sum() == 5
        for student, question in kept:
            with pytest.raises(DesignError, match="is kept for evaluation; choose another pair"):
                simulator.observe([student, question])
        free = [(design["student"], design["question"]) for design in simulator.all_designs()]
        assert not set(free) & set(kept)
        assert len(free) == 36 - len(set(kept))
        assert all(tuple(simulator.random_design(simulator.design_rng).values()) in free for _ in range(5))
    assert (repeated > 0) == (variant == "boxing_gym")


def test_balanced_cells_without_repetition():
    simulator = SIMULATORS["item_response"](balanced=True, mode="3pl")
    for seed in range(30):
        simulator.reset(seed)
        rows = simulator.evaluation_points(10)
        assert len(set(cells(rows))) == 10
        wrong = int((simulator.latents["responses"] == 0).sum())
        right = 36 - wrong
        assert rows["correct"].sum() == (5 if min(right, wrong) >= 5 else max(10 - wrong, min(right, 5)))
    with pytest.raises(ValueError, match=r"keeps 10 cells for evaluation \(num_evaluation\), not 11"):
        simulator.evaluation_points(11)
    with pytest.raises(ValueError, match="num_evaluation must be from 0 to 35"):
        SIMULATORS["item_response"](num_evaluation=36)


def test_patients_of_the_notes_are_those_that_are_observed():
    simulator = SIMULATORS["survival"]()
    simulator.reset(0)
    entries = simulator.design_notes.removeprefix("columns of each design by its number: ").split(", ")
    assert len(entries) == 100
    for number in (0, 57, 99):
        seen = simulator.observe(number)
        assert entries[number] == f"{number}: {seen['metastasised'][0]} {seen['years'][0]:.2f}"
    assert SIMULATORS["dugongs_simulator"]().design_notes == ""


def test_corrected_survival_starts_alive_and_the_public_one_does_not():
    for variant, at_zero in (("corrected", 0.0), ("boxing_gym", 0.5)):
        simulator = SIMULATORS["survival"](variant)
        latents = simulator.sample_latents(np.random.default_rng(0), 2000)
        rows = {"metastasised": np.array([0, 1]), "years": np.zeros(2)}
        np.testing.assert_allclose(simulator.probability(latents, rows), at_zero)
    rows = {"metastasised": np.array([0, 1]), "years": np.array([7.0, 0.1])}
    assert SIMULATORS["survival"]("boxing_gym").probability(latents, rows).min() >= 0.5


def test_synthstats_operations_and_published_ones():
    published = SIMULATORS["surgical_simulator"]()
    published.reset(0)
    assert [int(published.observe(number)["operations"][0]) for number in (0, 3, 11)] == [47, 810, 360]
    faithful = SIMULATORS["surgical_simulator"]("boxing_gym")
    drawn = []
    for seed in range(150):
        faithful.reset(seed)
        drawn.append(faithful.operations)
    drawn = np.array(drawn) / np.array(
        [1767, 2367, 2145, 1098, 2389, 1876, 2134, 1567, 2897, 1234, 1876, 2456]
    )
    assert drawn.min() > 0.799
    assert drawn.max() < 1.2
    assert drawn.mean() == pytest.approx(1.0, abs=5 * 0.1155 / np.sqrt(drawn.size) + 5e-4)
