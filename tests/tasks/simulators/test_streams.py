"""The same seed is the same instance in every process, and no stream disturbs another."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from synthstats_lightning.tasks.simulators import SIMULATORS

VARIANTS = ("corrected", "boxing_gym")
EVERY = [(name, variant) for name in SIMULATORS for variant in VARIANTS]


def digest(simulator, seed):
    """Hash of latents, designs, observations and evaluation points of an instance."""
    simulator.reset(seed)
    blocks = [simulator.latents, simulator.evaluation_points(5)]
    blocks += [simulator.observe(design) for design in simulator.random_designs(4, simulator.design_rng)]
    sha = hashlib.sha256()
    for block in blocks:
        for key, values in block.items():
            sha.update(key.encode() + np.ascontiguousarray(values).tobytes())
    return sha.hexdigest()


def digests():
    return [f"{name} {variant} {digest(SIMULATORS[name](variant), 11)}" for name, variant in EVERY]


def test_same_seed_same_instance_in_another_process():
    source = "from tests.tasks.simulators.test_streams import digests; print('\\n'.join(digests()))"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == digests()


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_resetting_rewinds_and_another_seed_is_another_instance(name, variant):
    simulator = SIMULATORS[name](variant)
    first = digest(simulator, 7)
    assert digest(simulator, 8) != first
    assert digest(simulator, 7) == first
    assert digest(SIMULATORS[name](variant), 7) == first


def same(left, right):
    return all(np.array_equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_streams_are_independent(name, variant):
    quiet, busy = SIMULATORS[name](variant), SIMULATORS[name](variant)
    quiet.reset(5)
    busy.reset(5)
    first, second = quiet.random_designs(2, np.random.default_rng(0))
    # evaluation points and designs do not change observations
    busy.evaluation_points(7)
    busy.random_designs(3, busy.design_rng)
    assert same(quiet.observe(first), busy.observe(first))
    # further observations do not change evaluation points, designs or latents
    for _ in range(3):
        busy.observe(second)
    assert same(quiet.evaluation_points(6), busy.evaluation_points(6))
    assert same(quiet.latents, busy.latents)
    busy.reset(5)
    busy.observe(second)
    assert quiet.random_designs(3, quiet.design_rng) == busy.random_designs(3, busy.design_rng)


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_fewer_evaluation_points_are_a_prefix_of_more(name, variant):
    settings = {"num_evaluation": 30} if name == "item_response" else {}
    simulator = SIMULATORS[name](variant, **settings)
    simulator.reset(2)
    many, few = simulator.evaluation_points(30), simulator.evaluation_points(3)
    rows = simulator.rows_per_design
    assert all(len(values) == 30 * rows for values in many.values())
    assert same(few, {key: values[: 3 * rows] for key, values in many.items()})
    assert tuple(many) == simulator.columns
    with pytest.raises(ValueError, match=r"at least one point, got 0|keeps 30 cells for evaluation"):
        simulator.evaluation_points(0)


@pytest.mark.parametrize("name", SIMULATORS)
def test_what_cannot_be_repeated_gives_the_same_response(name):
    simulator = SIMULATORS[name]()
    simulator.reset(1)
    design = simulator.random_designs(1, simulator.design_rng)[0]
    responses = {tuple(simulator.observe(design)[simulator.response].tolist()) for _ in range(60)}
    if not simulator.repeatable:
        assert len(responses) == 1
    elif simulator.response_kind == "continuous":
        assert len(responses) > 1


def test_an_instance_is_needed():
    with pytest.raises(RuntimeError, match=r"death_process has no instance yet: call reset\(seed\) first"):
        SIMULATORS["death_process"]().observe(1.0)
    with pytest.raises(ValueError, match="seed must be 0 or larger, got -1"):
        SIMULATORS["death_process"]().reset(-1)
