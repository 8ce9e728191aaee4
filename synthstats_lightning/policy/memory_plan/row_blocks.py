"""Decoding in blocks of rows that fit into memory."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.policy.memory_plan.decoder import Decoder
from synthstats_lightning.policy.sampling import (
    Decoded,
    RowRandomness,
    SamplingSettings,
    decode_programs,
    draw_randomness,
)


def decode_rows(
    policy: Decoder,
    prompts: Sequence[Sequence[int]],
    row_prompt: Int[Tensor, " batch"],
    settings: SamplingSettings,
    generator: torch.Generator,
    randomness: RowRandomness | None = None,
) -> Decoded:
    """Draws one program a row, as many at once as the memory allows.

    Every row has its own random numbers: what it becomes does not depend on the blocks. Where memory runs out
    although it was planned, the block is halved once, with a warning, and so are those after it.

    Args:
        policy: The policy that writes, in eval mode.
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each row continues.
        settings: Temperature, exploration and length limits of sampling.
        generator: Source of all randomness, on CPU.
        randomness: Of the rows, where they have drawn it themselves; the generator is not used then.
    """
    num_rows = len(row_prompt)
    drawn = draw_randomness(settings, num_rows, generator) if randomness is None else randomness
    plan = policy.memory.make_plan(
        policy.backbone,
        policy.text_config,
        policy.head.module,
        num_rows,
        len(prompts),
        max(len(prompt) for prompt in prompts),
        settings.max_new_tokens,
        settings.top_p < 1,
    )
    waiting = list(torch.split(torch.arange(num_rows), plan.rows))
    done: list[Decoded] = []
    halved = False
    while waiting:
        decoded = _decoded_or_none(
            policy, prompts, row_prompt, waiting[0], settings, generator, drawn, halved
        )
        if decoded is not None:
            done.append(decoded)
            del waiting[0]
            continue
        halved = True
        rows = max(1, len(waiting[0]) // 2)
        policy.memory.halve()
        gc.collect()
        if policy.device.type == "cuda":
            torch.cuda.empty_cache()
        warnings.warn(
            f"out of memory while {len(waiting[0])} programs were decoded at once: going on with {rows}."
            " `model.init_args.model.memory_gib` sets how much decoding may take",
            stacklevel=2,
        )
        waiting = list(torch.split(torch.cat(waiting), rows))
    return _joined(done, policy.pad_token_id)


def _decoded_or_none(
    policy: Decoder,
    prompts: Sequence[Sequence[int]],
    row_prompt: Tensor,
    rows: Tensor,
    settings: SamplingSettings,
    generator: torch.Generator,
    drawn: RowRandomness,
    halved: bool,
) -> Decoded | None:
    """One block; `None` where there was not enough memory for the first time."""
    own = row_prompt[rows.to(row_prompt.device)]
    used, index = torch.unique(own, return_inverse=True)
    whole = len(rows) == len(row_prompt)
    given = [list(prompts[place]) for place in (range(len(prompts)) if whole else used.tolist())]
    try:
        return decode_programs(
            policy.backbone,
            policy.text_config,
            policy.head,
            given,
            own if whole else index,
            settings,
            policy.stop_token_ids,
            policy.pad_token_id,
            generator,
            drawn if whole else drawn.of_rows(rows),
            policy.stop_strings,
            policy.spelling.limits(pad_left(given, policy.pad_token_id, policy.device)[0]),
        )
    except (torch.cuda.OutOfMemoryError, RuntimeError) as error:
        if halved or len(rows) == 1 or not _is_out_of_memory(error):
            raise
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.cuda.OutOfMemoryError) or "can't allocate memory" in str(error)


def _joined(parts: list[Decoded], pad_id: int) -> Decoded:
    """Blocks as one, as wide as the widest."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.program_ids.shape[1] for part in parts)

    def wide(values: list[Tensor], fill: float | bool) -> Tensor:
        return torch.cat([functional.pad(value, (0, width - value.shape[1]), value=fill) for value in values])

    tokens = [part.token_log_probs for part in parts if part.token_log_probs is not None]
    proposals = [part.proposal_log_prob for part in parts if part.proposal_log_prob is not None]
    return Decoded(
        wide([part.program_ids for part in parts], pad_id),
        wide([part.program_mask for part in parts], False),
        torch.cat([part.log_prob for part in parts]),
        torch.cat([part.stopped for part in parts]),
        wide(tokens, 0.0) if tokens else None,
        torch.cat(proposals) if proposals else None,
    )
