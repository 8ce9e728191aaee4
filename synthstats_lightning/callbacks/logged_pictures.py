"""The report's pictures in the run's loggers, beside its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger


def log_pictures(loggers: Iterable[Logger], pictures: Mapping[str, Path], step: int) -> None:
    """Hands pictures to TensorBoard and W&B, as `report/NAME`; other loggers take none.

    Args:
        loggers: All loggers of the run.
        pictures: PNG files by name.
        step: Training step that they are of.
    """
    from matplotlib.image import imread

    for logger in loggers:
        for name, path in pictures.items():
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image(f"report/{name}", imread(path)[..., :3], step, dataformats="HWC")
            elif isinstance(logger, WandbLogger):
                logger.log_image(f"report/{name}", [str(path)])
