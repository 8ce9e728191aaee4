"""Sampling episodes: the policy writes a turn, its environment answers, until it says no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.policy.policy import Policy
from synthstats_lightning.policy.sampling import (
    Decoded,
    RowRandomness,
    SampledPrograms,
    SamplingSettings,
    draw_randomness,
    stream_seed,
)
from synthstats_lightning.policy.sampling_backend import LOCAL, SamplingBackend
from synthstats_lightning.policy.text.answer_tokens import plain_text, without_thought
from synthstats_lightning.policy.turns import TurnFrame, answer_tokens, turn_frame
from synthstats_lightning.programs.answers import Thoughts


@runtime_checkable
class Episode(Protocol):
    """One conversation between a policy and an environment.

    Attributes:
        program: What the policy submitted; empty if it has submitted nothing.
    """

    program: str

    def answer(self, turn: str) -> str | None:
        """The environment's answer to the policy's next turn, or `None` if the episode is over.

        It must depend on nothing but the environment and the turns so far: then what a policy writes decides
        all of an episode, and its probability is that of its own tokens.

        Args:
            turn: What the policy wrote, thoughts included, without the stop token.
        """
        ...

    def cut(self, turn: str, reason: str) -> None:
        """Ends the episode from outside.

        Args:
            turn: What the policy had written of its turn; empty if it could not begin one.
            reason: Why the episode was cut, in one line.
        """
        ...


@runtime_checkable
class Environment(Protocol):
    """What a policy talks to.

    Attributes:
        thoughts: What becomes of thoughts.
    """

    thoughts: Thoughts

    def begin(self) -> Episode:
        """A new episode; every one begins in the same state."""
        ...


@dataclass
class _Row:
    """An episode under way.

    Attributes:
        index: Which environment it is of.
        prompt: Token ids of the prompt that the episode began with.
        prior_prompt: Token ids of the prompt that the reference policy is given in its place.
        episode: Its environment's side.
        frame: Tokens around an answer.
        strips: Whether thoughts are left out.
        tokens: Of the conversation so far, behind the prompt.
        runs: Lengths of what policy and environment wrote, by turns.
        answer: Tokens of an answer that the policy has not been shown yet.
        log_prob: Log-probability of the policy's own tokens so far, in nats.
        stopped: Whether no turn was cut.
        proposal_log_prob: Log-probability with which these tokens were drawn, in nats; +inf if unknown.
        weights_step: Training step of the oldest weights that wrote one of its turns; `None` where all were
            the present ones.
    """

    index: int
    prompt: tuple[int, ...]
    prior_prompt: tuple[int, ...]
    episode: Episode
    frame: TurnFrame
    strips: bool
    tokens: tuple[int, ...] = ()
    runs: list[int] = field(default_factory=list)
    answer: tuple[int, ...] = ()
    log_prob: float = 0.0
    stopped: bool = True
    proposal_log_prob: float = 0.0
    weights_step: int | None = None


@torch.no_grad()
def sample_episodes(
    policy: Policy,
    environments: Sequence[Environment],
    prompts: Sequence[Sequence[int]],
    num_samples: int | Sequence[int],
    settings: SamplingSettings,
    seed: int,
    rank: int = 0,
    step: int = 0,
    prior_prompts: Sequence[Sequence[int]] | None = None,
    backend: SamplingBackend = LOCAL,
) -> SampledPrograms:
    """Has the policy talk to several environments, all episodes at once, turn by turn.

    A turn ends with a stop token; one that reaches `settings.max_new_tokens` is cut, and its episode with it.
    An episode also ends where the model has no positions left for a whole turn. In each turn the equal
    beginnings of all episodes are run once (in the first, one prompt per environment); what has been said is
    run again in the next turn.

    The random numbers come from a private stream, as those of `Policy.sample`, and every episode has its own
    numbers in every turn: what becomes of one does not depend on when others end.

    Log-probabilities are those of the policy's own tokens at temperature 1. Where thoughts are stripped they
    are those of the tokens that are left, without the thoughts before them: not the probability that the
    episode was sampled with, which sums over thoughts and is not known.

    Args:
        policy: The policy that writes the turns.
        environments: What it talks to.
        prompts: Token ids of each environment's prompt, from `Policy.encode_prompt`.
        num_samples: Episodes per environment, one number or one for each.
        settings: Temperature, exploration and the limit of a turn.
        seed: Seed of the run, from which the random stream is made.
        rank: Number of this process in the run; each rank has a random stream of its own.
        step: Training step, or number of the random stream; each has other random numbers.
        prior_prompts: What the reference policy is given in place of each prompt; by default the same.
        backend: Who writes the turns; log-probabilities are the policy's in any case.

    Returns:
        Episodes, those of one environment together: `program_ids` holds what was said after the prompt,
        `own_mask` what of that the policy wrote, `sources` what it submitted, `episodes` the environments'
        sides.

    Raises:
        ValueError: If there is no environment or episode, their number differs from that of the prompts, a
            prompt leaves no room for a turn, or `settings.min_new_tokens` is not 0.
    """
    counts = [num_samples] * len(prompts) if isinstance(num_samples, int) else list(num_samples)
    if not len(environments) == len(prompts) == len(counts) or sum(counts) < 1 or min(counts) < 0:
        raise ValueError(
            "environments, prompts and num_samples must be of the same length and ask for at least one"
            f" episode, got {len(environments)}, {len(prompts)} and {num_samples}"
        )
    if settings.min_new_tokens:
        raise ValueError(f"min_new_tokens must be 0 for episodes, got {settings.min_new_tokens}")
    priors = prompts if prior_prompts is None else prior_prompts
    if len(priors) != len(prompts):
        raise ValueError(f"prior_prompts must be one for each of {len(prompts)} prompts, got {len(priors)}")
    room = _room(policy, settings)
    longest = max(len(prompt) for prompt in [*prompts, *priors])
    if longest > room:
        raise ValueError(
            f"max_new_tokens must leave room for the longest prompt of {longest} tokens, got"
            f" {settings.max_new_tokens}: with it the model has room for {int(room)}"
        )
    frames = {
        thinking: turn_frame(policy.tokenizer, policy.stop_token_ids, thinking)
        for thinking in {each.thoughts != "none" for each in environments}
    }
    rows = [
        _Row(
            index,
            tuple(prompts[index]),
            tuple(priors[index]),
            environment.begin(),
            frames[environment.thoughts != "none"],
            environment.thoughts == "stripped",
        )
        for index, environment in enumerate(environments)
        for _ in range(counts[index])
    ]
    generator = torch.Generator().manual_seed(stream_seed(seed, rank, step))
    with policy.evaluating():
        live = list(range(len(rows)))
        with backend.drawing(policy):
            while live:
                randomness = draw_randomness(settings, len(rows), generator)
                live = _turn(policy, rows, live, settings, randomness, room, generator, backend)
        return _collected(policy, rows)


def _room(policy: Policy, settings: SamplingSettings) -> float:
    """Tokens after which a whole turn still fits."""
    positions = getattr(policy.text_config, "max_position_embeddings", None)
    return float("inf") if positions is None else float(positions - settings.max_new_tokens)


def _turn(
    policy: Policy,
    rows: list[_Row],
    live: list[int],
    settings: SamplingSettings,
    randomness: RowRandomness,
    room: float,
    generator: torch.Generator,
    backend: SamplingBackend,
) -> list[int]:
    """The next turn of every live row; returns those that are live after it."""
    fitting = []
    for number in live:
        row = rows[number]
        longer = max(len(row.prompt), len(row.prior_prompt))
        if longer + len(row.tokens) + len(row.answer) > room:
            row.episode.cut("", "the model has no room left for another turn")
            row.stopped = False
            continue
        if row.answer:
            row.tokens += row.answer
            row.runs.append(len(row.answer))
            row.answer = ()
        fitting.append(number)
    if not fitting:
        return []
    contexts = [rows[number].prompt + rows[number].tokens for number in fitting]
    distinct = list(dict.fromkeys(contexts))
    places = {context: place for place, context in enumerate(distinct)}
    decoded = backend.decode(
        policy,
        distinct,
        torch.tensor([places[context] for context in contexts], device=policy.device),
        settings,
        generator,
        randomness.of_rows(torch.tensor(fitting)),
    )
    if decoded.weights_step is not None:
        for number, step in zip(fitting, decoded.weights_step.tolist(), strict=True):
            before = rows[number].weights_step
            rows[number].weights_step = step if before is None else min(before, step)
    lengths = decoded.program_mask.sum(1).tolist()
    columns = zip(
        fitting,
        decoded.program_ids.tolist(),
        lengths,
        decoded.stopped.tolist(),
        decoded.log_prob.tolist(),
        _drawn_with(decoded),
        strict=True,
    )
    return [
        number
        for number, ids, length, stopped, log_prob, proposal in columns
        if _goes_on(policy, rows[number], ids[:length], stopped, log_prob, proposal)
    ]


def _drawn_with(decoded: Decoded) -> list[float]:
    """Log-probability with which each row was drawn, in nats; +inf where that is not known."""
    proposal = decoded.proposal_log_prob
    return [math.inf] * len(decoded.stopped) if proposal is None else [float(value) for value in proposal]


def _goes_on(
    policy: Policy, row: _Row, ids: list[int], stopped: bool, log_prob: float, proposal: float
) -> bool:
    """Takes a turn into its row, has it answered, and says whether there is another."""
    turn = turn_text(policy, ids)
    kept = without_thought(policy.tokenizer, ids) if row.strips and stopped else tuple(ids)
    row.tokens += kept
    row.runs.append(len(kept))
    row.log_prob += log_prob
    row.proposal_log_prob += proposal
    if not stopped:
        row.stopped = False
        row.episode.cut(turn, f"a turn has no stop token within {len(ids)} tokens")
        return False
    answer = row.episode.answer(turn)
    if answer is None:
        return False
    row.answer = answer_tokens(policy.tokenizer, row.frame, answer)
    return True


def turn_text(policy: Policy, ids: Sequence[int]) -> str:
    """Text of a turn without its stop token; other special tokens stay visible.

    Args:
        policy: Whose tokenizer it is.
        ids: Token ids of one turn of the policy.
    """
    return plain_text(policy.tokenizer, policy.without_stop(ids))


def _collected(policy: Policy, rows: list[_Row]) -> SampledPrograms:
    ids, mask, own = _padded(rows, policy.pad_token_id, policy.device)
    log_prob = torch.tensor([row.log_prob for row in rows], dtype=torch.float32, device=policy.device)
    drawn = [row.proposal_log_prob for row in rows]
    proposal = torch.tensor(drawn, dtype=torch.float32, device=policy.device)
    strips = any(row.strips for row in rows)
    steps = [row.weights_step for row in rows if row.weights_step is not None]
    if strips:
        log_prob = _log_probs(policy, rows, ids, mask, own, reference=False)
    return SampledPrograms(
        prompt_index=torch.tensor([row.index for row in rows], dtype=torch.long, device=policy.device),
        program_ids=ids,
        program_mask=mask,
        log_prob=log_prob,
        reference_log_prob=_log_probs(policy, rows, ids, mask, own, reference=True),
        stopped=torch.tensor([row.stopped for row in rows], device=policy.device),
        sources=[row.episode.program for row in rows],
        own_mask=own,
        episodes=[row.episode for row in rows],
        # a thought that is left out was drawn, and is no token of the episode
        proposal_log_prob=None if strips else proposal,
        weights_step=torch.tensor(steps, device=policy.device) if steps else None,
    )


def _padded(
    rows: list[_Row], pad_id: int, device: torch.device
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """Token ids, True on tokens, and True on the policy's own."""
    lengths = torch.tensor([len(row.tokens) for row in rows])
    width = int(lengths.max())
    ids = torch.tensor([[*row.tokens, *[pad_id] * (width - len(row.tokens))] for row in rows])
    own = torch.zeros(len(rows), width, dtype=torch.bool)
    for number, row in enumerate(rows):
        place = 0
        for turn, tokens in enumerate(row.runs):
            own[number, place : place + tokens] = turn % 2 == 0
            place += tokens
    return ids.to(device), (torch.arange(width) < lengths[:, None]).to(device), own.to(device)


