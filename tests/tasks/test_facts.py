"""What policies that word requests themselves are told of the bundled tasks' columns."""

from __future__ import annotations

import pytest

from synthstats_lightning.policy.pointers.request import request_text
from synthstats_lightning.policy.pointers.slots import digest_positions
from synthstats_lightning.policy.pointers.table import pointer_table
from synthstats_lightning.tasks import EightSchools, Surgical, task_prompt
from synthstats_lightning.tasks.digest import task_digest
from synthstats_lightning.tasks.proposal import looking


def roles(task):
    return {column.name: column.role for column in task_prompt(task).facts.columns}


@pytest.mark.parametrize("domain_knowledge", [True, False])
def test_numbers_of_rows_are_no_facts_and_the_others_have_their_roles(domain_knowledge):
    surgical = Surgical(domain_knowledge=domain_knowledge)
    assert roles(surgical) == {surgical.column_names["operations"]: "total"}
    schools = EightSchools(domain_knowledge=domain_knowledge)
    assert roles(schools) == {schools.column_names["standard_error"]: "standard error"}


def test_prompts_of_text_have_the_columns_that_they_had():
    assert "hospital: count, 0 to 11" in task_prompt(Surgical()).request
    assert "standard_error: continuous, 9 to 18 points\n" in task_prompt(EightSchools()).request


def test_requests_in_pointers_say_roles_and_digests_leave_out_what_is_no_fact():
    task = Surgical()
    facts = task_prompt(looking(task, "digest")).facts
    table = pointer_table(facts)
    assert request_text(facts, table).splitlines()[1:] == [
        "<total>: count, 47 to 810, total",
        "response <y>: count, 0 to 46, out of <total>",
    ]
    digest = task_digest(task)
    assert {scan.name for scan in digest.scan} >= {"hospital"}
    everything = {"hospital": "<c1>", "operations": "<total>"}
    positions = [digest_positions(digest, facts.response, names) for names in (everything, table.names)]
    assert set(positions[1]) < set(positions[0])
    assert len(positions[1]) < len(positions[0])
