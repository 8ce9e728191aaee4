"""Scoring of episodes: several turns against an environment, then a program."""

from synthstats_lightning.callbacks.episodes.episode_scorer import EpisodeScorer
from synthstats_lightning.callbacks.episodes.episode_scoring import EpisodeScoring

__all__ = ["EpisodeScorer", "EpisodeScoring"]
