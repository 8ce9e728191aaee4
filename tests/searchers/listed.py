"""A writer of the enumerable token language, and the exact sums that searches estimate."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import torch

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.searchers.edits.columns import EditedTask
from synthstats_lightning.searchers.proposal import Proposal
from synthstats_lightning.testing.language import TOKENS, multimodal_log_reward, random_policy

LENGTH = 5
TASK = EditedTask({}, "y", (0.0, 1.0))
LETTERS = "abc"


class ListedLanguage:
    """Programs of at most `LENGTH` letters: every one of them, its prior, its proposal and its evidence."""

    def __init__(self, seed: int = 0, spread: float = 1.0) -> None:
        policy, prior = random_policy(1, LENGTH, seed), random_policy(1, LENGTH, seed + 1)
        self.programs = policy.programs
        self.rows = {program: row for row, program in enumerate(self.programs)}
        self.table = policy.logits.masked_fill(policy.blocked, -torch.inf).log_softmax(-1)[0].exp().numpy()
        self.log_q = policy.log_probs()[0].double().numpy()
        self.log_prior = prior.log_probs()[0].double().numpy()
        self.evidence = spread * multimodal_log_reward(self.programs, 1)[0].numpy() - 30.0
        # a fifth of the programs fails, the empty one among them
        self.fails = np.arange(len(self.programs)) % 5 == 0
        self.generator = np.random.default_rng(seed)
        self.shortest_prefix, self.longest = 1, LENGTH + 1

    @property
    def log_target(self) -> np.ndarray:
        """Prior times evidence of every program."""
        return np.where(self.fails, -np.inf, self.log_prior + self.evidence)

    def text(self, program: tuple[int, ...]) -> str:
        return "".join(LETTERS[token] for token in program)

    def score(self, proposal: Proposal) -> Future[Score]:
        row = self.rows[proposal.program_ids[:-1]]
        future: Future[Score] = Future()
        if self.fails[row]:
            future.set_result(Score.failed(FailureCategory.RAISED, "made up"))
        else:
            future.set_result(
                Score(evidence=float(self.evidence[row]), canonical=proposal.source, structure="s")
            )
        return future

    def draw(self, number: int) -> list[Proposal]:
        rows = self.generator.choice(len(self.programs), number, p=np.exp(self.log_q))
        return [self._proposal(self.programs[row], drawn=True) for row in rows]

    def go_on(self, prefixes) -> list[Proposal]:
        return [self._proposal(self._ended(tuple(prefix)), drawn=False) for prefix in prefixes]

    def read(self, sources) -> list[Proposal | None]:
        raise AssertionError("a letter is no program that could be edited")

    def _ended(self, program: tuple[int, ...]) -> tuple[int, ...]:
        while True:
            below = self.generator.random() > self.table[self.rows[program]].cumsum()
            if (token := int(below.sum())) >= TOKENS:
                return program
            program += (token,)

    def _proposal(self, program: tuple[int, ...], *, drawn: bool) -> Proposal:
        row = self.rows[program]
        log_prob, prior = float(self.log_q[row]), float(self.log_prior[row])
        return Proposal((*program, TOKENS), self.text(program), log_prob, prior, drawn=drawn)
