"""An enumerable token language: every program, its exact probability, and a tabular policy over it."""

from __future__ import annotations

import itertools

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from synthstats_lightning.objectives.base import at_least_float32

TOKENS = 3
"""Tokens besides the stop token, which is number `TOKENS`."""


def all_programs(max_length: int) -> list[tuple[int, ...]]:
    """Every program of at most `max_length` tokens, the stop token not counted; the empty one included."""
    return [p for length in range(max_length + 1) for p in itertools.product(range(TOKENS), repeat=length)]


class TabularPolicy(nn.Module):
    """A free distribution over the next token for each prompt and prefix; at full length it must stop.

    Args:
        num_prompts: Prompts, each with a distribution of its own.
        max_length: Most tokens of a program, the stop token not counted.
    """

    blocked: Tensor
    steps: Tensor

    def __init__(self, num_prompts: int, max_length: int) -> None:
        super().__init__()
        self.programs = all_programs(max_length)
        self.rows = {program: row for row, program in enumerate(self.programs)}
        shape = (num_prompts, len(self.programs), TOKENS + 1)
        self.logits = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        full = torch.tensor([len(program) == max_length for program in self.programs])
        blocked = full[:, None] & (torch.arange(TOKENS + 1) < TOKENS)
        self.register_buffer("blocked", blocked)
        # indices of the (prefix, token) pairs that each program passes through, padded with -1
        steps = torch.full((len(self.programs), max_length + 1, 2), -1)
        for row, program in enumerate(self.programs):
            for t, token in enumerate((*program, TOKENS)):
                steps[row, t] = torch.tensor([self.rows[program[:t]], token])
        self.register_buffer("steps", steps)

    def token_logits(self) -> Float[Tensor, "prompts programs tokens"]:
        """Logits of the token behind each prefix, the stop token last."""
        return self.logits

    def log_probs(self) -> Float[Tensor, "prompts programs"]:
        """Log-probability of every program under every prompt, in nats."""
        table = at_least_float32(self.token_logits()).masked_fill(self.blocked, -torch.inf).log_softmax(-1)
        prefix, token = self.steps[..., 0], self.steps[..., 1]
        picked = table[:, prefix.clamp(min=0), token.clamp(min=0)]
        return picked.masked_fill(prefix < 0, 0.0).sum(-1)

    def token_log_probs(
        self, prompt: Int[Tensor, " batch"], row: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch time"], Float[Tensor, "batch time"]]:
        """Log-probability of each token, and of stopping in its place, for given programs, in nats."""
        table = at_least_float32(self.token_logits()).masked_fill(self.blocked, -torch.inf).log_softmax(-1)
        prefix, token = self.steps[row].clamp(min=0).unbind(-1)
        before = table[prompt[:, None], prefix]
        return before.gather(-1, token[..., None])[..., 0], before[..., TOKENS]

    def mask(self, row: Int[Tensor, " batch"]) -> Bool[Tensor, "batch time"]:
        """True on the tokens of given programs, the stop token included."""
        return self.steps[row][..., 0] >= 0

    def prefixes(self, row: Int[Tensor, " batch"]) -> Int[Tensor, "batch time"]:
        """Row of the prefix before each token of given programs, 0 beyond their end."""
        return self.steps[row][..., 0].clamp(min=0)

    @torch.no_grad()
    def set_optimum(self, log_reward: Float[Tensor, "prompts programs"]) -> Float[Tensor, "prompts programs"]:
        """Makes the policy proportional to a reward, by the flow through each prefix.

        Args:
            log_reward: Of every program under every prompt, in nats.

        Returns:
            Log flow through each prefix.
        """
        flow = torch.full((log_reward.shape[0], len(self.programs)), -torch.inf, dtype=torch.float64)
        for row in reversed(range(len(self.programs))):  # longer programs come later
            program = self.programs[row]
            terms = [log_reward[:, row]]
            children = [self.rows.get((*program, token)) for token in range(TOKENS)]
            terms += [flow[:, child] for child in children if child is not None]
            flow[:, row] = torch.stack(terms).logsumexp(0)
            self.logits[:, row, TOKENS] = log_reward[:, row]
            for token, child in enumerate(children):
                if child is not None:
                    self.logits[:, row, token] = flow[:, child]
        return flow


def multimodal_log_reward(
    programs: list[tuple[int, ...]], num_prompts: int
) -> Float[Tensor, "prompts programs"]:
    """Log rewards with a few far-apart modes, and another total for each prompt.

    Args:
        programs: All programs, from `all_programs`.
        num_prompts: How many prompts there are.
    """
    generator = torch.Generator().manual_seed(3)
    noise = 0.5 * torch.randn(num_prompts, len(programs), generator=generator, dtype=torch.float64)
    bonus = [
        [3.0 * (len(set(p)) == 1) + 2.0 * (p[-1:] == (x,)) for p in programs] for x in range(num_prompts)
    ]
    return noise + torch.tensor(bonus) + 3.0 * torch.arange(num_prompts)[:, None]


def random_policy(num_prompts: int, max_length: int, seed: int = 5) -> TabularPolicy:
    """A fixed policy of no particular shape, to be a reference.

    Args:
        num_prompts: How many prompts there are.
        max_length: Most tokens of a program, the stop token not counted.
        seed: Seeds its logits.
    """
    policy = TabularPolicy(num_prompts, max_length)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        policy.logits.copy_(torch.randn(policy.logits.shape, generator=generator, dtype=torch.float64))
    return policy.requires_grad_(False)


def objective_inputs(
    policy: TabularPolicy,
    reference: TabularPolicy,
    log_flow: Float[Tensor, "prompts programs"],
    log_reward: Float[Tensor, "prompts programs"],
    prompt: Int[Tensor, " batch"],
    row: Int[Tensor, " batch"],
) -> dict[str, Tensor]:
    """Everything an objective may ask for, of given programs; their log-probabilities as `log_prob`.

    Args:
        policy: The policy whose programs they are.
        reference: The reference policy.
        log_flow: Log flow of every prefix.
        log_reward: Log reward of every program.
        prompt: Prompt of each program.
        row: Which program, by its place in `TabularPolicy.programs`.
    """
    mask, prefixes = policy.mask(row), policy.prefixes(row)
    tokens, stop = policy.token_log_probs(prompt, row)
    reference_tokens, reference_stop = reference.token_log_probs(prompt, row)
    log_prob = tokens.masked_fill(~mask, 0.0).sum(1)
    index = torch.arange(mask.shape[1])
    written = reference_tokens.masked_fill(~mask, 0.0).sum(1)
    return {
        "log_prob": log_prob,
        "task_index": prompt,
        "reference_log_prob": written,
        "stored_reference_log_prob": written,
        "behaviour_log_prob": log_prob.detach(),
        "mask": mask,
        "token_log_probs": tokens,
        "stop_log_probs": stop,
        "forced_stop": torch.zeros(len(row), dtype=torch.bool),
        "reference_token_log_probs": reference_tokens,
        "reference_stop_log_probs": reference_stop,
        "behaviour_token_log_probs": tokens.detach(),
        "log_flow": log_flow[prompt[:, None], prefixes],
        # actions of two tokens
        "action_ends": mask & (index % 2 == 1),
        "prefix_log_reward": torch.nn.functional.pad(log_reward[prompt[:, None], prefixes], (0, 1)),
        "prefix_known": torch.nn.functional.pad(mask, (0, 1)),
    }


def every_program(policy: TabularPolicy) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """Prompt and row of every program under every prompt.

    Args:
        policy: The policy that lists them.
    """
    prompts, count = policy.logits.shape[0], len(policy.programs)
    return torch.arange(prompts).repeat_interleave(count), torch.arange(count).repeat(prompts)
