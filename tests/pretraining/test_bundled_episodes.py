"""The bundled episode policy: small, made by the shipped configuration, and at home in the protocol."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from synthstats_lightning.policy import load_policy
from synthstats_lightning.pretraining.episodes.evaluate import evaluate_episodes
from synthstats_lightning.tasks.simulators import SIMULATORS

FOLDER = Path(str(files("synthstats_lightning").joinpath("policy/tiny_episodes")))
CONFIG = Path(__file__).parents[2] / "configs" / "policy" / "tiny_episodes_pretraining.yaml"


def test_made_by_the_shipped_configuration():
    shipped = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    recorded = json.loads((FOLDER / "pretraining.json").read_text(encoding="utf-8"))
    assert recorded["training"] == shipped["training"]
    assert recorded["policy"] == shipped["policy"] == "tiny"
    assert set(recorded["episodes"]) == set(SIMULATORS)
    assert (FOLDER / "model.safetensors").stat().st_size <= 8_000_000


@pytest.mark.long
def test_it_experiments_and_submits(monkeypatch):
    few = ("dugongs_simulator", "death_process", "peregrines_simulator")
    monkeypatch.setattr(
        "synthstats_lightning.pretraining.episodes.evaluate.SIMULATORS",
        {name: SIMULATORS[name] for name in few},
    )
    policy = load_policy("tiny-episodes", lora=None)
    assert policy.language_model.config.max_position_embeddings == 768
    figures = evaluate_episodes(policy, seed=5, episodes=20, experiments=2)
    assert set(figures) == set(few)
    for each in figures.values():
        assert each.submitted >= 0.8
        assert each.experiments >= 1
    assert sum(each.valid for each in figures.values()) / 3 >= 0.7


@pytest.mark.parametrize("name", ["tiny-episodes"])
def test_reference_is_the_episode_policy(name):
    policy = load_policy(name)
    assert policy.has_adapter
    assert policy.name == name
    assert "<observe>" in policy.tokenizer.get_vocab()
