"""Of wide tables: the proposal is told of some columns, the prior of all, and programs may use all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning import ProgramScorer
from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.policy.pointers.request import request_text
from synthstats_lightning.policy.pointers.table import pointer_table
from synthstats_lightning.policy.pointers.told import MOST_TOLD, WIDE, told
from synthstats_lightning.policy.pointers.vocabulary import COLUMNS, GROUPS
from synthstats_lightning.pretraining.wide.regressions import regressions
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Column, Task, task_prompt
from synthstats_lightning.tasks.facts import Facts
from synthstats_lightning.tasks.proposal import looking


def wide_task(columns=30, rows=200, seed=0, first=0):
    """`y` is a line in `x3` and a parabola of `x20`, and counts nothing else."""
    rng = np.random.default_rng(seed)
    data = {f"x{place}": rng.normal(place, 1 + place, rows).round(2) for place in range(columns)}
    bent = (data["x20"] - 20) / 21
    data["y"] = (20 + (data["x3"] - 3) + 3 * bent**2 + rng.normal(0, 1, rows)).round(2)
    return Task("wide", "A wide table.", {name: data[name] for name in [*data][first:]}, "y")


@pytest.fixture(scope="module")
def bundled():
    return load_policy("writer", lora=None)


def prompts(policy, task):
    prompt = task_prompt(looking(task, "digest"))
    return policy.encode_prompt(*prompt), policy.encode_prompt(*prompt.prior), prompt.facts


def pointers_in(policy, ids):
    names = dict(zip(policy.tokenizer.convert_tokens_to_ids(list(COLUMNS)), COLUMNS, strict=True))
    return [names[token] for token in ids if token in names]


def test_the_proposal_is_told_of_what_explains_the_response_and_the_prior_of_all(bundled):
    task = wide_task()
    facts = task_prompt(looking(task, "digest")).facts
    names = [column.name for column in told(facts).columns]
    assert len(names) == MOST_TOLD
    assert {"x3", "x20"} <= set(names)  # a parabola has no slope, but a curve
    assert names == sorted(names, key=list(task.data).index)
    proposal, prior, _ = prompts(bundled, task)
    table = pointer_table(facts)
    assert pointers_in(bundled, proposal) == [table.names[name] for name in names]
    assert pointers_in(bundled, prior) == list(COLUMNS[:30])
    assert told(facts.prior) == facts.prior


def test_the_prior_does_not_depend_on_the_response_of_a_wide_table(bundled):
    task = wide_task()
    order = np.random.default_rng(1).permutation(task.num_rows)
    turned = Task("wide", "A wide table.", {**task.data, "y": task.data["y"][order]}, "y")
    proposal, prior, _ = prompts(bundled, task)
    other_proposal, other_prior, _ = prompts(bundled, turned)
    assert prior == other_prior
    assert pointers_in(bundled, proposal) != pointers_in(bundled, other_proposal)


def test_columns_with_a_role_and_what_numbers_the_rows_are_always_told():
    task = wide_task()
    rng = np.random.default_rng(2)
    data = {"site": rng.integers(0, 9, 200), "week": np.arange(200), **task.data}
    grouped = Task("wide", "A table.", data, "y")
    grouped.roles = {"site": "group"}
    facts = task_prompt(looking(grouped, "digest")).facts
    names = [column.name for column in told(facts).columns]
    assert names[:2] == ["site", "week"]
    assert len(names) == MOST_TOLD + 1
    facts = task_prompt(looking(wide_task(20 + WIDE, first=20), "digest")).facts
    assert len(told(facts).columns) == WIDE


def test_what_is_not_told_is_all_but_ruled_out_and_what_is_no_column_is_impossible(bundled):
    task = wide_task()
    proposal, _, facts = prompts(bundled, task)
    names = {column.name for column in told(facts).columns}
    other = next(name for name in task.covariates if name not in names)
    seen = next(iter(names))
    text = (
        'with pm.Model() as model:\n    a = pm.Normal("a", 20, 10)\n    pm.Normal("y", a*{}, 1, observed=y)'
    )
    programs = [text.format(name) for name in (seen, other)]
    ids = [bundled.encode_program(program, facts) for program in programs]
    assert [bundled.decode(each, facts) for each in ids] == programs
    rows, prompt = torch.tensor(ids), torch.tensor([proposal] * 2)
    with torch.no_grad():
        found = bundled.program_log_probs(prompt, rows, torch.ones_like(rows).bool())
    assert torch.isfinite(found).all()
    assert found[0] - found[1] > 5
    last = bundled.tokenizer.convert_tokens_to_ids("<c30>")
    _, prior, _ = prompts(bundled, wide_task(21))
    assert not bundled.spelling.limits(torch.tensor([prior])).allowed[0, last]
    few, _, _ = prompts(bundled, wide_task(30, first=20))
    assert not bundled.spelling.limits(torch.tensor([few])).allowed[0, last]


def test_regressions_of_a_wide_table_have_the_columns_that_a_curve_speaks_for(bundled):
    assert all("x20" in program and "x3" in program for program in regressions(wide_task())[:1])


def test_more_columns_of_categories_than_pointers_of_groups():
    levels = ("low", "mid", "high")
    columns = tuple(Column(f"k{place}", "count", 0.0, 2.0, levels=levels) for place in range(11))
    columns += (Column("site", "count", 0.0, 8.0, levels=tuple("abcdefghi"), role="group"),)
    facts = Facts(columns, Column("y", "continuous", 0.0, 1.0), 50)
    table = pointer_table(facts)
    assert table.names["site"] in GROUPS  # before categories
    assert sorted(table.names[f"k{place}"] for place in range(7, 11)) == list(COLUMNS[:4])
    assert "<c1><c1.n><c1.i>: count, 0 to 2" in request_text(facts, table)


@pytest.mark.long
def test_programs_on_thirty_columns_parse_and_score(bundled):
    task = wide_task()
    proposal, prior, facts = prompts(bundled, task)
    settings = SamplingSettings(max_new_tokens=256)
    programs = bundled.sample([proposal], 20, settings, 0, prior_prompts=[prior], facts=[facts])
    with ProgramScorer(settings=EngineSettings(last_score="evidence", time_limit=5.0)) as scorer:
        scores = [future.result() for future in [scorer.submit(each, task) for each in programs.sources]]
    assert sum(score.scored for score in scores) >= 18
    assert torch.isfinite(programs.reference_log_prob).all()
