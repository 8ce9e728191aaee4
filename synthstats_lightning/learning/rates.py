"""Learning-rate schedules over parameter groups that have rates of their own."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

_WRITTEN = ("lr", "initial_lr", "max_lr", "min_lr")


def scheduled(optimizer: Optimizer, scheduler: LRScheduler | ReduceLROnPlateau) -> dict[str, Any]:
    """What Lightning's `configure_optimizers` returns of an optimizer and its schedule.

    Schedules step with the optimizer; a plateau is looked for in `train/loss`, or in what the schedule itself
    names as its `monitor`, at the end of each epoch where that is no metric of training steps.

    Args:
        optimizer: The optimizer, with named groups.
        scheduler: Made for it.
    """
    config: dict[str, Any] = {"scheduler": scheduler, "interval": "step"}
    if isinstance(scheduler, ReduceLROnPlateau):
        monitor = getattr(scheduler, "monitor", None) or "train/loss"
        config |= {"monitor": monitor, "interval": "step" if monitor.startswith("train/") else "epoch"}
    return {"optimizer": optimizer, "lr_scheduler": config}


def keep_own_rates(
    optimizer: Optimizer, scheduler: LRScheduler | ReduceLROnPlateau, own: list[float]
) -> None:
    """Where a cyclic schedule has given all groups one highest rate, scales it to each group's own.

    The first group, the adapter, keeps what the schedule says; the others reach the rates that they were made
    with where the schedule is at its highest.

    Args:
        optimizer: The optimizer of the schedule.
        scheduler: Made for it.
        own: Rates of the groups before it was.
    """
    groups = optimizer.param_groups
    if isinstance(scheduler, OneCycleLR):
        for group, rate in list(zip(groups, own, strict=True))[1:]:
            factor = rate / group["max_lr"]
            for name in _WRITTEN:
                group[name] *= factor
    elif isinstance(scheduler, CyclicLR):
        for number, rate in list(enumerate(own))[1:]:
            factor = rate / scheduler.max_lrs[number]
            scheduler.max_lrs[number] = rate
            scheduler.base_lrs[number] *= factor
            groups[number]["lr"] *= factor
            groups[number]["initial_lr"] *= factor
