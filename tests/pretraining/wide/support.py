"""Programs of the wide grammar for tests, one of each class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from synthstats_lightning.pretraining.wide import (
    WEIGHTS,
    Program,
    Request,
    Simulated,
    draw_program,
    draw_request,
    simulate,
)
from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.pretraining.wide.locations import FORMS
from synthstats_lightning.pretraining.wide.program import form_weights
from synthstats_lightning.pretraining.wide.responses import FAMILIES, family_weights


def of_form(rng: Random, name: str, tries: int = 3000) -> Iterator[tuple[Request, Program]]:
    """Programs of a form, each of a request of its own."""
    weights = replace(WEIGHTS, simple=0.0, forms={name: 1.0, "constant": 1e-9})
    for _ in range(tries):
        request = draw_request(rng)
        for family in family_weights(request, WEIGHTS):
            own = FAMILIES[family]
            draft = Draft(rng, request, WEIGHTS, own.target(request), own.link, own.intercept)
            if name in form_weights(draft, False) or name in form_weights(draft, True):
                program = draw_program(rng, request, weights)
                if program.form == name:
                    yield request, program
                break


def accepted_of_form(rng: Random, name: str, family: str = "", rows: int = 300) -> tuple[Program, Simulated]:
    """The first program of a form, and family, whose one try makes data that go with its request."""
    for request, program in of_form(rng, name):
        if (family and program.family != family) or request.num_rows > rows:
            continue
        made = simulate(rng, request, program)
        if made is not None:
            return program, made
    raise AssertionError(f"no data of {name}")


__all__ = ["FAMILIES", "FORMS", "accepted_of_form", "of_form"]
