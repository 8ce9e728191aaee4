"""Modes that lie along one coordinate: what no prior draw comes near, a look along the line shows.

The likelihood of a wave's frequency has a peak for each whole number of periods in the data, as narrow as one
over their length, and that of a change's place one for each gap; of a few dozen starts none may lie in the
highest. With all else integrated out, or at its optimum, such peaks are those of a line through the best
mode, and a batch of points costs little more than one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.target import Target, evaluate_totals
from synthstats_lightning.scoring.estimators.optimise import Optimum, maximise
from synthstats_lightning.scoring.estimators.pilot import Pilot
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

MOST_SCANNED = 12
"""Dimensions up to which every coordinate is scanned."""
REACH = 12.0
"""How far either way, in interquartile half-ranges of the prior: a normal one's eight standard deviations."""
COARSE = 64
"""Points of a first look, which shows whether there is more than one peak."""
FINE = 1024
"""Points where there is."""
FEWER = (32, 512)
"""Both, where each density is a search or a sum over nodes."""
MOST_PEAKS = 8
"""Peaks of a coordinate that searches start from, the highest ones."""
BELOW = 25.0
"""Peaks so many nats below the best mode are left alone."""
VALLEY = 1.0
"""What is not at least so many nats above the lowest point between it and the best mode, or any higher peak,
is no other peak."""
ROUNDS = 3
"""How often a scan follows one that has found a better mode."""


def with_scanned(
    target: Target,
    optimum: Optimum,
    pilot: Pilot,
    settings: EngineSettings,
    deadline: Deadline,
    counts: tuple[int, int] = (COARSE, FINE),
) -> Optimum:
    """A search for modes with those that lines through its best one lead to.

    Args:
        target: The model with its data.
        optimum: Where each start ended.
        pilot: Prior draws, whose spread is the lines' unit.
        settings: Iterations and tolerance of the searches.
        deadline: Checked between batches.
        counts: Points of a first look at a line, and where it shows more than one peak.

    Returns:
        The same, and the ends of the searches from other peaks; the same alone where there are none.
    """
    if optimum.theta.shape[1] > MOST_SCANNED:
        return optimum

    def log_density(theta: Tensor, group: Tensor) -> Tensor:
        return evaluate_totals(target, theta.flatten(0, 1)).log_joint.reshape(theta.shape[:2])

    for _ in range(ROUNDS):
        value = torch.where(optimum.converged, optimum.value, -torch.inf)
        best = int(value.argmax())
        if not bool(value[best].isfinite()):
            break
        peaks = _peaks(target, optimum, best, pilot, deadline, counts)
        if not peaks:
            break
        found = maximise(log_density, torch.stack(peaks), settings, deadline)
        joined = torch.where(found.joined >= 0, found.joined + len(optimum.theta), found.joined)
        optimum = Optimum(
            *(torch.cat(parts) for parts in zip(optimum, found._replace(joined=joined), strict=True))
        )
        if not bool((found.converged & (found.value > value[best])).any()):
            break
    return optimum


def _peaks(
    target: Target,
    optimum: Optimum,
    best: int,
    pilot: Pilot,
    deadline: Deadline,
    counts: tuple[int, int],
) -> list[Float[Tensor, " dim"]]:
    """Local maxima along each coordinate through the best mode, without that mode itself."""
    mode, floor = optimum.theta[best], float(optimum.value[best]) - BELOW
    # all lines at once: a call costs more than its points
    along, found = torch.eye(len(mode), dtype=mode.dtype) * pilot.spread, []
    for count in counts:
        deadline.check("mode search")
        offset = torch.linspace(-REACH, REACH, count, dtype=mode.dtype)
        points = mode + offset[:, None] * along[:, None]
        with torch.no_grad():
            value = evaluate_totals(target, points.flatten(0, 1)).log_joint.nan_to_num(nan=-torch.inf)
        lines = value.reshape(len(along), count)
        found = [_separate(line) for line in lines]
        several = torch.tensor([len(peaks) > 0 for peaks in found])
        if not bool(several.any()):
            return []
        along = along[several]
    best_peaks = []
    for line, peaks, on_line in zip(lines, found, points, strict=True):
        high = peaks[line[peaks] > floor]
        high = high[line[high].argsort(descending=True, stable=True)[:MOST_PEAKS]]
        best_peaks += list(on_line[high])
    return best_peaks


def _separate(value: Float[Tensor, " points"]) -> Int[Tensor, " peaks"]:
    """Indices of maxima with a valley between them and the middle, and between any two; the highest ones.

    The ripple of a rule that no longer resolves what it integrates is many maxima, and one peak.
    """
    peaks = _maxima(value)
    peaks = peaks[value[peaks] > _lowest_on_the_way(value)[peaks] + VALLEY]
    kept: list[int] = []
    for peak in peaks[value[peaks].argsort(descending=True, stable=True)].tolist():
        between = [value[min(peak, other) : max(peak, other)].min() for other in kept]
        if all(bool(value[peak] > lowest + VALLEY) for lowest in between):
            kept.append(peak)
        if len(kept) == MOST_PEAKS:
            break
    return peaks.new_tensor(kept)


def _maxima(value: Float[Tensor, " points"]) -> Int[Tensor, " peaks"]:
    """Indices of points that are above one neighbour and not below the other."""
    inner = value[1:-1]
    return torch.nonzero((inner > value[:-2]) & (inner >= value[2:]) & inner.isfinite())[:, 0] + 1


def _lowest_on_the_way(value: Float[Tensor, " points"]) -> Float[Tensor, " points"]:
    """The lowest value between each point and the middle of the line, where the mode is."""
    middle = len(value) // 2
    left = value[:middle].flip(0).cummin(0).values.flip(0)
    return torch.cat([left, value[middle:].cummin(0).values])
