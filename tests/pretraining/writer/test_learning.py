"""That a writer can learn from a digest: programs that nothing else tells apart."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from synthstats_lightning.pretraining.writer.gain import measure_gain
from synthstats_lightning.pretraining.writer.pupil import Pupil, new_model, new_tokenizer, spelling_for
from synthstats_lightning.pretraining.writer.rows import pair_row, writer_batch
from synthstats_lightning.pretraining.writer.settings import Stage
from synthstats_lightning.pretraining.writer.sources import Pair, drawn_example
from synthstats_lightning.pretraining.writer.train import writer_optimizers
from synthstats_lightning.testing.writers import SHORT, SMALL


@pytest.mark.slow
@pytest.mark.parametrize("slot_width", [0, 16])
def test_of_programs_for_one_request_the_digest_says_which_and_the_request_does_not(slot_width):
    rng = Random(5)
    accepted = []
    while len({program.source for program in accepted}) < 8:
        example = drawn_example(rng, Stage(), 200, 8)
        accepted = [program for program in example.programs if program.digest is not None]
    pairs = [Pair(example, program) for program in accepted]
    size = replace(SMALL, hidden=64, head=16, feed_forward=128, slot_width=slot_width)
    tokenizer, classes = new_tokenizer(size, SHORT)
    spelling = spelling_for(tokenizer, size)
    pupil = Pupil(new_model(size, tokenizer, seed=4), classes)
    optimizers = writer_optimizers(pupil, replace(SHORT, weight_decay=0.0))
    batch = writer_batch([pair_row(spelling, *pair) for pair in pairs], spelling, classes)
    for step in range(160):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 6e-3 * min(1.0, (step + 1) / 10, (160 - step) / 60)
        log_probs, plan = pupil(batch, "fp32")
        pupil.zero_grad()
        (-log_probs.mean() + plan.total() / 20).backward()
        for optimizer in optimizers:
            optimizer.step()
    found = measure_gain(pupil, spelling, pairs, "fp32")
    # blind the best is an even chance of eight programs, informed it is certainty
    assert found.blind == pytest.approx(math.log(8), abs=0.25)
    assert found.gain == pytest.approx(math.log(8), abs=0.25)
