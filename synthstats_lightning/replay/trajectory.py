"""Trajectories, one at a time and as a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.runtime.single_precision import is_finite


class Trajectory(NamedTuple):
    """A sampled program with its reward.

    Attributes:
        task_index: Position of its task among the run's tasks.
        program_ids: Sampled token ids, ending in the stop token unless the policy ran into its limit.
        log_reward: What the objective sees, in nats.
        reference_log_prob: Log-probability under the policy with its adapter off, given the prior's prompt,
            in nats.
        log_prob: Log-probability under the policy that sampled it, at temperature 1, in nats; +inf if
            unknown.
        parts: Untempered parts that the log reward is blended from, in nats, -inf for a score that there is
            not; the same number of parts in every trajectory of a buffer. Empty if the log reward is final.
        canonical: Hash of the canonical form of its model; empty if it has none.
        structure: Hash of its structure; empty if it has none.
        step: Training step at which it was sampled.
        token_log_probs: Log-probability of each token under the policy that sampled it, at temperature 1, in
            nats; empty where it was not kept, as of stored programs that are no recent samples.
        settled: Whether the score is that of the text; False where the machine of the moment has decided it,
            as when a worker was killed.
        runs: Lengths in tokens of the parts that the policy and its environment wrote, by turns, the policy
            first; empty if the policy wrote all. They sum to the number of tokens.
        gains: What each turn of the policy was expected to tell of the environment, in nats; empty where
            nothing asked for it.
    """

    task_index: int
    program_ids: tuple[int, ...]
    log_reward: float
    reference_log_prob: float
    log_prob: float = math.inf
    parts: tuple[float, ...] = ()
    canonical: str = ""
    structure: str = ""
    step: int = 0
    runs: tuple[int, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    settled: bool = True
    gains: tuple[float, ...] = ()


def check_trajectory(item: Trajectory, prompts: Iterable[int], num_parts: int | None) -> None:
    """Refuses a trajectory that a buffer cannot hold.

    Args:
        item: The trajectory that is checked.
        prompts: Tasks that have a prompt.
        num_parts: Parts of the log rewards of a buffer's other trajectories; `None` if there are none.

    Raises:
        ValueError: If its task has no prompt, it has no token, a number is not finite as float32, its runs
            do not add up to its tokens, it has more gains than turns, or its parts are of another number.
    """
    if item.task_index not in (known := sorted(prompts)):
        raise ValueError(f"task_index {item.task_index} has no prompt; known: {known}")
    if not item.program_ids:
        raise ValueError("program_ids must hold at least one token")
    if not is_finite([item.log_reward, item.reference_log_prob]).all():
        raise ValueError(
            f"log_reward and reference_log_prob must be finite as float32, got {item.log_reward}"
            f" and {item.reference_log_prob}"
        )
    if not all(part == -math.inf or is_finite(part) for part in item.parts):
        raise ValueError(f"parts must be finite as float32, or -inf for no score, got {item.parts}")
    if item.runs and sum(item.runs) != len(item.program_ids):
        raise ValueError(
            f"runs must sum to the {len(item.program_ids)} tokens of the trajectory, got {item.runs}"
        )
    if len(item.gains) > max(1, (len(item.runs) + 1) // 2) or not is_finite(list(item.gains)).all():
        raise ValueError(f"gains must be finite as float32, one a turn of the policy, got {item.gains}")
    if "\n" in item.canonical + item.structure:
        raise ValueError("canonical and structure must be hashes on one line")
    if num_parts is not None and len(item.parts) != num_parts:
        raise ValueError(
            f"parts must be {num_parts} numbers as in the buffer's other trajectories, got {item.parts}"
        )


def same_score(one: Trajectory, other: Trajectory) -> bool:
    """Whether two trajectories of a text have the same score, whatever the reward is tempered to."""
    if one.parts or other.parts:
        return (one.parts, one.canonical, one.structure) == (other.parts, other.canonical, other.structure)
    return (one.log_reward, one.canonical, one.structure) == (
        other.log_reward,
        other.canonical,
        other.structure,
    )


def with_score(item: Trajectory, scored: Trajectory) -> Trajectory:
    """A trajectory with the score of another one of the same text.

    Args:
        item: The trajectory, which keeps what belongs to the sample.
        scored: The trajectory whose score is taken over.
    """
    return item._replace(
        log_reward=scored.log_reward,
        parts=scored.parts,
        canonical=scored.canonical,
        structure=scored.structure,
        settled=scored.settled,
    )


class TrajectoryBatch:
    """What a training step sees.

    A plain class, because Lightning's precision plugins convert the numbers of dataclasses and named tuples:
    rewards would be rounded to half precision.

    Attributes:
        prompt_ids: Token ids, left-padded.
        prompt_mask: True where `prompt_ids` holds a prompt token.
        program_ids: Token ids, right-padded, each ending in the stop token.
        program_mask: True where `program_ids` holds a program token.
        log_reward: What the objective sees, in nats.
        reference_log_prob: In nats, stored when the program was sampled: the reference never changes.
        task_index: Position of the task among the run's tasks.
        log_prob: In nats, under the policy that sampled the program; +inf if unknown.
        step: Training step at which the program was sampled.
        own_mask: True on the program tokens that the policy wrote, and that have a log-probability; the
            others are an environment's answers. `None` for programs of one turn, where all are the policy's.
        token_log_probs: In nats, of each token under the policy that sampled the program; +inf if unknown.
            `None` if it is unknown of all.
        prior_prompt_ids: Token ids of the prompts that the reference policy is given, left-padded; `None`
            where they are those that the policy is given.
        prior_prompt_mask: True where `prior_prompt_ids` holds a prompt token.
        information: What the turns that ended before each token were expected to tell of the environment,
            summed, in nats; `None` where no trajectory has gains.
    """

    def __init__(
        self,
        prompt_ids: Int[Tensor, "batch prompt"],
        prompt_mask: Bool[Tensor, "batch prompt"],
        program_ids: Int[Tensor, "batch time"],
        program_mask: Bool[Tensor, "batch time"],
        log_reward: Float[Tensor, " batch"],
        reference_log_prob: Float[Tensor, " batch"],
        task_index: Int[Tensor, " batch"],
        log_prob: Float[Tensor, " batch"],
        step: Int[Tensor, " batch"],
        own_mask: Bool[Tensor, "batch time"] | None = None,
        token_log_probs: Float[Tensor, "batch time"] | None = None,
        prior_prompt_ids: Int[Tensor, "batch prior"] | None = None,
        prior_prompt_mask: Bool[Tensor, "batch prior"] | None = None,
        information: Float[Tensor, "batch time"] | None = None,
    ) -> None:
        self.prompt_ids = prompt_ids
        self.prompt_mask = prompt_mask
        self.program_ids = program_ids
        self.program_mask = program_mask
        self.log_reward = log_reward
        self.reference_log_prob = reference_log_prob
        self.task_index = task_index
        self.log_prob = log_prob
        self.step = step
        self.own_mask = own_mask
        self.token_log_probs = token_log_probs
        self.prior_prompt_ids = prior_prompt_ids
        self.prior_prompt_mask = prior_prompt_mask
        self.information = information

    def __len__(self) -> int:
        return int(self.task_index.shape[0])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> TrajectoryBatch:
        """The same batch on another device."""
        moved: dict[str, Any] = {
            name: None if tensor is None else tensor.to(device, non_blocking=non_blocking)
            for name, tensor in vars(self).items()
        }
        return TrajectoryBatch(**moved)

    @property
    def written(self) -> Bool[Tensor, "batch time"]:
        """True on the tokens that the policy wrote."""
        return self.program_mask if self.own_mask is None else self.own_mask

    @property
    def prior_prompts(self) -> tuple[Int[Tensor, "batch prior"], Bool[Tensor, "batch prior"]]:
        """Token ids and mask of the prompts that the reference policy is given."""
        if self.prior_prompt_ids is None or self.prior_prompt_mask is None:
            return self.prompt_ids, self.prompt_mask
        return self.prior_prompt_ids, self.prior_prompt_mask


def collate(
    trajectories: list[Trajectory],
    prompts: Mapping[int, tuple[int, ...]],
    pad_id: int = 0,
    prior_prompts: Mapping[int, tuple[int, ...]] | None = None,
) -> TrajectoryBatch:
    """Pads trajectories into one batch: prompts on the left, programs on the right.

    Args:
        trajectories: At least one.
        prompts: Task index to prompt token ids.
        pad_id: Token id that fills the padding; masks tell it from content.
        prior_prompts: Task index to the token ids that the reference policy is given in place of the prompt,
            of the tasks where they differ.
    """
    tasks = [item.task_index for item in trajectories]
    prompt_ids, prompt_mask = _pad([prompts[task] for task in tasks], pad_id, left=True)
    prior_ids, prior_mask = None, None
    if prior_prompts and not prior_prompts.keys().isdisjoint(tasks):
        priors = [prior_prompts.get(task, prompts[task]) for task in tasks]
        prior_ids, prior_mask = _pad(priors, pad_id, left=True)
    program_ids, program_mask = _pad([item.program_ids for item in trajectories], pad_id, left=False)
    return TrajectoryBatch(
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        program_ids=program_ids,
        program_mask=program_mask,
        log_reward=torch.tensor([item.log_reward for item in trajectories], dtype=torch.float32),
        reference_log_prob=torch.tensor(
            [item.reference_log_prob for item in trajectories], dtype=torch.float32
        ),
        task_index=torch.tensor([item.task_index for item in trajectories], dtype=torch.int64),
        log_prob=torch.tensor([item.log_prob for item in trajectories], dtype=torch.float32),
        step=torch.tensor([item.step for item in trajectories], dtype=torch.int64),
        own_mask=_own(trajectories, program_mask) if any(item.runs for item in trajectories) else None,
        token_log_probs=_behaviour(trajectories, program_mask),
        prior_prompt_ids=prior_ids,
        prior_prompt_mask=prior_mask,
        information=_information(trajectories, program_mask),
    )


def own_tokens(runs: tuple[int, ...], length: int) -> list[bool]:
    """Which tokens of a trajectory the policy wrote.

    Args:
        runs: Lengths of the parts by turns; see `Trajectory`.
        length: Tokens of the trajectory.

    Raises:
        ValueError: If the runs do not add up to the length.
    """
    if not runs:
        return [True] * length
    if sum(runs) != length or min(runs) < 0:
        raise ValueError(f"runs must be lengths that sum to the {length} tokens of a trajectory, got {runs}")
    return [turn % 2 == 0 for turn, tokens in enumerate(runs) for _ in range(tokens)]


def _own(trajectories: list[Trajectory], mask: Bool[Tensor, "batch time"]) -> Bool[Tensor, "batch time"]:
    own = torch.zeros_like(mask)
    for row, item in enumerate(trajectories):
        length = len(item.program_ids)
        own[row, :length] = torch.tensor(own_tokens(item.runs, length))
    return own


def _behaviour(
    trajectories: list[Trajectory], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch time"] | None:
    if not any(item.token_log_probs for item in trajectories):
        return None
    values = torch.full(mask.shape, math.inf, dtype=torch.float32)
    for row, item in enumerate(trajectories):
        values[row, : len(item.token_log_probs)] = torch.tensor(item.token_log_probs, dtype=torch.float32)
    return values


def _information(
    trajectories: list[Trajectory], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch time"] | None:
    if not any(item.gains for item in trajectories):
        return None
    values = torch.zeros(mask.shape, dtype=torch.float32)
    for row, item in enumerate(trajectories):
        turns = zip(item.runs[::2] or (len(item.program_ids),), (*item.runs[1::2], 0), strict=False)
        end = 0
        for (tokens, answer), gain in zip(turns, item.gains, strict=False):
            end += tokens
            values[row, end:] += gain
            end += answer
    return values


def empty_batch() -> TrajectoryBatch:
    """A batch without trajectories."""
    ids, mask = torch.zeros(0, 0, dtype=torch.int64), torch.zeros(0, 0, dtype=torch.bool)
    numbers, indices = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    return TrajectoryBatch(ids, mask, ids, mask, numbers, numbers, indices, numbers, indices)


def _pad(
    rows: list[tuple[int, ...]], pad_id: int, left: bool
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.int64)
    mask = torch.zeros((len(rows), width), dtype=torch.bool)
    for i, row in enumerate(rows):
        span = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, span] = torch.tensor(row, dtype=torch.int64)
        mask[i, span] = True
    return ids, mask
