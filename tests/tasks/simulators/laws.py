"""Independent laws of responses: SciPy's distributions, with formulas written out for one draw and row."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import integrate, stats


@dataclass(frozen=True)
class Case:
    """A conditional distribution of one response, by SciPy.

    Attributes:
        name: Simulator.
        variant: Its variant.
        latents: One draw, without the leading axis.
        covariates: One row.
        law: Frozen SciPy distribution of the response.
        settings: Arguments of the simulator.
    """

    name: str
    variant: str
    latents: dict
    covariates: dict
    law: object
    settings: dict = field(default_factory=dict)

    def __str__(self):
        row = ",".join(f"{key}={value}" for key, value in self.covariates.items())
        return f"{self.name}-{self.variant}-{row}"


def logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


def dugongs():
    for alpha, beta, rate, age in ((2.0, 1.5, 0.4, 0.0), (2.1, 1.4, 0.7, 3.0), (1.0, 1.6, 0.9, 0.5)):
        latents, covariates = {"alpha": alpha, "beta": beta, "rate": rate}, {"age": age}
        m = alpha - beta * rate**age
        yield Case(
            "dugongs_simulator", "boxing_gym", latents, covariates, stats.foldnorm(abs(m) / 0.25, scale=0.25)
        )
        law = stats.truncnorm(-m / 0.25, np.inf, loc=m, scale=0.25)
        yield Case("dugongs_simulator", "corrected", latents, covariates, law)
    # an exploding and a negative rate, which only the public definition has
    m = 2.0 - 1.5 * 1.2**4.0
    latents = {"alpha": 2.0, "beta": 1.5, "rate": -1.2}
    law = stats.foldnorm(abs(m) / 0.25, scale=0.25)
    yield Case("dugongs_simulator", "boxing_gym", latents, {"age": 4.0}, law)


def peregrines():
    for variant, year in (("boxing_gym", 1.5), ("boxing_gym", 3.4), ("corrected", -1.2)):
        latents = {"alpha": 4.4, "beta1": 1.1, "beta2": 0.08, "beta3": -0.25}
        mean = np.exp(4.4 + 1.1 * year + 0.08 * year**2 - 0.25 * year**3)
        yield Case("peregrines_simulator", variant, latents, {"year": year}, stats.poisson(mean))


def death_process():
    for theta, time in ((1.3, 0.4), (0.2, 0.01), (1.9, 1.9)):
        law = stats.binom(50, 1 - np.exp(-theta * time))
        yield Case("death_process", "corrected", {"theta": theta}, {"time": time}, law)


def item_response():
    ability, difficulty = np.array([0.3, -1.0, 2.0]), np.array([0.5, -0.7])
    discrimination, guessing = np.array([1.2, -0.8]), np.array([0.1, 0.6])
    latents = {"ability": ability, "difficulty": difficulty}
    settings = {"num_students": 3, "num_questions": 2, "num_evaluation": 2}
    for student, question in ((0, 0), (2, 1)):
        row = {"student": student, "question": question}
        gap = ability[student] - difficulty[question]
        one, two = logistic(gap), logistic(discrimination[question] * gap)
        three = guessing[question] + (1 - guessing[question]) * two
        more = {**latents, "discrimination": discrimination}
        for mode, given, p in (
            ("1pl", latents, one),
            ("2pl", more, two),
            ("3pl", {**more, "guessing": guessing}, three),
        ):
            yield Case(
                "item_response", "corrected", given, row, stats.bernoulli(p), {**settings, "mode": mode}
            )


@dataclass
class RoundedNormal:
    """A normal variable that is rounded to 0.01, with the part of SciPy's interface that tests use."""

    mu: float
    sd: float

    def logpmf(self, value):
        normal = stats.norm(self.mu, self.sd)
        with np.errstate(divide="ignore"):
            return np.log(normal.cdf(np.asarray(value) + 0.005) - normal.cdf(np.asarray(value) - 0.005))

    def mean(self):
        return self.mu

    def var(self):
        return self.sd**2 + 0.01**2 / 12

    def support(self):
        return -np.inf, np.inf


def location_finding():
    sources = np.array([[0.5, -0.2], [1.0, 1.5], [-2.0, 0.1]])
    for x in ((0.4, 0.3), (-1.0, 2.0)):
        intensity = 0.1 + sum(1 / (1e-4 + (s[0] - x[0]) ** 2 + (s[1] - x[1]) ** 2) for s in sources)
        row = {"x1": x[0], "x2": x[1]}
        latents = {"sources": sources}
        yield Case("location_finding", "corrected", latents, row, stats.norm(np.log(intensity), 0.5))
        yield Case("location_finding", "boxing_gym", latents, row, RoundedNormal(intensity, 0.5))


