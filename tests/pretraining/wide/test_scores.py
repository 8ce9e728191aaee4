"""Programs of every class build and score on data that they make."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.pretraining.wide import draw_program, draw_request, simulate
from synthstats_lightning.pretraining.wide.locations import FORMS
from tests.pretraining.wide.support import accepted_of_form


@pytest.fixture(scope="module")
def scorer():
    with ProgramScorer(1) as pool:
        yield pool


@pytest.mark.slow
def test_a_few_classes_score(scorer):
    rng = Random(21)
    for name, family in (("pooled", "Normal"), ("categories", "Poisson")):
        program, made = accepted_of_form(rng, name, family, 60)
        score = scorer.score(program.source, made.task())
        assert score.failure is None, (score.message, program.source)


@pytest.mark.slow
def test_programs_of_every_form_score(scorer):
    rng, failures = Random(22), Counter()
    asked = [(name, *accepted_of_form(rng, name)) for name in FORMS for _ in range(10)]
    futures = [(name, scorer.submit(program.source, made.task())) for name, program, made in asked]
    for name, future in futures:
        failures[name] += future.result().failure is not None
    assert failures.total() <= 0.03 * len(asked), failures
    assert max(failures.values()) <= 1, failures


@pytest.mark.slow
def test_programs_of_the_mixture_score(scorer):
    rng, asked = Random(23), []
    while len(asked) < 300:
        request = draw_request(rng)
        program = draw_program(rng, request)
        made = simulate(rng, request, program)
        if made is not None:
            asked.append(scorer.submit(program.source, made.task()))
    failed = [future.result().message for future in asked if future.result().failure is not None]
    assert len(failed) <= 0.03 * len(asked), failed
