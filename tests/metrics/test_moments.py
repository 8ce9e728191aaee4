import numpy as np
import pytest
import torch

from synthstats_lightning.metrics import GroupedVariance, Moments


def test_moments_over_batches_are_those_of_all_values():
    values = np.random.default_rng(0).normal(1e5, 2.0, 1000)
    metric = Moments()
    for part in np.array_split(values, 7):
        metric.update(torch.from_numpy(part))
    found = metric.compute()
    assert float(found.mean) == pytest.approx(values.mean(), abs=1e-9)
    assert float(found.std) == pytest.approx(values.std(), abs=1e-4)
    assert int(found.size) == 1000
    metric.reset()
    metric.update(torch.tensor([3]))
    assert [float(value) for value in metric.compute()] == [3.0, 0.0, 1.0]


def test_moments_refuse_what_has_no_mean():
    with pytest.raises(ValueError, match="values must be finite"):
        Moments().update(torch.tensor([1.0, float("nan")]))


def test_variance_within_tasks_is_zero_at_the_target_whatever_their_log_z():
    log_reward = torch.tensor([1.0, 2.0, 5.0, 0.0])
    task = torch.tensor([0, 0, 1, 1])
    log_z = torch.stack([log_reward[task == index].logsumexp(0) for index in range(2)])
    metric = GroupedVariance(3)
    metric.update(log_reward - (log_reward - log_z[task]), task)
    assert float(metric.compute()) == pytest.approx(0, abs=1e-10)


def test_variance_within_tasks_against_numpy():
    generator = np.random.default_rng(1)
    values, task = generator.normal(size=90) * 3, generator.integers(2, size=90)
    metric = GroupedVariance(2)
    for part in np.array_split(np.arange(90), 4):
        metric.update(torch.from_numpy(values[part]), torch.from_numpy(task[part]))
    expected = np.mean([values[task == index].var() for index in range(2)])
    assert float(metric.compute()) == pytest.approx(expected)
