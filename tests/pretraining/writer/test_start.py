"""A training that begins with another's weights, and one whose programs raise something unexpected."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from synthstats_lightning.pretraining.writer import sources
from synthstats_lightning.pretraining.writer.pupil import spelling_for, started
from synthstats_lightning.pretraining.writer.sources import MOST_FAILURES, drawn_example, pool_rows
from synthstats_lightning.pretraining.writer.train import train_writer
from synthstats_lightning.testing.writers import SHORT, SMALL, save_random_writer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_random_writer(tmp_path_factory.mktemp("other"))


def test_a_training_begins_with_anothers_weights_and_tokens(folder, tmp_path):
    training = replace(SHORT, start=str(folder), steps=1, learning_rate=0.0, evaluate_every=5)
    pupil, _ = started(str(folder), SMALL, training)
    assert train_writer(tmp_path, training, SMALL, 0, lambda line: None) is not None
    saved = torch.load(tmp_path / "state.pt", weights_only=True)["pupil"]
    for name, value in pupil.model.state_dict().items():
        torch.testing.assert_close(saved[f"model.{name}"], value, msg=name)
    assert (tmp_path / "tokenizer.json").read_text() == (folder / "tokenizer.json").read_text()


def test_what_cannot_be_begun_with_is_said(folder):
    sizes = r"size \(\{'hidden_size': 64\}\), got .* with \{'hidden_size': 32\}"
    with pytest.raises(ValueError, match=sizes):
        started(str(folder), replace(SMALL, hidden=64), SHORT)
    with pytest.raises(ValueError, match="start must be a writer, got 'tiny', whose architecture is 'qwen3'"):
        started("tiny", SMALL, SHORT)
    with pytest.raises(FileNotFoundError, match=r"no model '\./nowhere'"):
        started("./nowhere", SMALL, SHORT)


def test_the_bundled_writer_has_the_size_that_its_configuration_says():
    from synthstats_lightning.pretraining.writer.settings import WriterSize

    pupil, _ = started("writer", WriterSize(), replace(SHORT, tokenizer_examples=5))
    assert sum(each.numel() for each in pupil.model.parameters()) == 2_947_776


def test_a_request_whose_program_raises_is_left_out_and_said(folder, monkeypatch, caplog):
    _, tokenizer = started(str(folder), SMALL, SHORT)
    spelling = spelling_for(tokenizer, SMALL)
    calls = []

    def sometimes(*given):
        calls.append(given)
        if len(calls) % 2:
            raise TypeError("of this kind")
        return drawn_example(*given)

    monkeypatch.setattr(sources, "drawn_example", sometimes)
    batches = pool_rows(SHORT, spelling, 512, 0, 0)
    assert sum(map(len, batches)) == SHORT.pool * SHORT.rows
    assert "requests left out, TypeError: of this kind" in caplog.text

    def always(*given):
        calls.append(given)
        raise TypeError("every time")

    calls.clear()
    monkeypatch.setattr(sources, "drawn_example", always)
    with pytest.raises(TypeError, match="every time"):
        pool_rows(SHORT, spelling, 512, 0, 0)
    assert len(calls) == MOST_FAILURES + 1
