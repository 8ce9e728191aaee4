"""The policy: loading, adapters, sampling, log-probabilities. Imports transformers on first use only."""

from synthstats_lightning.policy.loading import ModelSettings, load_policy, resolve
from synthstats_lightning.policy.lora import LoraSettings
from synthstats_lightning.policy.policy import Policy
from synthstats_lightning.policy.sampling import SampledPrograms, SamplingSettings, annealed

__all__ = [
    "LoraSettings",
    "ModelSettings",
    "Policy",
    "SampledPrograms",
    "SamplingSettings",
    "annealed",
    "load_policy",
    "resolve",
]
