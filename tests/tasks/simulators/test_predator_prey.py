"""The Taylor series solver against SciPy's integrator and the conserved quantity of the equations."""

import numpy as np
import pytest
from scipy import integrate

from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.simulators.predator_prey import CEILING, populations


def by_scipy(rates, times):
    a, b, g, d = rates

    def slope(_, state):
        return [state[0] * (a - b * state[1]), state[1] * (d * state[0] - g)]

    return integrate.solve_ivp(
        slope, (0.0, times.max()), [40.0, 9.0], t_eval=times, method="DOP853", rtol=1e-11, atol=1e-13
    ).y


@pytest.mark.parametrize(
    "rates",
    [(0.1, 0.02, 0.4, 0.01), (0.12, 0.001, 0.5, 0.013), (0.08, 0.06, 0.3, 0.007), (0.1, -0.004, 0.4, 0.01)],
)
def test_agrees_with_scipy(rates):
    end = 50.0 if rates[1] > 0 else 8.0
    times = np.array([0.3, 1.0, 7.7, 23.0, 41.5, 50.0]) * end / 50.0
    own = populations(np.array([rates]), (40.0, 9.0), times[None])[:, 0]
    np.testing.assert_allclose(own, by_scipy(rates, times), rtol=1e-7)


def test_draws_do_not_disturb_each_other_and_times_may_differ():
    rng = np.random.default_rng(0)
    rates = np.abs(rng.normal((0.1, 0.02, 0.4, 0.01), (0.01, 0.01, 0.04, 0.001), (3000, 4)))
    times = rng.uniform(0.0, 20.0, (3000, 3))
    own = populations(rates, (40.0, 9.0), times)
    for index in (0, 1023, 1024, 2999):
        order = np.argsort(times[index])
        np.testing.assert_allclose(
            own[:, index, order], by_scipy(rates[index], times[index, order]), rtol=1e-7
        )


def test_first_integral_is_conserved():
    rng = np.random.default_rng(1)
    rates = np.abs(rng.normal((0.1, 0.02, 0.4, 0.01), (0.01, 0.005, 0.04, 0.001), (500, 4)))
    times = np.broadcast_to(np.linspace(0.0, 50.0, 6), (500, 6))
    prey, predators = populations(rates, (40.0, 9.0), times)
    a, b, g, d = (rate[:, None] for rate in rates.T)
    first = d * prey - g * np.log(prey) + b * predators - a * np.log(predators)
    np.testing.assert_allclose(first, np.broadcast_to(first[:, :1], first.shape), rtol=1e-7)


def test_explosions_stop_at_the_ceiling():
    rates = np.array([[0.1, -0.01, 0.4, 0.01], [0.1, 0.02, 0.4, 0.01]])
    both = populations(rates, (40.0, 9.0), np.full((2, 2), 50.0))
    assert both.max() == CEILING
    assert np.isfinite(both).all()
    np.testing.assert_allclose(both[:, 1, 0], by_scipy(rates[1], np.array([50.0]))[:, 0], rtol=1e-7)
    simulator = SIMULATORS["lotka_volterra"]("boxing_gym", means=(0.1, -0.01, 0.4, 0.01), sds=(0.0,) * 4)
    simulator.reset(0)
    assert simulator.observe(50.0)["population"].max() == CEILING


def test_time_zero_is_the_start():
    simulator = SIMULATORS["lotka_volterra"]("boxing_gym")
    simulator.reset(0)
    observed = simulator.observe(0)
    assert observed["population"].tolist() == [40, 9]
    assert observed["species"].tolist() == [0, 1]


def test_rates_are_positive_unless_faithful():
    rng = np.random.default_rng(0)
    corrected = SIMULATORS["lotka_volterra"]().sample_latents(rng, 100_000)
    assert all(values.min() > 0 for values in corrected.values())
    faithful = SIMULATORS["lotka_volterra"]("boxing_gym").sample_latents(rng, 100_000)
    # normal below zero at two standard deviations
    assert (faithful["beta"] < 0).mean() == pytest.approx(0.02275, abs=0.0024)
