"""A report asks a run's policy with the prompts that it was trained on."""

from __future__ import annotations

import yaml

from synthstats_lightning.reports.run_settings import CONFIGURATION, RunSettings
from synthstats_lightning.tasks import task_prompt


def test_tasks_of_a_run_look_as_they_did_in_it(tmp_path):
    for proposal in ("digest", None):
        data = {"tasks": ["dugongs"], **({} if proposal is None else {"proposal": proposal})}
        written = yaml.safe_dump({"data": {"class_path": "ReplayDataModule", "init_args": data}})
        (tmp_path / CONFIGURATION).write_text(written)
        (task,) = RunSettings(tmp_path).tasks
        assert task.proposal == (proposal or "nothing")
        assert bool(task_prompt(task).data) == (proposal is not None)
