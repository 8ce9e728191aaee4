"""What `predict` writes, and what it says of it."""

import json
from types import SimpleNamespace

import numpy as np
from lightning.pytorch import LightningModule, Trainer

from synthstats_lightning import PredictionWriter


def test_it_says_what_it_wrote(tmp_path, capsys):
    writer = PredictionWriter(str(tmp_path / "out"))
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    module = LightningModule()
    module.tasks = ["plants"]
    batch = SimpleNamespace(
        sources=["a", "b"],
        prompt_index=np.zeros(2),
        log_prob=np.array([-1.0, -2.0]),
        reference_log_prob=np.array([-1.5, -2.5]),
        stopped=np.array([True, False]),
        spans=[(0, 3), (1, 2)],
    )
    writer.on_predict_start(trainer, module)
    writer.on_predict_batch_end(trainer, module, batch)
    writer.on_predict_batch_end(trainer, module, batch)
    writer.on_predict_end(trainer, module)
    path = tmp_path / "out/predictions-0.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["source"] for line in lines] == ["a", "b", "a", "b"]
    assert set(lines[0]) == {"task", "source", "log_prob", "reference_log_prob", "stopped", "span"}
    said = capsys.readouterr().out
    assert f"4 fresh programs of the policy, not scored, in {path}" in said
    assert "`forecast`" in said
