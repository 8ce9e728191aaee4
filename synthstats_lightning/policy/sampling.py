"""Sampling programs: settings, the behaviour distribution, and the batched decoding loop."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from synthstats_lightning.policy.hidden import pad_left, run_backbone
from synthstats_lightning.policy.log_probs import OutputHead
from synthstats_lightning.policy.text.stops import StopStrings
from synthstats_lightning.policy.text.token_limits import TokenLimits

COMPACT_BELOW = 0.75
"""Share of unfinished rows below which finished ones are dropped from the batch."""


@dataclass(frozen=True)
class SamplingSettings:
    """How programs are drawn. None of this touches the log-probabilities that the loss uses.

    Attributes:
        max_new_tokens: Token limit, stop token included, at least 1. A program that reaches it is cut: that
            stop was forced, is no token of the program and no factor of its probability, and `stopped` is
            False.
        temperature: Divides the logits, positive.
        temperature_high: If given, at least `temperature`: every program has a temperature of its own,
            uniform between the two.
        epsilon: Probability, at each token, of drawing uniformly over the vocabulary, in `[0, 1]`.
        top_p: Keep the fewest tokens whose tempered probabilities reach this sum, in `(0, 1]`; 1 keeps all.
        min_new_tokens: Tokens before which a program does not stop, the stop token not counted, less than
            `max_new_tokens`. It belongs to the policy and not to the behaviour alone: log-probabilities are
            those of the policy given that it writes on so far.

    Raises:
        ValueError: If a value is out of its range.
    """

    max_new_tokens: int = 256
    temperature: float = 1.0
    epsilon: float = 0.0
    top_p: float = 1.0
    min_new_tokens: int = 0
    temperature_high: float | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if not 0 <= self.min_new_tokens < self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens must be at least 0 and less than max_new_tokens={self.max_new_tokens},"
                f" got {self.min_new_tokens}"
            )
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")
        high = self.temperature_high
        if high is not None and not self.temperature <= high < float("inf"):
            raise ValueError(
                f"temperature_high must be finite and at least temperature={self.temperature}, got {high}"
            )
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], got {self.epsilon}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")


def on_policy(settings: SamplingSettings) -> SamplingSettings:
    """The same limits without exploration: what is drawn has the policy's own probabilities."""
    return replace(settings, temperature=1.0, temperature_high=None, epsilon=0.0, top_p=1.0)


def is_on_policy(settings: SamplingSettings) -> bool:
    """Whether what is drawn has the policy's own probabilities."""
    return settings == on_policy(settings)


def annealed(settings: SamplingSettings, temperature: float, progress: float) -> SamplingSettings:
    """The same settings with exploration moved linearly towards none.

    The temperature, both ends of its range if it has one, goes to the given one, `epsilon` to 0 and `top_p`
    to 1.

    Args:
        settings: Where the schedule starts.
        temperature: Where it ends.
        progress: Share of the way, clipped to `[0, 1]`.
    """
    progress = min(max(progress, 0.0), 1.0)

    def towards(start: float, end: float) -> float:
        return (1 - progress) * start + progress * end

    high = settings.temperature_high
    return replace(
        settings,
        temperature=towards(settings.temperature, temperature),
        temperature_high=None if high is None else towards(high, temperature),
        epsilon=towards(settings.epsilon, 0.0),
        top_p=towards(settings.top_p, 1.0),
    )


