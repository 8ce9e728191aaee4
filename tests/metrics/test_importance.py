import numpy as np
import pytest
import torch

from synthstats_lightning.metrics import ImportanceLogZ
from synthstats_lightning.reports.shares import importance_log_z


def test_equals_the_estimate_from_all_programs_at_once():
    generator = np.random.default_rng(0)
    log_reward = generator.normal(-300, 4, 200).astype(np.float32)
    log_prob = generator.normal(-40, 2, 200).astype(np.float32)
    task = generator.integers(2, size=200)
    metric = ImportanceLogZ(3)
    for part in np.array_split(np.arange(200), 6):
        columns = (torch.from_numpy(column[part]) for column in (log_reward, log_prob, task))
        metric.update(*columns)
    found = metric.compute()
    for index in range(2):
        own = task == index
        expected = importance_log_z(log_reward[own].astype(float), log_prob[own].astype(float))
        assert float(found.log_z[index]) == pytest.approx(expected.value)
        assert float(found.standard_error[index]) == pytest.approx(expected.standard_error)
        assert float(found.effective_sample_size[index]) == pytest.approx(expected.effective_sample_size)
    assert found.size.tolist() == [(task == 0).sum(), (task == 1).sum(), 0]
    assert torch.isnan(found.log_z[2])


def test_at_the_target_every_program_says_log_z():
    log_reward = torch.tensor([1.0, 2.0, 5.0])
    metric = ImportanceLogZ(1)
    metric.update(log_reward, log_reward.log_softmax(0), torch.zeros(3, dtype=torch.int64))
    found = metric.compute()
    assert float(found.log_z) == pytest.approx(float(log_reward.logsumexp(0)), abs=1e-6)
    assert float(found.standard_error) == pytest.approx(0, abs=1e-3)
    assert float(found.effective_sample_size) == pytest.approx(3, abs=1e-5)