def _log_probs(
    policy: Policy,
    rows: list[_Row],
    ids: Int[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    own: Bool[Tensor, "batch time"],
    reference: bool,
) -> Float[Tensor, " batch"]:
    given = [list(row.prior_prompt if reference else row.prompt) for row in rows]
    prompt_ids, prompt_mask = pad_left(given, policy.pad_token_id, policy.device)
    size = max(1, policy.tokens_per_pass() // (prompt_ids.shape[1] + ids.shape[1]))
    pieces = []
    with policy.reference() if reference else nullcontext():
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            tensors = prompt_ids[part], ids[part], mask[part], prompt_mask[part]
            pieces.append(policy.program_log_probs(*tensors, own_mask=own[part]))
    return torch.cat(pieces)


def runs_of(own: Bool[Tensor, " time"]) -> tuple[int, ...]:
    """Lengths of what policy and environment wrote, by turns, the policy first: see `Trajectory`.

    Args:
        own: True on the policy's tokens of one episode, without padding.
    """
    runs: list[int] = []
    policy_next = True
    place, values = 0, own.tolist()
    while place < len(values):
        end = place
        while end < len(values) and values[end] == policy_next:
            end += 1
        runs.append(end - place)
        place, policy_next = end, not policy_next
    return tuple(runs)
