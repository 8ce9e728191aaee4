"""What YAML says becomes the objects that were meant."""

from __future__ import annotations

from pathlib import Path

import jsonargparse
import yaml

from synthstats_lightning import ReplayDataModule, Reward
from synthstats_lightning.callbacks import ProgramScoring, TrainingMetrics
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule

ROOT = Path(__file__).resolve().parents[2]


def built(base, content):
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(base, "it")
    return parser.instantiate_classes(parser.parse_object({"it": content})).it


def test_exploration_overlay():
    content = yaml.safe_load((ROOT / "configs/trainer/exploration.yaml").read_text())
    scoring, metrics, _ = content["trainer"]["callbacks"]
    scoring, metrics = built(ProgramScoring, scoring), built(TrainingMetrics, metrics)
    assert scoring.reward == Reward(1.0, 1.0, -5.0, -8.0, format_weight=2.0)
    assert scoring.reward_schedule == RewardSchedule(beta=Ramp(0.25, 200, "geometric"))
    assert scoring.sampling == SamplingSettings(160, epsilon=0.002, temperature_high=1.6)
    assert scoring.prefix_resampling_fraction == 0.2
    assert metrics.prefixes.lengths == (8, 32, 64)


def test_replay_overlays(monkeypatch):
    monkeypatch.chdir(ROOT)
    made = {}
    for name in ("mixed", "shared_rewards", "demonstrations"):
        made[name] = built(
            ReplayDataModule, yaml.safe_load((ROOT / f"configs/replay/{name}.yaml").read_text())["data"]
        )
    buffer = made["mixed"].buffer
    assert (buffer.replay_fraction, buffer.structure_fraction, buffer.uniform_fraction) == (0.3, 0.2, 0.1)
    assert (buffer.capacity_per_task, buffer.deduplicate) == (10_000, "program")
    assert made["shared_rewards"].buffer.multiplicity == "program"
    assert [item.task for item in made["demonstrations"].demonstrations] == ["dugongs", "dugongs"]
