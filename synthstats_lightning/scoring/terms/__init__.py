"""Terms of a reward: what counts of a program, in nats, beside or instead of its likelihood."""

from synthstats_lightning.scoring.terms.likelihood import Likelihood
from synthstats_lightning.scoring.terms.llm_verifier import LLMVerifier
from synthstats_lightning.scoring.terms.term import RewardTerm, ScoredProgram, TermUnavailableError

__all__ = ["LLMVerifier", "Likelihood", "RewardTerm", "ScoredProgram", "TermUnavailableError"]
