"""The square SubTB(λ) loss and its slopes on a CPU, one pass up and one down each trajectory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=1)
def compiled_kernel() -> Callable[..., float]:
    """`loss_and_slopes` as machine code; the first call takes a second or two."""
    # on first use: only runs that train with this objective wait for the import
    import numba

    # jaxtyping's import hook wraps functions in what numba cannot compile
    plain = inspect.unwrap(loss_and_slopes)
    kernel: Callable[..., float] = numba.njit(nogil=True, fastmath={"contract"})(plain)
    return kernel


def loss_and_slopes(
    token_log_probs: NDArray[Any],
    mask: NDArray[Any],
    log_flow: NDArray[Any],
    log_reward: NDArray[Any],
    log_z: NDArray[Any],
    decay: float,
    within: bool,
    residual: NDArray[Any],
    token_slope: NDArray[Any],
    flow_slope: NDArray[Any],
    reward_slope: NDArray[Any],
    z_slope: NDArray[Any],
) -> float:
    """Loss in nats²; see `square_sub_trajectory_balance` for what it is.

    Sums are float64, whatever the arrays are. The sums of weighted neighbours below and above a state are
    two recursions, s ← λ (s + a), one for each pass.

    Args:
        token_log_probs: log π of each token, in nats, `[batch, time]`.
        mask: True on program tokens, which are at the front, `[batch, time]`.
        log_flow: Log flow of the prefix before each token, in nats, `[batch, time]`; the first is not read.
        log_reward: In nats, `[batch]`.
        log_z: In nats, `[batch]`.
        decay: λ.
        within: Whether each trajectory's weights sum to 1 / batch, and not those of the batch to 1.
        residual: Is filled with each trajectory's residual in nats, `[batch]`.
        token_slope: Is filled with the loss's slope in `token_log_probs`, `[batch, time]`.
        flow_slope: In `log_flow`, `[batch, time]`.
        reward_slope: In `log_reward`, `[batch]`.
        z_slope: In `log_z`, `[batch]`.
    """
    batch, time = mask.shape
    weight_sum = np.zeros(time + 1)  # Σ_{1 ≤ j ≤ k} λ^j
    mass = np.zeros(time + 1)  # of all windows of a trajectory of k tokens
    power = 1.0
    for k in range(1, time + 1):
        power *= decay
        weight_sum[k] = weight_sum[k - 1] + power
        mass[k] = mass[k - 1] + weight_sum[k]
    length = np.zeros(batch, np.int64)
    total_mass = 0.0
    for b in range(batch):
        for t in range(time):
            length[b] += mask[b, t]
        total_mass += mass[length[b]]
    potential, below = np.zeros(time + 1), np.zeros(time + 1)
    loss = 0.0
    for b in range(batch):
        n = length[b]
        # log Z is taken off all potentials: only differences matter, and small numbers lose less
        z, reached, here, neighbours = np.float64(log_z[b]), 0.0, 0.0, 0.0
        for i in range(1, n + 1):
            neighbours = decay * (neighbours + here)
            below[i] = neighbours
            reached += token_log_probs[b, i - 1]
            here = (log_flow[b, i] if i < n else log_reward[b]) - reached - z
            potential[i] = here
        residual[b] = z + reached - log_reward[b]
        token_slope[b, n:] = 0.0
        flow_slope[b, n:] = 0.0
        flow_slope[b, :1] = 0.0
        normaliser = mass[n] * batch if within else total_mass
        scale = 1.0 / normaliser if n > 0 else 0.0
        here, neighbours, after, row = 0.0, 0.0, 0.0, 0.0
        for i in range(n, 0, -1):
            neighbours = decay * (neighbours + here)
            here = potential[i]
            pull = scale * ((weight_sum[i] + weight_sum[n - i]) * here - below[i] - neighbours)
            row += pull * here
            after += 2.0 * pull
            token_slope[b, i - 1] = -after
            if i < n:
                flow_slope[b, i] = 2.0 * pull
            else:
                reward_slope[b] = 2.0 * pull
        if n == 0:
            reward_slope[b] = 0.0
        # the slopes of a trajectory's potentials sum to zero
        z_slope[b] = -after
        loss += row
    return loss