class SampledPrograms(NamedTuple):
    """A batch of sampled programs, grouped by prompt.

    Attributes:
        prompt_index: Which of the given prompts each row answers, `[batch]`.
        program_ids: Sampled token ids, right-padded, `[batch, time]`.
        program_mask: True on sampled tokens, the stop token included, `[batch, time]`.
        log_prob: Log-probability of the sampled tokens, stop token included, under the current policy at
            temperature 1, in nats, float32 `[batch]`. Accumulated while decoding.
        reference_log_prob: The same under the policy with its adapter off, given the prior's prompt, by one
            teacher-forced pass.
        stopped: Whether the program ended with a stop token, or a stop string, rather than at the limit,
            `[batch]`.
        sources: Program source of each row; of an episode what it submitted, empty if nothing.
        own_mask: Of episodes: True on the sampled tokens among `program_ids`, where an environment wrote the
            others; `program_mask` is True on both.
        episodes: Of episodes: each row's own, as its environment keeps it.
        token_log_probs: What `log_prob` sums, 0 behind a program, `[batch, time]`; `None` where it was not
            kept, of episodes and of programs whose beginning was given.
        proposal_log_prob: Log-probability with which it was drawn, tempered and explored as the settings say,
            in nats, float32 `[batch]`: what importance weights divide by. `None` where it is not known, of
            programs whose beginning was given and of answers whose thoughts are left out.
        spans: The first token that each source was taken from, and that behind the last; not of episodes.
        weights_step: Training step of the weights that each was drawn from, of episodes the oldest; `None`
            where it is the present.
        first_log_prob: As `reference_log_prob`, given the prompt that the program was written from: of what
            an untrained policy writes. `None` where nothing asked for it, or the prompts are one.
    """

    prompt_index: Int[Tensor, " batch"]
    program_ids: Int[Tensor, "batch time"]
    program_mask: Bool[Tensor, "batch time"]
    log_prob: Float[Tensor, " batch"]
    reference_log_prob: Float[Tensor, " batch"]
    stopped: Bool[Tensor, " batch"]
    sources: list[str]
    own_mask: Bool[Tensor, "batch time"] | None = None
    episodes: Sequence[Any] = ()
    token_log_probs: Float[Tensor, "batch time"] | None = None
    proposal_log_prob: Float[Tensor, " batch"] | None = None
    spans: Sequence[tuple[int, int]] = ()
    weights_step: Int[Tensor, " batch"] | None = None
    first_log_prob: Float[Tensor, " batch"] | None = None


class Decoded(NamedTuple):
    """What the decoding loop yields: see the fields of the same name of `SampledPrograms`."""

    program_ids: Int[Tensor, "batch time"]
    program_mask: Bool[Tensor, "batch time"]
    log_prob: Float[Tensor, " batch"]
    stopped: Bool[Tensor, " batch"]
    token_log_probs: Float[Tensor, "batch time"] | None = None
    proposal_log_prob: Float[Tensor, " batch"] | None = None
    weights_step: Int[Tensor, " batch"] | None = None