def hyperbolic_discounting():
    for row in ((100, 130, 20), (50, 52, 1), (10, 290, 360)):
        latents = {"log_k": -4.0, "alpha": 1.5}
        now, later, days = row
        value = later / (1 + np.exp(-4.0) * days) - now
        p = 0.01 + 0.98 * stats.norm.cdf(value / 1.5)
        covariates = {"immediate_reward": now, "delayed_reward": later, "days": days}
        yield Case("hyperbolic_discounting", "corrected", latents, covariates, stats.bernoulli(p))


def survival():
    for baseline, beta, metastasised, years in (
        (0.05, 1.2, 0, 4.0),
        (0.05, 1.2, 1, 9.0),
        (0.01, 3.0, 1, 0.5),
    ):
        exposure = years * baseline * np.exp(beta * metastasised)
        latents, row = {"baseline": baseline, "beta": beta}, {"metastasised": metastasised, "years": years}
        yield Case("survival", "corrected", latents, row, stats.bernoulli(stats.expon.cdf(exposure)))
        yield Case("survival", "boxing_gym", latents, row, stats.bernoulli(logistic(exposure)))


def lotka_volterra():
    latents = {"alpha": 0.11, "beta": 0.03, "gamma": 0.38, "delta": 0.011}

    def slope(_, state):
        prey, predators = state
        return [prey * (0.11 - 0.03 * predators), predators * (0.011 * prey - 0.38)]

    for time, species in ((2.5, 0), (31.0, 1)):
        solved = integrate.solve_ivp(slope, (0, time), [40.0, 9.0], rtol=1e-11, atol=1e-12).y[:, -1]
        law = stats.lognorm(0.1, scale=solved[species])
        yield Case("lotka_volterra", "corrected", latents, {"time": time, "species": species}, law)


def moral_machines():
    latents = {
        **{"intercept": 0.1, "group": 0.35, "count": 0.8, "gender": -0.2, "age": 0.15, "status": 0.05},
        **{"fitness": 0.5, "species": 0.55, "intervention": -0.25},
    }
    # a pregnant woman and a boy against a cat and a large man, the car swerves:
    # differences are 1 human, -1 woman, 1 child, 1.5 status, 1 fitness, 2 species
    row = {
        **{"count_difference": 1, "gender_difference": -1, "age_difference": 1, "status_difference": 1.5},
        **{"fitness_difference": 1, "species_difference": 2, "intervention": 1},
    }
    eta = 0.1 + 0.35 + 0.8 + 0.2 + 0.15 + 1.5 * 0.05 + 0.5 + 2 * 0.55 - 0.25
    yield Case("moral_machines", "corrected", latents, row, stats.bernoulli(logistic(eta)))


def emotion():
    rng = np.random.default_rng(4)
    names = ("intercept", "win_slope", "surprise_slope", "size_slope")
    latents = {name: rng.normal(3.0 if name == "intercept" else 0.01, 0.01, 8) for name in names}
    latents["sigma"] = rng.uniform(0.4, 2.0, 8)
    row = {"prize_1": 90.0, "prize_2": 20.0, "prize_3": 50.0, "win": 90.0}
    row |= {"probability_1": 0.2, "probability_2": 0.5, "probability_3": 0.3}
    error = 90.0 - (18.0 + 10.0 + 15.0)
    for emotion in (0, 5):
        mean = latents["intercept"][emotion] + latents["win_slope"][emotion] * 90.0
        mean += latents["surprise_slope"][emotion] * error + latents["size_slope"][emotion] * error
        edges = stats.norm(mean, latents["sigma"][emotion]).cdf([-np.inf, 2, 3, 4, 5, 6, 7, 8, 9, np.inf])
        law = stats.rv_discrete(values=(np.arange(1, 10), np.diff(edges)))
        yield Case("emotion", "corrected", latents, {**row, "emotion": emotion}, law)


def eight_schools():
    latents = {"mu": 3.0, "tau": 4.0, "effects": np.arange(8.0)}
    row = {"school": 2, "standard_error": 16.0}
    yield Case("eight_schools_simulator", "corrected", latents, row, stats.norm(2.0, 16.0))


def surgical():
    latents = {"mu": -2.5, "sigma": 0.5, "risk": np.linspace(-4.0, -1.0, 12)}
    row = {"hospital": 3, "operations": 810}
    risk = -4.0 + 3 * 3.0 / 11
    yield Case("surgical_simulator", "corrected", latents, row, stats.binom(810, logistic(risk)))
    yield Case("surgical_simulator", "boxing_gym", latents, row, stats.poisson(810 * np.exp(risk)))


FAMILIES: tuple[Callable, ...] = (
    *(dugongs, peregrines, death_process, item_response, location_finding, hyperbolic_discounting, survival),
    *(lotka_volterra, moral_machines, emotion, eight_schools, surgical),
)
CASES = [case for family in FAMILIES for case in family()]
