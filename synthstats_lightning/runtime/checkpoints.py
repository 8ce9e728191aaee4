"""Checkpoints on disk: written whole or not at all, and only trusted if they are whole."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from synthstats_lightning.runtime.durable_files import is_temporary, out_of_space, replacing
from synthstats_lightning.runtime.former_names import HYPER_PARAMETERS, with_present_names

SUFFIX = ".ckpt"
_LAST = re.compile(r"last(-v\d+)?\.ckpt")


class TornCheckpointError(ValueError):
    """A checkpoint that is not whole: its writer, the machine or the disk failed."""


class DiskFullError(OSError):
    """There is no room for a checkpoint; the ones before it are as they were."""


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints durably and refuses torn ones; a plugin of the trainer.

    Lightning's own writes to the folder of temporary files and moves the file from there, which across disks
    is a copy that a crash leaves half done, and never waits for the disk. Here the file is written beside its
    final place, is on the disk before it takes the name, and replaces an older one in one step. The command
    line uses it by default; elsewhere: `Trainer(plugins=[DurableCheckpointIO()])`. Paths with a protocol
    (`s3://…`) are left to Lightning.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Writes a checkpoint.

        Args:
            checkpoint: Content of the checkpoint.
            path: The file of the checkpoint.
            storage_options: Must be left out.

        Raises:
            DiskFullError: If the disk has no room for it. What was there stays.
            TypeError: If `storage_options` are given.
        """
        if _is_remote(path) or storage_options is not None:
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        content = io.BytesIO()
        torch.save(checkpoint, content)
        try:
            with replacing(path) as temporary, temporary.open("wb") as file:
                file.write(content.getbuffer())
        except OSError as error:
            if not out_of_space(error):
                raise
            raise DiskFullError(error.errno, self._no_room(Path(path), content.tell())) from error

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Any = lambda storage, _: storage,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Reads a checkpoint; instead of a torn `last.ckpt` the newest whole one of its folder.

        Hyper-parameters name classes as they are called today; see `runtime.former_names`.

        Args:
            path: The file of the checkpoint.
            map_location: Where tensors go, see `torch.load`.
            weights_only: Whether only tensors and plain data are read.

        Raises:
            TornCheckpointError: If it is torn.
        """
        chosen = path if _is_remote(path) else usable_checkpoint(Path(path))
        checkpoint: dict[str, Any] = super().load_checkpoint(chosen, map_location, weights_only)
        if HYPER_PARAMETERS in checkpoint:
            checkpoint[HYPER_PARAMETERS] = with_present_names(checkpoint[HYPER_PARAMETERS])
        return checkpoint

    @staticmethod
    def _no_room(path: Path, size: int) -> str:
        kept = newest_checkpoint([path.parent])
        advice = f"resume from {kept}" if kept is not None else "there is no earlier one in its folder"
        return f"no room for the checkpoint {path} ({size / 1e6:.1f} MB): {advice} once there is"


def damage(path: Path) -> str | None:
    """Why a checkpoint cannot be trusted, `None` if it is whole.

    Every byte is read and compared with the checksums of PyTorch's archives; their table of contents is
    written last.

    Args:
        path: The file of the checkpoint.
    """
    if not path.stat().st_size:
        return "it is empty"
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, EOFError) as error:
        return str(error)
    return None if broken is None else f"the checksum of {broken} is wrong"


def newest_checkpoint(folders: Iterable[Path]) -> Path | None:
    """The newest whole checkpoint in folders and the folders below them; warns of newer ones that are torn.

    Args:
        folders: Where to look.

    Returns:
        Its path, `None` if there is no checkpoint.

    Raises:
        TornCheckpointError: If there are checkpoints, but none is whole.
    """
    paths = {path.resolve() for folder in folders if folder.is_dir() for path in folder.rglob(f"*{SUFFIX}")}
    files = [path for path in paths if path.is_file() and not is_temporary(path)]
    torn: list[str] = []
    for path in sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True):
        reason = damage(path)
        if reason is None:
            if torn:
                warnings.warn(f"torn checkpoint: {'; '.join(torn)}. {path} is used instead", stacklevel=2)
            return path
        torn.append(f"{path} ({reason})")
    if torn:
        raise TornCheckpointError(f"no whole checkpoint: {'; '.join(torn)}")
    return None


def usable_checkpoint(path: Path) -> Path:
    """A checkpoint that was asked for, if it is whole; instead of a torn `last.ckpt` the newest whole one.

    Args:
        path: The file, or a folder whose newest whole checkpoint is meant.

    Raises:
        FileNotFoundError: If there is none.
        TornCheckpointError: If it is torn.
    """
    if path.is_dir():
        newest = newest_checkpoint([path])
        if newest is None:
            raise FileNotFoundError(f"there is no checkpoint in {path}")
        return newest
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    reason = damage(path)
    if reason is None:
        return path
    if _LAST.fullmatch(path.name):
        newest = newest_checkpoint([path.parent])
        if newest is not None:
            return newest
    raise TornCheckpointError(f"torn checkpoint: {path} ({reason})")


def _is_remote(path: str | Path) -> bool:
    return "://" in str(path)
