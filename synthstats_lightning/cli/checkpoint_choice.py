"""Which checkpoint `--ckpt_path` means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from synthstats_lightning.runtime.checkpoints import newest_checkpoint, usable_checkpoint


def choose_checkpoint(config: Namespace) -> str | None:
    """The checkpoint that a run starts from.

    `last` is the newest whole one among those that runs of this configuration have written, in whatever
    version of the run's folder; where there is none yet, Lightning says so and starts afresh, so that a
    scheduler may give `--ckpt_path last` from the first time on. A folder is its newest whole one. Torn ones
    are passed over, with a warning that names them; one that is asked for by its own name is an error, unless
    that is `last.ckpt`.

    Args:
        config: The parsed configuration of a subcommand.

    Returns:
        A path, or what Lightning understands: `None`, `last`, `best`, `hpc`, `registry…`, or an address.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        TornCheckpointError: If it is torn, or all that `last` or a folder could mean are.
    """
    given = config.get("ckpt_path")
    if given is None or given in ("best", "hpc") or given.startswith("registry") or "://" in given:
        return None if given is None else str(given)
    if given == "last":
        newest = newest_checkpoint(checkpoint_folders(config))
        return given if newest is None else str(newest)
    return str(usable_checkpoint(Path(given)))


def checkpoint_folders(config: Namespace) -> list[Path]:
    """Where runs of a configuration write checkpoints; some of the folders may not exist.

    Args:
        config: The parsed configuration of a subcommand.
    """
    trainer = config.trainer
    callbacks, loggers = (_listed(trainer.get(name)) for name in ("callbacks", "logger"))
    own = config.get("checkpoint.dirpath")
    folders = [Path(own)] if own else []
    folders += [Path(options["dirpath"]) for options in _options(callbacks) if options.get("dirpath")]
    of_loggers = [
        Path(options["save_dir"]) / (options.get("name") or "")
        for options in _options(loggers)
        if options.get("save_dir")
    ]
    if not of_loggers:
        root = Path(trainer.get("default_root_dir") or ".")
        of_loggers = [root / "lightning_logs", root / "checkpoints"]
    return [*folders, *of_loggers]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _options(parts: list[Any]) -> Iterator[dict[str, Any]]:
    """Arguments of classes that a configuration names."""
    for part in parts:
        found = part.get("init_args") if isinstance(part, Namespace | dict) else None
        if found is not None:
            yield found if isinstance(found, dict) else found.as_dict()
