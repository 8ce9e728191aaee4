"""A small writer, and tasks with names that nobody would choose."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.policy import LoraSettings, ModelSettings, load_policy
from synthstats_lightning.tasks import Task
from synthstats_lightning.testing.writers import save_random_writer
from tests.policy.conftest import awaken

SCRIPTS = ("a", "mu", "sigma", "b0", "температура", "年齢", "größe", "x_1", "smoke", "Normal")


@pytest.fixture(scope="package")
def writer_folder(tmp_path_factory):
    return save_random_writer(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="package")
def writer(writer_folder):
    settings = ModelSettings(dtype="float32")
    return awaken(load_policy(str(writer_folder), LoraSettings(rank=4, alpha=8.0), settings, seed=0), 0.03)


def table_task(names=SCRIPTS, response="y", rows=40, seed=0, **more):
    rng = np.random.default_rng(seed)
    data = {name: rng.normal(size=rows).round(3) for name in names}
    data[response] = (data[names[0]] + rng.normal(size=rows)).round(3)
    return Task("table", "A table.", data, response, **more)
