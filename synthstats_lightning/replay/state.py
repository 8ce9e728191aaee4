"""A buffer's content in tensors and primitive types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synthstats_lightning.replay.entries import Entries, key_of
from synthstats_lightning.replay.trajectory import Trajectory

FORMAT = 7
"""Of `ReplayBuffer.state_dict`; 1 had neither parts nor hashes, steps and pins, 2 no episodes of several
turns, 3 neither token log-probabilities of recent samples nor what is settled, 4 no prior's prompts,
5 no gains of turns, 6 no part of what looking at the data adds."""
READABLE = (2, 3, 4, 5, 6, FORMAT)
LOOKING = 4
"""Place of that part, which older formats lack."""


def check_format(state: dict[str, Any]) -> None:
    """Refuses a state that this version cannot read.

    Raises:
        ValueError: If it is of another format.
    """
    if state.get("format") not in READABLE:
        raise ValueError(
            f"replay buffer state of format {state.get('format')!r}; this version reads"
            f" {', '.join(map(str, READABLE))}:"
            " start a new run, or resume with the version that wrote it"
        )


def pack(entries: Entries, recent: Sequence[Trajectory]) -> dict[str, Any]:
    """Rows of a table and trajectories of a queue, one after the other, as columns."""
    keys = [*entries.keys, *(key_of(item) for item in recent)]
    width = entries.num_parts
    stored = np.concatenate([entries.log_reward[:, None], entries.log_probs], 1)
    numbers = [(item.log_reward, item.reference_log_prob, item.log_prob) for item in recent]
    parts = [item.parts for item in recent]
    runs = [*entries.runs, *(item.runs for item in recent)]
    gains = [*entries.gains, *(item.gains for item in recent)]
    return {
        "entries": len(entries),
        "lengths": _tensor(np.array([len(ids) // 4 for _, ids in keys], dtype=np.int32)),
        "tokens": _tensor(np.frombuffer(b"".join(ids for _, ids in keys), dtype=np.int32)),
        "task_index": _tensor(np.array([task for task, _ in keys], dtype=np.int32)),
        "numbers": _tensor(np.concatenate([stored, np.array(numbers).reshape(-1, 3)])),
        "parts": _tensor(np.concatenate([entries.parts, np.array(parts).reshape(len(recent), width)])),
        "step": _tensor(np.concatenate([entries.step, np.array([i.step for i in recent], dtype=np.int64)])),
        "turns": _tensor(np.array([len(row) for row in runs], dtype=np.int32)),
        "runs": _tensor(np.array([tokens for row in runs for tokens in row], dtype=np.int32)),
        "gain_lengths": _tensor(np.array([len(row) for row in gains], dtype=np.int32)),
        "gains": _tensor(np.array([gain for row in gains for gain in row], dtype=np.float64)),
        "behaviour": _tensor(
            np.array([value for item in recent for value in item.token_log_probs], dtype=np.float32)
        ),
        "behaviour_lengths": _tensor(np.array([len(i.token_log_probs) for i in recent], dtype=np.int32)),
        "settled": _tensor(
            np.concatenate([entries.settled, np.array([item.settled for item in recent], dtype=np.bool_)])
        ),
        "serial": _tensor(entries.serial),
        "pinned": _tensor(entries.pinned),
        "canonical": "\n".join([*entries.canonical, *(item.canonical for item in recent)]),
        "structure": "\n".join([*entries.structure, *(item.structure for item in recent)]),
    }


def unpack(state: dict[str, Any]) -> tuple[Entries, list[Trajectory]]:
    """The inverse of `pack`."""
    ends = np.cumsum(state["lengths"].numpy(), dtype=np.int64).tolist()
    tokens, size, total = state["tokens"].numpy().tobytes(), state["entries"], len(ends)
    spans = zip(state["task_index"].tolist(), [0, *ends[:-1]], ends, strict=True) if total else ()
    keys = [(task, tokens[4 * start : 4 * end]) for task, start, end in spans]
    forms, graphs = state["canonical"].split("\n")[:total], state["structure"].split("\n")[:total]
    numbers, parts, step = (state[name].numpy() for name in ("numbers", "parts", "step"))
    if state["format"] < 7 and parts.shape[1] >= LOOKING:
        parts = np.insert(parts, LOOKING, 0.0, axis=1)
    nothing: list[tuple[Any, ...]] = [()] * total
    runs = _spans(state, "turns", "runs", total) if state["format"] > 2 else nothing
    gains = _spans(state, "gain_lengths", "gains", total) if state["format"] > 5 else nothing
    settled = np.ones(total, dtype=np.bool_) if state["format"] < 4 else state["settled"].numpy()

    def table(rows: slice, serial: Any, pinned: Any) -> Entries:
        names = keys[rows], forms[rows], graphs[rows]
        return Entries.from_columns(
            *names,
            numbers[rows],
            parts[rows],
            step[rows],
            serial,
            pinned,
            runs[rows],
            settled[rows],
            gains[rows],
        )

    order = np.arange(total - size)
    queue = table(slice(size, total), order, np.zeros(len(order), dtype=np.bool_))
    entries = table(slice(size), state["serial"].numpy(), state["pinned"].numpy())
    recent = queue.get(order.tolist())
    if state["format"] < 4:
        return entries, recent
    ends = np.cumsum(state["behaviour_lengths"].numpy(), dtype=np.int64).tolist()
    values = state["behaviour"].tolist()
    behaviours = zip(recent, [0, *ends[:-1]], ends, strict=True) if recent else ()
    return entries, [
        item._replace(token_log_probs=tuple(values[start:end])) for item, start, end in behaviours
    ]


def _spans(state: dict[str, Any], lengths: str, values: str, total: int) -> list[tuple[Any, ...]]:
    """One tuple a row, of a column of values one after the other."""
    ends, flat = np.cumsum(state[lengths].numpy(), dtype=np.int64).tolist(), state[values].tolist()
    spans = zip([0, *ends[:-1]], ends, strict=True) if total else ()
    return [tuple(flat[start:end]) for start, end in spans]


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(array.copy())