def stream_seed(seed: int, rank: int, step: int) -> int:
    """Seed of a private random stream, the same on every machine and version: 63 bits of a SHA-256."""
    digest = hashlib.sha256(f"{seed}:{rank}:{step}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def behaviour_probabilities(
    logits: Float[Tensor, "batch vocabulary"],
    settings: SamplingSettings,
    temperature: Float[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch vocabulary"]:
    """What the next token is drawn from: (1 − ε) · top-p(softmax(logits / temperature)) + ε · uniform.

    Tokens with a logit of −inf are never drawn.

    Args:
        logits: Logits of each program's next token under the policy.
        settings: Temperature and exploration that change the policy's probabilities.
        temperature: Each program's own; that of the settings by default.
    """
    scale = settings.temperature if temperature is None else temperature[:, None]
    probabilities = torch.softmax(logits / scale, -1)
    if settings.top_p < 1:
        ordered, order = probabilities.sort(-1, descending=True)
        # a token stays if those before it do not yet reach top_p, so the likeliest always does
        kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= settings.top_p, 0.0)
        probabilities = torch.zeros_like(probabilities).scatter(-1, order, kept / kept.sum(-1, keepdim=True))
    if settings.epsilon > 0:
        allowed = (logits > -torch.inf).to(probabilities.dtype)
        uniform = allowed / allowed.sum(-1, keepdim=True)
        probabilities = torch.lerp(probabilities, uniform, settings.epsilon)
    return probabilities


def row_temperatures(
    settings: SamplingSettings, num_rows: int, generator: torch.Generator
) -> Float[Tensor, " batch"] | None:
    """Each program's own temperature on CPU, or `None` (and no random number used) if all have the same."""
    if settings.temperature_high is None:
        return None
    share = torch.rand(num_rows, generator=generator, dtype=torch.float32)
    return torch.lerp(
        torch.full_like(share, settings.temperature),
        torch.full_like(share, settings.temperature_high),
        share,
    )


LARGE_VOCABULARY = 1 << 13
"""Tokens above which one is drawn in two steps: a block of them, then one of the block."""
BLOCK = 512
"""Tokens of a block."""


class RowRandomness(NamedTuple):
    """All that rows of a batch need of a random stream.

    Attributes:
        uniforms: From `[0, 1)`, for each token of each row, float64.
        temperatures: Each row's own, or `None` if all have that of the settings.
    """

    uniforms: Float[Tensor, "time batch"]
    temperatures: Float[Tensor, " batch"] | None

    def of_rows(self, rows: Int[Tensor, " rows"]) -> RowRandomness:
        """That of some of the rows."""
        temperatures = None if self.temperatures is None else self.temperatures[rows]
        return RowRandomness(self.uniforms[:, rows], temperatures)


def draw_randomness(settings: SamplingSettings, num_rows: int, generator: torch.Generator) -> RowRandomness:
    """Random numbers of rows of at most `settings.max_new_tokens` tokens, on CPU."""
    uniforms = torch.rand(settings.max_new_tokens, num_rows, generator=generator, dtype=torch.float64)
    return RowRandomness(uniforms, row_temperatures(settings, num_rows, generator))


def draw_tokens(
    probabilities: Float[Tensor, "batch vocabulary"], uniforms: Float[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """One token per row by inverting the cumulative distribution, in float64, at numbers from `[0, 1)`."""
    if probabilities.shape[-1] > LARGE_VOCABULARY:
        return _draw_by_blocks(probabilities, uniforms)
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    targets = uniforms[:, None].double() * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, targets, right=True)[:, 0]
    return tokens.clamp(max=probabilities.shape[-1] - 1)


def _draw_by_blocks(
    probabilities: Float[Tensor, "batch vocabulary"], uniforms: Float[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """First the block of `BLOCK` tokens in which a number falls, then the token: a third of the time."""
    vocabulary = probabilities.shape[-1]
    whole = vocabulary // BLOCK * BLOCK
    blocks = probabilities[:, :whole].reshape(len(probabilities), -1, BLOCK).sum(-1, dtype=torch.float64)
    rest = probabilities[:, whole:].sum(-1, keepdim=True, dtype=torch.float64)
    ends = torch.cat([blocks, rest], 1).cumsum(1)
    targets = uniforms[:, None].double() * ends[:, -1:]
    block = torch.searchsorted(ends, targets, right=True).clamp(max=ends.shape[1] - 1)
    start = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    members = block * BLOCK + torch.arange(BLOCK, device=block.device)
    own = probabilities.gather(1, members.clamp(max=vocabulary - 1)).double()
    inside = torch.where(members < vocabulary, own, 0.0).cumsum(1)
    # below the block's last probability also where its sum was rounded otherwise
    largest = torch.nextafter(inside[:, -1:], torch.zeros_like(targets))
    token = block * BLOCK + torch.searchsorted(inside, torch.minimum(targets - start, largest), right=True)
    return token[:, 0].clamp(max=vocabulary - 1)


@torch.no_grad()
def decode_programs(
    backbone: nn.Module,
    config: Any,
    head: OutputHead,
    prompts: list[list[int]],
    row_prompt: Int[Tensor, " batch"],
    settings: SamplingSettings,
    stop_ids: tuple[int, ...],
    pad_id: int,
    generator: torch.Generator,
    randomness: RowRandomness | None = None,
    stop_strings: StopStrings | None = None,
    limits: TokenLimits | None = None,
) -> Decoded:
    """Draw one program per row. Each prompt is run once; its rows share what the cache holds of it.

    Every row's random numbers are drawn beforehand, so what a row becomes does not depend on when other rows
    finish and leave the batch.

    Args:
        backbone: Language model without its head, in eval mode.
        config: Configuration of the language model, which its cache is made from.
        head: Output layer of the language model, from hidden states to logits.
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each row continues.
        settings: Temperature, exploration and length limits of sampling.
        stop_ids: Tokens that end a program.
        pad_id: What fills the prompts' front and the programs' end.
        generator: Source of all randomness, on CPU.
        randomness: Of the rows, where they have drawn it themselves; the generator is not used then.
        stop_strings: Strings that end a program besides the stop tokens.
        limits: Which tokens may follow each prompt; all where it is not given.

    Returns:
        Programs on the device of `row_prompt`, cut at the longest.
    """
    from synthstats_lightning.policy.cache import sampling_cache

    device, num_rows, limit = row_prompt.device, row_prompt.shape[0], settings.max_new_tokens
    drawn = draw_randomness(settings, num_rows, generator) if randomness is None else randomness
    uniforms = drawn.uniforms.to(device)
    temperatures = None if drawn.temperatures is None else drawn.temperatures.to(device)
    stops = torch.tensor(stop_ids, device=device)
    prompt_ids, prompt_mask = pad_left(prompts, pad_id, device)
    mask = None if bool(prompt_mask.all()) else prompt_mask
    cache = sampling_cache(config)
    hidden = run_backbone(backbone, prompt_ids, mask, cache)[:, -1]
    past = prompt_ids.shape[1]

    cache.reorder_cache(row_prompt)
    hidden = hidden[row_prompt]
    mask = None if mask is None else mask[row_prompt]
    rows = torch.arange(num_rows, device=device)  # the batch row of each row still decoded
    program_ids = torch.full((num_rows, limit), pad_id, dtype=torch.long, device=device)
    lengths = torch.zeros(num_rows, dtype=torch.long, device=device)
    log_prob = torch.zeros(num_rows, dtype=torch.float32, device=device)
    log_probs = torch.zeros(num_rows, limit, dtype=torch.float32, device=device)
    own_policy = is_on_policy(settings)
    proposal = log_prob if own_policy else torch.zeros_like(log_prob)
    stopped = torch.zeros(num_rows, dtype=torch.bool, device=device)
    before = None
    if limits is not None:
        before = limits.before(prompt_ids, prompt_ids[:, :1]).of((row_prompt, torch.zeros_like(row_prompt)))
    for step in range(limit):
        logits = head.logits(hidden)
        if limits is not None and before is not None:
            logits = limits.masked(logits, row_prompt[rows], before)
        if step < settings.min_new_tokens:
            logits = logits.index_fill(-1, stops, -torch.inf)
        own = None if temperatures is None else temperatures[rows]
        probabilities = behaviour_probabilities(logits, settings, own)
        tokens = draw_tokens(probabilities, uniforms[step, rows])
        live = ~stopped[rows]
        gained = logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
        log_prob[rows] += gained * live
        if not own_policy:
            proposal[rows] += probabilities.gather(-1, tokens[:, None])[:, 0].log() * live
        log_probs[rows, step] = gained * live
        program_ids[rows, step] = torch.where(live, tokens, pad_id)
        lengths[rows] += live
        stopped[rows] |= torch.isin(tokens, stops)
        if stop_strings:
            stopped[rows] |= stop_strings.ended(program_ids[rows, : step + 1])
        if limits is not None and before is not None:
            before = limits.after(before, tokens)
        live = ~stopped[rows]
        num_live = int(live.sum())
        if num_live == 0 or step + 1 == limit:
            break
        if num_live < COMPACT_BELOW * len(rows):
            keep = live.nonzero()[:, 0]
            rows, tokens = rows[keep], tokens[keep]
            before = None if before is None else before.of(keep)
            cache.reorder_cache(keep)
            mask = None if mask is None else mask[keep]
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
        hidden = run_backbone(backbone, tokens[:, None], mask, cache, past=past + step)[:, -1]
    width = int(lengths.max())
    program_ids, log_probs = program_ids[:, :width], log_probs[:, :width]
    program_mask = torch.arange(program_ids.shape[1], device=device) < lengths[:, None]
    return Decoded(program_ids, program_mask, log_prob, stopped, log_probs, proposal)
