"""What YAML says becomes the objects that were meant."""

from __future__ import annotations

import yaml
from lightning.pytorch.callbacks import EarlyStopping

from synthstats_lightning import ReplayDataModule, Reward
from synthstats_lightning.cli.parser import OneLineErrors
from synthstats_lightning.cli.sections import SECTIONS, add_sections, section_callbacks
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.runtime.shipped import shipped_configs
from synthstats_lightning.scoring.schedule import Ramp, RewardSchedule


def content(name):
    return yaml.safe_load((shipped_configs() / f"{name}.yaml").read_text())


def made(*names):
    """Callbacks of configurations' sections, by the names of their classes."""
    parser = OneLineErrors()
    add_sections(parser)
    parser.add_argument("--trainer", type=dict, default={})
    config = parser.get_defaults()
    for name in names:
        sections = {key: value for key, value in content(name).items() if key in SECTIONS}
        config = parser.parse_object(sections, cfg_base=config)
    callbacks = section_callbacks(parser.instantiate_classes(config), [])
    return {type(callback).__name__: callback for callback in callbacks}


def test_quickstart():
    callbacks = made("quickstart")
    assert callbacks["ProgramScoring"].reward == Reward(1.0, 1.0, -6.0, -8.0)
    assert callbacks["ProgramScoring"].sampling == SamplingSettings(256, 1.1)
    assert callbacks["PosteriorReport"].num_programs == 1000
    assert list(callbacks) == [
        "ProgramScoring",
        "PosteriorReport",
        "PredictionWriter",
        "TQDMProgressBar",
        "ModelCheckpoint",
    ]


def test_exploration_overlay():
    callbacks = made("quickstart", "trainer/exploration")
    scoring, metrics = callbacks["ProgramScoring"], callbacks["TrainingMetrics"]
    assert scoring.reward == Reward(1.0, 1.0, -6.0, -8.0, format_weight=2.0)
    assert scoring.reward_schedule == RewardSchedule(beta=Ramp(0.25, 50, "geometric"))
    assert scoring.sampling == SamplingSettings(256, epsilon=0.002, temperature_high=1.6)
    assert scoring.prefix_resampling_fraction == 0.2
    assert metrics.prefixes.lengths == (8, 32, 64)


def test_overlays_that_steer_by_the_protocol():
    callbacks = made("quickstart", "trainer/benchmark_evaluation_checkpoint")
    evaluation, saving = callbacks["BenchmarkEvaluation"], callbacks["ModelCheckpoint"]
    assert (evaluation.every_n_steps, evaluation.settings.budgets) == (40, (5,))
    assert (evaluation._training.seeds, evaluation.oracle) == ((1, 2), False)
    assert (saving.monitor, saving.mode) == ("benchmark/lpd_gain", "max")
    assert saving._every_n_train_steps == evaluation.every_n_steps
    stop = content("trainer/benchmark_evaluation_stop")
    (stopping,) = stop["trainer"]["callbacks"]
    own = EarlyStopping(**stopping["init_args"])
    assert (own.monitor, own.mode, own._check_on_train_epoch_end) == (saving.monitor, "max", True)
    steps = stop["data"]["init_args"]["steps_per_epoch"]
    assert (
        made("quickstart", "trainer/benchmark_evaluation_stop")["BenchmarkEvaluation"].every_n_steps == steps
    )


def test_checkpoints_by_the_clock():
    saving = made("quickstart", "trainer/asynchronous")["ModelCheckpoint"]
    assert saving._every_n_train_steps == 0
    assert saving._train_time_interval.total_seconds() == 600
    assert saving.save_last


def test_replay_overlays():
    made = {}
    for name in ("mixed", "shared_rewards", "demonstrations"):
        made[name] = ReplayDataModule(**content(f"replay/{name}")["data"]["init_args"])
    buffer = made["mixed"].buffer
    assert (buffer.replay_fraction, buffer.structure_fraction, buffer.uniform_fraction) == (0.3, 0.2, 0.1)
    assert (buffer.capacity_per_task, buffer.deduplicate) == (10_000, "program")
    assert made["shared_rewards"].buffer.multiplicity == "program"
    assert [item.task for item in made["demonstrations"].demonstrations] == ["dugongs", "dugongs"]
