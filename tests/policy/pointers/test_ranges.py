"""What leaves a program without a score is hardly ever written, and what the grammar writes is untouched."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pandas as pd
import pytest
import torch

from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.policy.pointers.order import HEADER
from synthstats_lightning.policy.pointers.ranges import STEPS_OF_TWO, ranges
from synthstats_lightning.policy.text.token_limits import (
    Before,
    SizeRule,
    TokenLimits,
    TokenRule,
    preceding_two,
)
from synthstats_lightning.policy.text.unlikely import UNLIKELY
from synthstats_lightning.pretraining.wide.locations.mechanisms import MOST_TIMES
from synthstats_lightning.pretraining.writer.wide import wide_example
from synthstats_lightning.tasks import CSVTask, Task, task_prompt
from synthstats_lightning.tasks.proposal import looking


@pytest.fixture(scope="module")
def writer():
    return load_policy("writer")


def counts_task(rows=30):
    """Counts with three columns that begin at zero, and one that does not."""
    rng = np.random.default_rng(3)
    data = {
        "dose": rng.integers(0, 9, rows),
        "zeros": rng.poisson(2.0, rows),
        "share": np.append(0.0, rng.uniform(0, 1, rows - 1)).round(3),
        "size": rng.uniform(5, 60, rows).round(1),
    }
    data["zeros"][0] = 0
    data["y"] = rng.poisson(data["size"])
    return Task("counts", "Counts.", data, "y")


FIRST = torch.tensor(0)


def test_preceding_tokens_are_those_before_each():
    rng = np.random.default_rng(0)
    prompts, programs = torch.tensor(rng.integers(0, 50, (4, 3))), torch.tensor(rng.integers(0, 50, (4, 6)))
    found = preceding_two(prompts, programs)
    for row, whole in enumerate(torch.cat([prompts, programs], 1).tolist()):
        assert found[row].tolist() == [whole[place + 1 : place + 3] for place in range(6)]
    assert preceding_two(prompts[:, :1], programs)[:, 0].tolist() == [[-1, int(p)] for p in prompts[:, 0]]


def test_rules_subtract_where_both_tokens_agree():
    rng = np.random.default_rng(1)
    tables = [torch.tensor(rng.random((2, 12)) < 0.4) for _ in range(6)]
    allowed = torch.tensor(rng.random((2, 12)) < 0.8)
    limits = TokenLimits(allowed, (TokenRule(*tables[:3]), TokenRule(*tables[3:])))
    logits, row = torch.randn(40, 12), torch.tensor(rng.integers(0, 2, 40))
    last_two = torch.tensor(rng.integers(-1, 14, (40, 2)))
    last_two[0, 0] = 1 << 62  # a position of a digest
    nothing = torch.zeros(40, 0)
    found = limits.masked(logits, row, Before(last_two, nothing.bool(), nothing, row))
    for place in range(40):
        first, second = last_two[place].tolist()
        for token in range(12):
            expected = float(logits[place, token])
            for before, last, unlikely in limits.rules:
                if 0 <= second < 12:
                    padded = first if 0 <= first < 12 else 0
                    applies = before[row[place], padded] and last[row[place], second]
                    expected -= UNLIKELY * bool(applies and unlikely[row[place], token])
            expected = expected if allowed[row[place], token] else -float("inf")
            assert float(found[place, token]) == pytest.approx(expected)


def test_sizes_want_what_they_are_of():
    """Against a loop over what was written; a prompt may hold the beginning of a program."""
    rng = np.random.default_rng(2)
    uses = torch.tensor(rng.random((12, 4)) < 0.3)
    uses[10] = False  # the opening
    before, last = torch.tensor(rng.random((2, 12)) < 0.6)
    rule = SizeRule(10, before, last, torch.tensor([3, 7, 8]), uses)
    limits = TokenLimits(torch.ones(5, 12, dtype=torch.bool), sizes=rule)
    prompts = torch.tensor(rng.integers(0, 10, (5, 6)))
    prompts[:, 3] = 10
    prompts[0, 1] = 1 << 62  # a position of a digest
    programs = torch.tensor(rng.integers(0, 10, (5, 7)))
    found = limits.before(prompts, programs)
    lost = 0
    for row in range(5):
        logits = torch.randn(7, 12)
        masked = limits.masked(logits, torch.full((7,), row), found.of(torch.tensor(row)))
        step = limits.before(prompts, programs[:, :1]).of((torch.tensor([row]), torch.tensor([0])))
        for place in range(7):
            one, other = [*prompts[row].tolist(), *programs[row].tolist()][place + 4 : place + 6]
            written = [*prompts[row, 4:].tolist(), *programs[row, :place].tolist()]
            expected = logits[place].clone()
            for number, size in enumerate((3, 7, 8)):
                begun = any(uses[token, 3] for token in written)
                if before[one] and last[other] and begun and not any(uses[t, number] for t in written):
                    expected[size] -= UNLIKELY
                    lost += 1
            torch.testing.assert_close(masked[place], expected)
            alone = limits.masked(logits[place][None], torch.tensor([row]), step)
            torch.testing.assert_close(alone[0], expected)
            step = limits.after(step, programs[row, place][None])
    assert lost > 2


def test_ranges_are_read_from_the_request():
    text = (
        "rows: 20\n<c1><c1.z>: count, 10 to 61\n<c2><c2.n><c2.i><c2.z>: count, 0 to 13\n"
        "<c3>: binary, 0 to 1\n"
        "<c4>: continuous, -1e-05 to 2.5e+06\n<exposure>: count, 1 to 9, exposure\n<g1><g1.n>: group of 4\n"
        "response <y>: count, 1 to 355"
    )
    assert ranges(text) == {
        "<c1>": (10.0, 61.0, False, False),
        "<c1.z>": (-1.0, 1.0, False, False),
        "<c2>": (0.0, 13.0, True, False),
        "<c2.z>": (-1.0, 1.0, False, False),
        "<c3>": (0.0, 1.0, False, True),
        "<c4>": (-1e-05, 2.5e06, False, False),
    }


@pytest.mark.long
def test_no_logarithm_quotient_or_exposure_of_zero_is_written(writer):
    prompt = task_prompt(counts_task())
    ids = writer.encode_prompt(*prompt)
    drawn = writer.sample([ids], 150, SamplingSettings(300), seed=2, facts=[prompt.facts])
    zero = r"(dose|zeros|share|dose_z|zeros_z|share_z|size_z)\b"
    written = "\n".join(drawn.sources)
    assert not re.search(rf"log\({zero}\)|/{zero}|mu=(dose|zeros|share)\*", written)
    # it writes them where they have values
    assert re.search(r"log\(size\)", written)
    assert re.search(r"/size\b|/\(", written)


def test_no_column_is_a_shape_or_an_index_that_it_is_not(writer):
    prompt = task_prompt(counts_task())
    given = torch.tensor([writer.encode_prompt(*prompt)])
    limits = writer.spelling.limits(given)
    lost: dict[str, list[float]] = {}
    for column in ("dose", "size"):
        shaped = f"u = pm.Normal('u', 0, 1, shape={column})"
        for line in (shaped, f"mu = a + u[{column}]", f"mu = a*{column}"):
            ids = torch.tensor([writer.encode_program(line, prompt.facts)[:-1]])
            rows = torch.zeros(ids.shape[1], dtype=torch.long)
            logits = torch.zeros(ids.shape[1], writer.spelling.size)
            masked = limits.masked(logits, rows, limits.before(given, ids).of(FIRST))
            lost.setdefault(column, []).append(float(masked.gather(1, ids.T)[1:].sum()))
    assert lost == {  # doses are whole numbers from 0
        "dose": [-UNLIKELY, 0.0, 0.0],
        "size": [-UNLIKELY, -UNLIKELY, 0.0],
    }


@pytest.mark.parametrize("others", [True, False])
def test_no_curve_of_0_and_1_bends_between_them_if_another_column_may(writer, others):
    rng = np.random.default_rng(7)
    data = {"kind": np.arange(30) % 2, "share": rng.uniform(size=30).round(3)}
    data = {**(data if others else {"kind": data["kind"]}), "y": rng.normal(size=30).round(2)}
    prompt = task_prompt(Task("one", "One.", data, "y"))
    given = torch.tensor([writer.encode_prompt(*prompt)])
    limits = writer.spelling.limits(given)
    found = []
    for column in ("kind", "share")[: len(data) - 1]:
        line = f"mu = a + c*pt.maximum({column} - 0.4, 0) + b*{column}"
        ids = torch.tensor([writer.encode_program(line, prompt.facts)[:-1]])
        rows = torch.zeros(ids.shape[1], dtype=torch.long)
        logits = torch.zeros(ids.shape[1], writer.spelling.size)
        masked = limits.masked(logits, rows, limits.before(given, ids).of(FIRST))
        found.append(float(masked.gather(1, ids.T)[1:].sum()))
    assert found == ([-UNLIKELY, 0.0] if others else [0.0])


@pytest.mark.parametrize(("steps", "lost"), [(30, 0.0), (60, -UNLIKELY)])
def test_two_species_need_few_steps(writer, steps, lost):
    rng = np.random.default_rng(5)
    data = {"time": np.tile(np.arange(steps + 1), 2), "kind": np.repeat([0, 1], steps + 1)}
    data["y"] = rng.lognormal(2.0, 0.4, 2 * steps + 2).round(2)
    prompt = task_prompt(Task("two", "Two.", data, "y"))
    given = torch.tensor([writer.encode_prompt(*prompt)])
    limits = writer.spelling.limits(given)
    found = []
    for line in ("mu = pt.switch(kind > 0, pt.stack(v)[time], pt.stack(u)[time])", "mu = a + b*kind"):
        ids = torch.tensor([writer.encode_program(line, prompt.facts)[:-1]])
        rows = torch.zeros(ids.shape[1], dtype=torch.long)
        logits = torch.zeros(ids.shape[1], writer.spelling.size)
        masked = limits.masked(logits, rows, limits.before(given, ids).of(FIRST))
        found.append(float(masked.gather(1, ids.T)[1:].sum()))
    assert found == [lost, 0.0]
    assert STEPS_OF_TWO[1] == MOST_TIMES


def test_of_one_covariate_the_shifted_logarithm_is_left(writer):
    rng = np.random.default_rng(5)
    time = np.arange(20.0)
    for names in (("time",), ("time", "other")):
        columns = {name: time + (name == "other") * rng.normal(size=20).round(2) for name in names}
        prompt = task_prompt(Task("series", "A series.", {**columns, "y": rng.normal(size=20).round(2)}, "y"))
        given = torch.tensor([writer.encode_prompt(*prompt)])
        program = "with pm.Model() as model:\n    mu = a + b*pt.log(time + d)"
        ids = torch.tensor([writer.encode_program(program, prompt.facts)[:-1]])
        limits = writer.spelling.limits(given)
        rows = torch.zeros(ids.shape[1], dtype=torch.long)
        masked = limits.masked(
            torch.zeros(ids.shape[1], writer.spelling.size), rows, limits.before(given, ids).of(FIRST)
        )
        lost = masked.gather(1, ids[0][:, None]).sum()
        assert float(lost) == (0.0 if len(names) == 1 else -UNLIKELY)


def nested_task():
    """Ten batches of three casks, each with a name of its own, as of Davies and Goldsmith (1972)."""
    rng = np.random.default_rng(6)
    batch, cask = (each.ravel() for each in np.meshgrid(range(10), range(3), indexing="ij"))
    batch, cask = batch.repeat(2), cask.repeat(2)
    data = pd.DataFrame({"batch": [f"b{each}" for each in batch], "cask": [f"c{each}" for each in cask]})
    data["sample"] = data["batch"] + data["cask"]
    effects = rng.normal(0, 1, 10)[batch] + rng.normal(0, 3, 30)[3 * batch + cask]
    data["strength"] = (60 + effects + rng.normal(0, 0.8, 60)).round(1)
    return data


def test_effects_have_the_size_of_their_index(writer, tmp_path):
    path = tmp_path / "pastes.csv"
    nested_task().to_csv(path, index=False)
    prompt = task_prompt(looking(CSVTask(path, "strength"), "digest"))
    sizes = {"batch_code": 10, "cask_code": 3, "sample_code": 30}
    drawn = writer.sample(
        [writer.encode_prompt(*prompt)], 60, SamplingSettings(300), seed=1, facts=[prompt.facts]
    )
    seen = wrong = 0
    for source in drawn.sources:
        indexed = {column for column in sizes if f"[{column}" in source or f"+ {column}]" in source}
        for size in re.findall(r"shape=(\d+)", source):
            seen += 1
            wrong += int(size) in sizes.values() and not any(sizes[each] == int(size) for each in indexed)
    assert seen > 30
    assert wrong == 0


def test_a_program_in_another_order_may_have_sizes_first(writer, tmp_path):
    path = tmp_path / "pastes.csv"
    nested_task().to_csv(path, index=False)
    prompt = task_prompt(CSVTask(path, "strength"))
    given = torch.tensor([writer.encode_prompt(*prompt)])
    limits = writer.spelling.limits(given)
    lines = ("u = pm.Normal('u', 0, 1, shape=10)", "pm.Normal('y', u[batch_code], 1, observed=strength)")
    batch, cask = (writer.tokenizer.convert_tokens_to_ids(pointer) for pointer in ("<g1>", "<g2>"))
    lost = {}
    for name, text in {"first": lines, "last": lines[::-1], "other": lines[::-1]}.items():
        ids = torch.tensor([writer.encode_program("\n".join(text), prompt.facts)[:-1]])
        if name == "other":  # the batches' size where casks are indexed
            ids = ids.where(ids != batch, cask)
        rows = torch.zeros(ids.shape[1], dtype=torch.long)
        logits = torch.zeros(ids.shape[1], writer.spelling.size)
        masked = limits.masked(logits, rows, limits.before(given, ids).of(FIRST))
        lost[name] = float(masked.gather(1, ids.T)[1:].sum())
    assert lost == {"first": 0.0, "last": 0.0, "other": -UNLIKELY}


@pytest.mark.long
def test_the_grammar_keeps_the_rules(writer):
    rng, spelling, programs, broken = Random(3), writer.spelling, 0, 0
    while programs < 200:
        example = wide_example(rng, 4, 0, 12)
        prompt = torch.tensor([spelling.prompt("", "", False, "", example.facts)])
        limits = spelling.limits(prompt)
        for written in example.programs:
            ids = torch.tensor([spelling.program(written.source, example.facts)])
            rows = torch.zeros(ids.shape[1], dtype=torch.long)
            masked = limits.masked(
                torch.zeros(ids.shape[1], spelling.size), rows, limits.before(prompt, ids).of(FIRST)
            )
            broken += bool((masked.gather(1, ids[0][:, None]) < 0).any())
            programs += 1
    assert broken <= programs // 100


def test_a_program_begins_with_its_first_line_and_has_it_nowhere_else(writer):
    """Behind a digest as well, whose positions are no tokens."""
    task = counts_task()
    prompt = task_prompt(looking(task, "digest"))
    for ids in (writer.encode_prompt(*prompt), writer.encode_prompt(*prompt.prior)):
        limits = writer.spelling.limits(torch.tensor([ids]))
        source = 'with pm.Model() as model:\n    pm.Poisson("y", 3, observed=y)'
        program = torch.tensor([writer.encode_program(source, prompt.facts)])
        before = limits.before(torch.tensor([ids]), program)
        logits = torch.zeros(program.shape[1], writer.spelling.size)
        lost = limits.masked(logits, torch.zeros(program.shape[1], dtype=torch.int64), before.of(FIRST))
        header = [token for token, text in writer.spelling._texts.items() if text.startswith(HEADER)]
        other = writer.tokenizer.convert_tokens_to_ids("s")
        assert (lost[0, header] == 0).all()
        assert lost[0, other] == -UNLIKELY
        assert (lost[1:, header] <= -UNLIKELY).all()
        assert lost[torch.arange(program.shape[1]), program[0]].eq(0).all()
