"""The quickstart as it is shipped, with the writer and its digest: some steps, and from its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from synthstats_lightning.cli.main import main
from tests.support.shared_scoring import sharing_scoring

STEPS = 3
SHORT = {
    "trainer.max_steps": STEPS,
    "trainer.enable_progress_bar": "false",
    "trainer.enable_model_summary": "false",
    "data.init_args.batch_size": 6,
    "data.init_args.eval_programs": 6,
    "data.init_args.eval_batch_size": 6,
    "scoring.synchronous": "true",
    "scoring.programs_per_step": 6,
    "scoring.warmup_programs": 10,
    "scoring.num_workers": 1,
    "report.num_programs": 12,
    "report.plotted": 1,
}


@pytest.mark.filterwarnings("ignore:dugongs")  # of runs that are this short
def test_it_fits_and_is_tested(tmp_path: Path) -> None:
    short = [f"--{name}={value}" for name, value in SHORT.items()]
    common = ["--config=quickstart", *short, f"--trainer.logger.init_args.save_dir={tmp_path}"]
    with sharing_scoring():
        cli = main(["fit", *common])
    assert cli.trainer.global_step == STEPS
    run = tmp_path / "quickstart" / "version_0"
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert settings["model"]["init_args"]["policy"] == "writer"
    assert cli.datamodule.tasks[0].proposal == "digest"
    records = [json.loads(line) for line in (run / "programs.jsonl").read_text().splitlines()]
    scored = [record for record in records if record["evidence"] is not None]
    assert len(scored) > 0.7 * len(records)
    # adapter or not, the digest makes what fits likelier than the request alone does
    better = [record["log_prob"] > record["reference_log_prob"] for record in scored]
    assert sum(better) > len(better) / 2
    with sharing_scoring():
        tested = main(["test", *common, "--ckpt_path", str(run / "checkpoints" / "last.ckpt")])
    assert tested.trainer.callback_metrics["test/valid_rate"] > 0.5
