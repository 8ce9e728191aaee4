"""Ways of searching for programs, with one scorer and one budget: ask for proposals, tell their scores."""

from synthstats_lightning.searchers.evolution import Evolution
from synthstats_lightning.searchers.model_smc import ModelSMC
from synthstats_lightning.searchers.sample_and_weight import SampleAndWeight
from synthstats_lightning.searchers.searcher import Estimate, Searcher

__all__ = ["Estimate", "Evolution", "ModelSMC", "SampleAndWeight", "Searcher"]
