"""Latents: 10^5 draws from each prior against SciPy's distributions."""

import itertools

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.simulators.emotion import PRIOR_MEANS

DRAWS = 100_000
POSITIVE = np.inf


def truncated(mean, sd, low, high):
    return stats.truncnorm((low - mean) / sd, (high - mean) / sd, loc=mean, scale=sd)


DUGONGS = {"alpha": stats.norm(2, 0.2), "beta": stats.norm(1.5, 0.5)}
RATES = {"alpha": (0.1, 0.01), "beta": (0.02, 0.01), "gamma": (0.4, 0.04), "delta": (0.01, 0.001)}
MORALS = {
    **{
        "intercept": (0, 0.3),
        "group": (0.4, 0.1),
        "count": (0.7, 0.1),
        "gender": (-0.3, 0.1),
        "age": (0.1, 0.1),
    },
    **{"status": (0.1, 0.1), "fitness": (0.4, 0.1), "species": (0.6, 0.1), "intervention": (-0.3, 0.1)},
}

CASES = [
    ("dugongs_simulator", "boxing_gym", {}, {**DUGONGS, "rate": stats.norm(0.4, 0.5)}),
    ("dugongs_simulator", "corrected", {}, {**DUGONGS, "rate": truncated(0.4, 0.5, 0, 1)}),
    *(
        (
            *("peregrines_simulator", variant, {}),
            {
                "alpha": stats.norm(4.5, 0.1),
                "beta1": stats.norm(1.2, 0.1),
                "beta2": stats.norm(0.07, 0.01),
                "beta3": stats.norm(-0.24, 0.05),
            },
        )
        for variant in ("corrected", "boxing_gym")
    ),
    ("death_process", "corrected", {}, {"theta": truncated(1, 1, 0, 2)}),
    ("item_response", "corrected", {"mode": "1pl"}, {"ability": stats.norm(), "difficulty": stats.norm()}),
    (
        *("item_response", "boxing_gym", {"mode": "3pl"}),
        {
            **{"ability": stats.norm(), "difficulty": stats.norm(), "discrimination": stats.norm()},
            "guessing": stats.uniform(),
        },
    ),
    ("location_finding", "corrected", {}, {"sources": stats.norm()}),
    (
        "hyperbolic_discounting",
        "corrected",
        {},
        {"log_k": stats.norm(-4.25, 0.5), "alpha": stats.halfnorm(0, 2)},
    ),
    ("survival", "corrected", {}, {"baseline": stats.gamma(0.1, scale=10), "beta": stats.halfnorm(0, 10)}),
    ("lotka_volterra", "boxing_gym", {}, {name: stats.norm(*prior) for name, prior in RATES.items()}),
    (
        "lotka_volterra",
        "corrected",
        {},
        {name: truncated(*prior, 0, np.inf) for name, prior in RATES.items()},
    ),
    ("moral_machines", "corrected", {}, {name: stats.norm(*prior) for name, prior in MORALS.items()}),
    ("emotion", "corrected", {}, {"sigma": stats.halfnorm()}),
    ("eight_schools_simulator", "corrected", {}, {"mu": stats.norm(0, 10), "tau": stats.halfnorm(0, 10)}),
    ("surgical_simulator", "corrected", {}, {"mu": stats.uniform(-3.5, 2), "sigma": stats.uniform(0.2, 0.6)}),
    ("surgical_simulator", "boxing_gym", {}, {"mu": stats.uniform(-6, 2), "sigma": stats.uniform(0.3, 0.5)}),
]


