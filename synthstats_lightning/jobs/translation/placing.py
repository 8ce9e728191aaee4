"""Where a job's run leaves its files, and what tells of it."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.draft import Draft

EVENTS_CALLBACK = "synthstats_lightning.jobs.RunEvents"
"""The callback that writes events and result."""

LONGEST_NAME = 255
"""Bytes that Linux allows a folder's name."""


def place_run(draft: Draft, label: str, folder: str = "runs") -> None:
    """Puts where a run's files go.

    Args:
        draft: The configuration in the making.
        label: What the run is called.
        folder: Folder of the run's folder.
    """
    if label in (".", "..") or set(label) & {"/", "\0"} or len(label.encode()) > LONGEST_NAME:
        name = next(key for key in ("policy.label", "job.label", "graph.label") if key in draft.values)
        draft.refuse(name, f"a name of a folder, of at most {LONGEST_NAME} bytes and without '/'")
    draft.put("trainer.logger.init_args.save_dir", folder)
    draft.put("trainer.logger.init_args.name", label)
    draft.put("trainer.default_root_dir", f"{folder}/{label}")
