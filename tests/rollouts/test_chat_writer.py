"""Programs of a chat model: what it is asked, what is read, and why there is none."""

from __future__ import annotations

import pytest

from synthstats_lightning.evaluation.entrants import ChatEntrant
from synthstats_lightning.rollouts.chat_writer import ChatSettings, ChatWriter, failures, parsed_name
from synthstats_lightning.scoring.terms import chat_endpoint
from synthstats_lightning.tasks import Prompt, get_task, task_prompt
from tests.support.chat_server import serving

PROGRAM = "with pm.Model() as model:\n    pm.Normal('y', 0, 1, observed=y)"
FENCED = f"Here is a model.\n```python\n{PROGRAM}\n```\nIt is simple."
PROMPT = Prompt("rules", "request", data="digest")


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(chat_endpoint, "FIRST_PAUSE", 0.001)


def written(answer, number=1, **settings):
    """Programs of a server that answers so, and what it was asked."""
    with serving(answer) as server:
        writer = ChatWriter("small", server.url, ChatSettings(**settings))
        (futures,) = writer.begin([PROMPT], number)
        found = [future.result() for future in futures]
        writer.close()
    return found, server


def test_it_is_asked_what_the_policy_is_asked_and_its_program_is_read(monkeypatch):
    monkeypatch.setenv("CHAT_KEY", "secret")
    found, server = written(
        lambda number, body: (200, FENCED), api_key_env="CHAT_KEY", temperature=0.7, max_tokens=99
    )
    assert [(each.source.strip(), each.failure) for each in found] == [(PROGRAM, "")]
    assert server.bodies == [
        {
            "model": "small",
            "messages": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": "request\ndigest"},
            ],
            "temperature": 0.7,
            "max_tokens": 99,
        }
    ]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_why_there_is_no_program_is_counted():
    answers = {
        0: (200, FENCED),
        1: (401, ""),  # not asked again
        2: (200, (FENCED[:40], "length")),
        3: (200, "<think>nothing but a thought</think>"),
        4: (200, None),
        5: (503, ""),
        6: (503, ""),
    }
    found, server = written(lambda number, body: answers[min(number, 6)], number=6, at_once=1, retries=0)
    assert dict(failures(found)) == {"status": 2, "cut_off": 1, "no_program": 1, "no_answer": 1}
    assert "status 401" in found[1].message
    assert len(server.bodies) == 6
    found, server = written(lambda number, body: (503, "") if number < 2 else (200, FENCED), retries=2)
    assert not failures(found)
    assert len(server.bodies) == 3


def test_an_endpoint_that_is_not_there():
    with serving(lambda number, body: (200, "")) as server:
        url = server.url
    found = ChatWriter("small", url, ChatSettings(retries=0)).one(PROMPT)
    assert found.failure == "connection"


def test_an_entrant_of_the_benchmark():
    answers = [(200, FENCED), (500, "")]
    with serving(lambda number, body: answers[number]) as server:
        writer = ChatWriter("small", server.url, ChatSettings(at_once=1, retries=0))
        found = ChatEntrant(writer, 2)(get_task("dugongs"), 7)
    assert [(item.log_prob, item.complete) for item in found] == [(None, True), (None, False)]
    assert found[1].failure.startswith("status: ")
    assert server.bodies[0]["messages"][1]["content"] == task_prompt(get_task("dugongs")).request


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:gpt@https://host/v1", ("gpt", "https://host/v1")),
        ("openai:org/gpt@2:x@http://127.0.0.1:8000", ("org/gpt@2:x", "http://127.0.0.1:8000")),
    ],
)
def test_the_name_of_a_chat_model(name, expected):
    assert parsed_name(name) == expected


@pytest.mark.parametrize("name", ["gpt@http://host", "openai:gpt", "openai:@http://host", "openai:gpt@host"])
def test_what_is_no_name(name):
    with pytest.raises(ValueError, match=r"policy must be openai:MODEL@URL|url must be that of a server"):
        parsed_name(name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature must be finite and at least 0, got -1"),
        ({"timeout_s": 0.0}, "timeout_s must be positive and finite, got 0"),
        ({"at_once": 0}, "at_once must be at least 1, got 0"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"api_key_env": "NO_SUCH_KEY"}, "api_key_env must name a variable .*, got 'NO_SUCH_KEY'"),
    ],
)
def test_values_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        ChatWriter("small", "http://127.0.0.1:8000", ChatSettings(**settings))
