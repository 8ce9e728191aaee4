"""A digest as positions: what an id holds, and that passes of every kind agree on it."""

from __future__ import annotations

import math

import pytest
import torch

from synthstats_lightning.policy.pointers.slots import (
    FIRST_ID,
    FORMS,
    KINDS,
    LAYOUTS,
    digest_positions,
    position,
)
from synthstats_lightning.policy.pointers.vocabulary import SOURCES
from synthstats_lightning.tasks.digest import SECTIONS, task_digest
from synthstats_lightning.tasks.facts import Facts
from tests.policy.pointers.conftest import table_task


def digits(number):
    """Kind, pointer and levels of an id, by hand."""
    number -= FIRST_ID
    name = list(KINDS)[number % 8]
    number //= 8
    pointer, number = number % 64, number // 64
    levels = []
    for slot in KINDS[name]:
        levels.append(number % (slot.levels + 1))
        number //= slot.levels + 1
    assert number == 0
    return name, SOURCES[pointer - 1] if pointer else "", levels


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_holds_every_value_of_its_position(kind):
    slots = KINDS[kind]
    for value in (-math.inf, -1e9, 0.4, 1e9, None):
        number = position(kind, [value] * len(slots), "<g8>")
        assert FIRST_ID <= number < 2**63
        name, pointer, levels = digits(number)
        assert (name, pointer) == (kind, "<g8>")
        expected = {-1e9: 1, 1e9: None, None: 0, -math.inf: 0}.get(value, -1)
        for slot, level in zip(slots, levels, strict=True):
            if value == 0.4:
                near = slot.low + (level - 1) * (slot.high - slot.low) / (slot.levels - 1)
                step = (slot.high - slot.low) / (slot.levels - 1)
                assert abs(min(max(0.4, slot.low), slot.high) - near) <= step / 2 + 1e-9
            else:
                assert level == (slot.levels if expected is None else expected)


def test_a_digest_has_a_position_for_each_section_and_column():
    task = table_task(("up", "b", "c"))
    digest = task_digest(task)
    names = {"up": "<c7>", "b": "<c1>", "c": "<c2>", "y": "<y>"}
    told = [digits(number) for number in digest_positions(digest, task.columns["y"], names)]
    kinds = [name for name, _, _ in told]
    assert kinds == ["response", "recording", "residuals", "order", "column", "column", "column"]
    strongest = told[4]
    assert strongest[1] == "<c7>"
    scan = digest.scan[0]
    gain = KINDS["column"][0].level(math.asinh(scan.gain))
    assert strongest[2][0] == gain
    assert strongest[2][3 + FORMS.index(scan.best)] == 1  # the best form is behind by nothing
    assert strongest[2][3 + FORMS.index("log")] == 0  # not defined below zero
    nothing = digest.without(*SECTIONS)
    assert digest_positions(nothing, task.columns["y"], names) == []


def test_an_embedding_is_the_sum_over_slots_and_learns(writer):
    table = writer.backbone.embed_tokens
    ids = [5, position("column", [1.0, None, 0.2, *([0.3] * 12)], "<c3>"), position("counts", [0.0] * 5)]
    rows = []
    for number in ids[1:]:
        name, pointer, levels = digits(number)
        layout = LAYOUTS[name]
        total = table.levels[layout.first_row].clone()
        for (_, _, row), level in zip(layout.places, levels, strict=True):
            total = total + table.levels[row + level]
        if pointer:
            total = total + table.weight[writer.tokenizer.convert_tokens_to_ids(pointer)]
        inner = torch.nn.functional.gelu(table.inner @ (total / table.weight.std()))
        rows.append(total + table.outer @ inner)
    found = table(torch.tensor([ids]))[0]
    assert torch.allclose(found[1:], torch.stack(rows), atol=1e-6)
    assert torch.equal(found[0], table.weight[5])
    state = {name: parameter.requires_grad for name, parameter in table.named_parameters()}
    table.requires_grad_(True)
    (gradient,) = torch.autograd.grad(table(torch.tensor(ids)).square().sum(), table.levels)
    for name, parameter in table.named_parameters():
        parameter.requires_grad_(state[name])
    used = {row + level for number in ids[1:] for (name, _, levels) in [digits(number)]
            for (_, _, row), level in zip(LAYOUTS[name].places, levels, strict=True)}  # fmt: skip
    used |= {LAYOUTS["column"].first_row, LAYOUTS["counts"].first_row}
    assert set(gradient.abs().sum(1).nonzero()[:, 0].tolist()) == used


def test_looking_changes_what_is_written(writer):
    task = table_task(("up",))
    facts = Facts((task.columns["up"],), task.columns["y"], 40, digest=task_digest(task))
    ids = writer.encode_program("with pm.Model() as model:\n    pm.Normal('y', up, 1, observed=y)", facts)
    program = torch.tensor([ids])
    with torch.no_grad(), writer.evaluating():
        values = [
            float(writer.program_log_probs(torch.tensor([prompt]), program, program >= 0))
            for prompt in (
                writer.encode_prompt("", "", data="x", facts=facts),
                writer.encode_prompt("", "", facts=facts.prior),
            )
        ]
    assert abs(values[0] - values[1]) > 1e-3
