"""From a translated job to the command line of its training and the folder of its run."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthstats_lightning.jobs.folders import METRICS
from synthstats_lightning.jobs.translation import KEYS, Translation
from synthstats_lightning.jobs.translation.configuration import get, put
from synthstats_lightning.jobs.translation.environment import is_data_file
from synthstats_lightning.runtime.shipped import own_or_shipped

LOGGER = "trainer.logger.init_args"


class Launch:
    """The training, or the search, of a job, ready to be started.

    Args:
        translation: The job, which must have no problems.
        output: Folder that gets the run's folder, `LABEL/version_N`.
        seed: Seeds everything random.
        resume: Folder of a run of this job that is to go on; `None` begins a new one.
        overlays: Paths of configurations that go over the job's.

    Attributes:
        configuration: What `fit` is given.
        folder: The run's folder, which need not be there yet.

    Raises:
        FileNotFoundError: If there is no run, or no checkpoint of one, that could go on.
    """

    def __init__(
        self,
        translation: Translation,
        output: Path,
        seed: int = 0,
        resume: str | None = None,
        overlays: Sequence[str] = (),
    ) -> None:
        self.configuration: dict[str, Any] = copy.deepcopy(translation.configuration)
        label = str(get(self.configuration, f"{LOGGER}.name"))
        self.resumes, self.overlays = resume is not None, tuple(overlays)
        self.searches = translation.kind == "graph"
        if resume is None:
            parent = output / label
            self.folder = parent / f"version_{next_version(parent)}"
        else:
            self.folder = Path(resume)
            if not self.folder.is_dir():
                raise FileNotFoundError(f"no folder of a run at {resume}")
            if not self.searches:  # a search goes on from its programs
                self._go_on(self.folder)
        self._tags: dict[str, Any] = translation.values.get("tags", {})
        self._place()
        put(self.configuration, "seed_everything", seed)

    def _go_on(self, folder: Path) -> None:
        from synthstats_lightning.runtime.checkpoints import newest_checkpoint

        checkpoint = newest_checkpoint([folder])
        if checkpoint is None:
            raise FileNotFoundError(f"no checkpoint in {folder} that the run could go on from")
        put(self.configuration, "ckpt_path", str(checkpoint))

    def _place(self) -> None:
        if self.searches:
            put(self.configuration, "search.folder", str(self.folder))
        put(self.configuration, f"{LOGGER}.save_dir", str(self.folder.parent.parent))
        put(self.configuration, f"{LOGGER}.name", self.folder.parent.name)
        put(self.configuration, f"{LOGGER}.version", self.folder.name)
        put(self.configuration, "trainer.default_root_dir", str(self.folder.parent))

    def begin(self) -> Path:
        """Makes the run's folder, so that no other run takes it.

        Returns:
            The folder.
        """
        while not self.resumes:
            try:
                self.folder.mkdir(parents=True)
                break
            except FileExistsError:  # somebody was faster
                self.folder = self.folder.parent / f"version_{next_version(self.folder.parent)}"
                self._place()
        metrics = self.folder / METRICS
        if self.resumes and metrics.is_file():  # the logger begins its file anew
            metrics.rename(metrics.with_name(f"metrics-{len(list(self.folder.glob('metrics*.csv')))}.csv"))
        return self.folder

    @property
    def told(self) -> dict[str, Any]:
        """What the first event of a search tells, and of a training that ends before it begins."""
        return {"label": self.folder.parent.name, "tags": dict(self._tags)}

    @property
    def arguments(self) -> list[str]:
        """What follows the interpreter on the command line of the training."""
        return ["-m", "synthstats_lightning", self.command, *self.configs]

    @property
    def command(self) -> str:
        """The subcommand that the job is run by."""
        return "search" if self.searches else "fit"

    @property
    def configs(self) -> list[str]:
        """The options of `fit`, `check` or `search` that say what to do."""
        given = (json.dumps(self.configuration), *self.overlays)
        return [word for each in given for word in ("--config", each)]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the training has beside this process's own."""
        # what is there is kept, whatever the logger says
        return {"PYTHONWARNINGS": "ignore:Experiment logs directory"} if self.resumes or self.searches else {}


def next_version(folder: Path) -> int:
    """The number of the next run in a folder of runs.

    Args:
        folder: The folder, which may not be there.
    """
    numbers = [path.name.removeprefix("version_") for path in folder.glob("version_*")]
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)


def missing_files(translation: Translation) -> list[str]:
    """What a job names and is not there, a line each.

    Args:
        translation: The translated job.
    """
    found = []
    for key in KEYS[translation.kind]:
        path = translation.values.get(key.name)
        named = key.is_file or (key.name == "rollout.env_name" and is_data_file(str(path)))
        if named and path is not None and not own_or_shipped(path).exists():
            found.append(f"{key.name} must name what is there, got {path!r}")
    return found
