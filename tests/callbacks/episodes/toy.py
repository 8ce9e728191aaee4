"""A language of five tokens, an environment of two turns, and every episode that there is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import torch

from synthstats_lightning.policy import Policy, load_policy
from synthstats_lightning.policy.turns import answer_tokens, turn_frame
from synthstats_lightning.replay import Trajectory
from synthstats_lightning.testing.listed_language import WORDS, save_listed_model

STOP, A, B, USER, X = range(5)
PROMPT = (USER, X)
TURN_LIMIT = 2


def toy_policy(folder: Path) -> Policy:
    """A random model of one layer, all of whose weights learn."""
    save_listed_model(folder)
    policy = load_policy(str(folder), lora=None)
    for parameter in policy.parameters():
        parameter.requires_grad_(True)
    return policy


class ToyEpisode:
    """Answers the first turn by something of another length for each turn; the second is the submission."""

    def __init__(self) -> None:
        self.program = ""
        self.turns: list[str] = []
        self.reason = ""

    def answer(self, turn: str) -> str | None:
        self.turns.append(turn)
        if len(self.turns) == 1:
            return {"A": "x", "B": "x A", "": "B B x"}.get(turn, "A")
        self.program = turn or "nothing"
        return None

    def cut(self, turn: str, reason: str) -> None:
        self.turns.append(turn)
        self.reason = reason


class ToyEnvironment:
    thoughts = "none"

    def begin(self) -> ToyEpisode:
        return ToyEpisode()


class Known(NamedTuple):
    """One possible episode: its tokens, who wrote them, and whether no turn was cut."""

    tokens: tuple[int, ...]
    runs: tuple[int, ...]
    complete: bool


def complete_turns() -> list[tuple[int, ...]]:
    """Every turn that ends, the stop token included."""
    words = range(1, len(WORDS))
    return [(*turn, STOP) for length in range(TURN_LIMIT) for turn in itertools.product(words, repeat=length)]


def cut_turns() -> list[tuple[int, ...]]:
    """Every turn that runs into the limit."""
    return list(itertools.product(range(1, len(WORDS)), repeat=TURN_LIMIT))


def all_episodes(policy: Policy) -> list[Known]:
    """Every episode, by brute force."""
    frame = turn_frame(policy.tokenizer, policy.stop_token_ids)
    found = [Known(turn, (len(turn),), False) for turn in cut_turns()]
    for first in complete_turns():
        text = policy.tokenizer.decode(first[:-1])
        answer = answer_tokens(policy.tokenizer, frame, ToyEpisode().answer(text))
        for second in (*complete_turns(), *cut_turns()):
            runs = (len(first), len(answer), len(second))
            found.append(Known(first + answer + second, runs, second[-1] == STOP))
    return found


def trajectories(episodes: list[Known], log_reward: torch.Tensor) -> list[Trajectory]:
    """Episodes as the replay buffer holds them."""
    return [
        Trajectory(0, episode.tokens, value, 0.0, runs=episode.runs)
        for episode, value in zip(episodes, log_reward.tolist(), strict=True)
    ]
