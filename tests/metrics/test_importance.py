import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from synthstats_lightning.metrics import ImportanceLogZ, importance_log_z


def test_equals_the_estimate_from_all_programs_at_once():
    generator = np.random.default_rng(0)
    log_reward = generator.normal(-300, 4, 200).astype(np.float32)
    log_prob = generator.normal(-40, 2, 200).astype(np.float32)
    task = generator.integers(2, size=200)
    metric = ImportanceLogZ(3)
    for part in np.array_split(np.arange(200), 6):
        metric.update(torch.from_numpy((log_reward - log_prob)[part]), torch.from_numpy(task[part]))
    values = metric.compute()
    for index in range(2):
        own = task == index
        weight, size = (log_reward - log_prob)[own].astype(float), own.sum()
        effective = np.exp(2 * logsumexp(weight) - logsumexp(2 * weight))
        assert float(values.log_z[index]) == pytest.approx(logsumexp(weight) - np.log(size))
        assert float(values.standard_error[index]) == pytest.approx(
            np.sqrt((size / effective - 1) / (size - 1))
        )
        assert float(values.effective_sample_size[index]) == pytest.approx(effective)
    assert values.size.tolist() == [(task == 0).sum(), (task == 1).sum(), 0]
    assert torch.isnan(values.log_z[2])


def test_at_the_target_every_program_says_log_z():
    log_reward = torch.tensor([1.0, 2.0, 5.0])
    metric = ImportanceLogZ(1)
    metric.update(log_reward - log_reward.log_softmax(0), torch.zeros(3, dtype=torch.int64))
    values = metric.compute()
    assert float(values.log_z) == pytest.approx(float(log_reward.logsumexp(0)), abs=1e-6)
    assert float(values.standard_error) == pytest.approx(0, abs=1e-3)
    assert float(values.effective_sample_size) == pytest.approx(3, abs=1e-5)


def test_of_one_program_the_error_is_infinite_and_of_none_there_is_no_estimate():
    assert importance_log_z(np.array([2.5])) == (2.5, np.inf, 1.0)
    assert np.isnan(importance_log_z(np.empty(0))).all()