@pytest.mark.parametrize(("name", "variant", "settings", "laws"), CASES)
def test_latents_follow_their_priors(name, variant, settings, laws):
    # six students and questions, and eight emotions, are draws of their own
    size = DRAWS // 6 if name in ("item_response", "emotion") else DRAWS
    latents = SIMULATORS[name](variant, **settings).sample_latents(np.random.default_rng(2), size)
    for key, law in laws.items():
        draws = latents[key].reshape(size, -1)
        for part in range(draws.shape[1]):
            assert stats.kstest(draws[:, part], law.cdf).pvalue > 1e-5, (key, part)
        assert draws.mean() == pytest.approx(law.mean(), abs=5 * law.std() / np.sqrt(draws.size))
    names = [key for key in laws if latents[key].ndim == 1]
    for first, second in itertools.combinations(names, 2):
        assert abs(np.corrcoef(latents[first], latents[second])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_every_environment_is_covered():
    assert {case[0] for case in CASES} == set(SIMULATORS)


def test_emotion_coefficients():
    latents = SIMULATORS["emotion"]().sample_latents(np.random.default_rng(3), DRAWS)
    for key, means in PRIOR_MEANS.items():
        sd = 0.1 if key == "intercept" else 0.01
        z = (latents[key] - np.array(means)) / sd
        assert stats.kstest(z.reshape(-1)[::8], stats.norm.cdf).pvalue > 1e-5
        np.testing.assert_allclose(z.mean(0), 0, atol=5 / np.sqrt(DRAWS))
        np.testing.assert_allclose(z.std(0), 1, atol=5 / np.sqrt(2 * DRAWS))


def test_hierarchies():
    schools = SIMULATORS["eight_schools_simulator"]().sample_latents(np.random.default_rng(3), DRAWS)
    z = (schools["effects"] - schools["mu"][:, None]) / schools["tau"][:, None]
    assert stats.kstest(z[:, 5], stats.norm.cdf).pvalue > 1e-5
    # law of total variance: mu 100, tau squared 100
    assert schools["effects"][:, 0].var() == pytest.approx(200, rel=0.03)
    floor = SIMULATORS["eight_schools_simulator"]("boxing_gym", tau_scale=1e-6)
    drawn = floor.sample_latents(np.random.default_rng(3), DRAWS)
    assert (drawn["effects"][:, 0] - drawn["mu"]).std() == pytest.approx(0.1, rel=0.02)
    surgical = SIMULATORS["surgical_simulator"]().sample_latents(np.random.default_rng(3), DRAWS)
    z = (surgical["risk"] - surgical["mu"][:, None]) / surgical["sigma"][:, None]
    assert stats.kstest(z[:, 11], stats.norm.cdf).pvalue > 1e-5


@pytest.mark.parametrize(("mode", "share"), [("1pl", 0.5), ("2pl", 0.5), ("3pl", 0.75)])
def test_response_tables(mode, share):
    simulator = SIMULATORS["item_response"](mode=mode)
    latents = simulator.sample_latents(np.random.default_rng(5), 20_000)
    table = latents["responses"]
    assert table.shape == (20_000, 6, 6)
    # cells of one instance are dependent, instances are not
    by_instance = table.mean((1, 2))
    assert table.mean() == pytest.approx(share, abs=5 * by_instance.std() / np.sqrt(20_000))
    student, question = np.divmod(np.arange(36), 6)
    probability = simulator.probability(latents, {"student": student, "question": question})
    residual = table.reshape(20_000, 36) - probability
    allowed = 5 * np.sqrt((probability * (1 - probability)).mean() / residual.size)
    assert residual.mean() == pytest.approx(0, abs=allowed)
    # and so they are at every level of the probability
    for low in np.arange(0, 1, 0.1):
        inside = (probability >= low) & (probability < low + 0.1)
        if inside.sum() > 1000:
            assert residual[inside].mean() == pytest.approx(0, abs=2.5 / np.sqrt(inside.sum()))


def test_instances_are_draws_from_the_prior():
    simulator = SIMULATORS["death_process"]()
    draws = []
    for seed in range(1000):
        simulator.reset(seed)
        draws.append(float(simulator.latents["theta"]))
    assert stats.kstest(draws, truncated(1, 1, 0, 2).cdf).pvalue > 1e-4
