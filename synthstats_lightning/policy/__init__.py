"""The policy: loading, adapters, sampling, log-probabilities. Imports transformers on first use only."""

from synthstats_lightning.policy.full.trainer_mode import (
    Reference,
    TrainerMode,
    check_four_bits,
    check_trainer_mode,
)
from synthstats_lightning.policy.loading import check_plain_source, load_policy, resolve
from synthstats_lightning.policy.lora import LoraSettings, check_adapter_folder
from synthstats_lightning.policy.model_settings import ModelSettings
from synthstats_lightning.policy.multi_turn import Environment, Episode, sample_episodes
from synthstats_lightning.policy.policy import Policy
from synthstats_lightning.policy.sampling import SampledPrograms, SamplingSettings, annealed, on_policy
from synthstats_lightning.policy.sampling_backend import LocalBackend, SamplingBackend
from synthstats_lightning.policy.snapshot import adapter_as, copy_adapter
from synthstats_lightning.policy.suffixes import resample_suffixes
from synthstats_lightning.programs.answers import Thoughts

__all__ = [
    "Environment",
    "Episode",
    "LocalBackend",
    "LoraSettings",
    "ModelSettings",
    "Policy",
    "Reference",
    "SampledPrograms",
    "SamplingBackend",
    "SamplingSettings",
    "Thoughts",
    "TrainerMode",
    "adapter_as",
    "annealed",
    "check_adapter_folder",
    "check_four_bits",
    "check_plain_source",
    "check_trainer_mode",
    "copy_adapter",
    "load_policy",
    "on_policy",
    "resample_suffixes",
    "resolve",
    "sample_episodes",
]
