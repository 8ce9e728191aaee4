"""A server as a user starts it: its scores are the pool's own, hostile programs get nothing, it stops."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.serving.remote_scorer import RemoteScorer, RemoteScorerError
from synthstats_lightning.serving.trl import trl_reward
from synthstats_lightning.tasks import Task, baseline_program, get_task
from synthstats_lightning.tasks.experiments import ExperimentTask
from tests.serving.conftest import KEY, QUEUE
from tests.support.benchmark_modules import BENCHMARKS, benchmark_module

LINE = """
with pm.Model() as model:
    a = pm.Normal("a", 2, 1)
    b = pm.Normal("b", 0, 1)
    s = pm.HalfNormal("s", 1)
    pm.Normal("y", a + b * np.log(data.age), s, observed=data.length)
"""
SPIN = "n = {}\nwhile True:\n    n += 1\n"
pytestmark = pytest.mark.timeout(900)
HOSTILE = 3
"""Cases of the benchmark's that are served here."""


def ask(url: str, body: Any = None, key: str = KEY) -> tuple[int, dict[str, str], Any]:
    """Status, headers and content of an answer."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = Request(url, data, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=100) as response:
            status, headers, content = response.status, dict(response.headers), response.read()
    except HTTPError as error:
        status, headers, content = error.code, dict(error.headers), error.read()
    try:
        return status, headers, json.loads(content)
    except ValueError:
        return status, headers, content.decode()


@pytest.mark.long
def test_scores_are_those_of_the_pool(both: Any, key: str) -> None:
    url, pool, _ = both
    x = np.arange(8.0)
    own = Task("own", "A line.", {"x": x, "n": np.arange(8), "z": 2 * x + np.cos(x)}, "z", held_out=2)
    line = LINE.replace("np.log(data.age)", "data.x").replace("data.length", "data.z")
    programs = [
        (LINE, get_task("dugongs")),
        (line, own),
        ("1 +", own),
        (baseline_program(own), own),
        (baseline_program(get_task("surgical")), get_task("surgical")),
    ]
    with RemoteScorer(url, key, requests=QUEUE) as remote:
        served = [remote.submit(*each) for each in programs]
        expected = [pool.submit(*each) for each in programs]
        for theirs, ours in zip(served, expected, strict=True):
            assert without_seconds(theirs.result()) == without_seconds(ours.result())
        assert expected[2].result().failure is FailureCategory.SYNTAX
        assert sum(each.result().scored for each in expected) == 4
        assert without_seconds(remote.score(LINE, "dugongs")) == without_seconds(expected[0].result())
        with pytest.raises(RemoteScorerError, match="status 422: task 'dugong' is not one of: dugongs"):
            remote.score(LINE, "dugong")
    # rewards for other trainers: what the pool says, from a conversation's answer
    with_prose = [{"role": "assistant", "content": f"Here it is.\n```python{LINE}```"}]
    task = get_task("dugongs")
    gained = expected[0].result().evidence - pool.score(baseline_program(task), task).evidence
    with RemoteScorer(url, key) as remote:
        reward = trl_reward("dugongs", scorer=remote)
        found = reward(prompts=["", ""], completions=[with_prose, "no program"])
    assert found == [pytest.approx(max(gained, -20.0)), -25.0]


def without_seconds(score: Any) -> Any:
    """What is the same every time; times are not compared."""
    return replace(score, seconds=0.0)


@pytest.mark.long
def test_asked_for_some_scores_and_for_none_that_is_computed(both: Any) -> None:
    url, _, _ = both
    status, _, found = ask(f"{url}/score", {"task": "dugongs", "program": LINE, "scores": ["elpd"]})
    assert status == 200
    assert found["elpd"] is not None
    assert (found["evidence"], list(found["diagnostics"])) == (None, ["elpd"])
    for body, words in (
        ({"task": "dugongs"}, "program: Field required"),
        ({"task": {"path": "/etc/passwd"}, "program": ""}, "path: Extra inputs are not permitted"),
        ({"task": {"class_path": "CSVTask"}, "program": ""}, "class_path: Extra inputs"),
        ({"task": "dugongs", "program": "", "scores": ["bits"]}, "Input should be 'evidence', 'elpd'"),
        ({"task": {"data": {"y": [1, "a"]}, "response": "y"}, "program": ""}, "data.y.1"),
        ({"task": {"data": {"y": [1]}, "response": "z"}, "program": ""}, "response 'z' is not a column"),
        ({"task": {"simulator": "/etc"}, "program": ""}, "simulator '/etc' is not one of"),
        (b"[" * 100_000, "the body"),
        (b"\xff\xfe", "the body"),
    ):
        status, _, found = ask(f"{url}/score", body)
        assert (status in (400, 422), "\n" in str(found)) == (True, False), found
        assert words in found["error"]["message"], found


def test_an_episode_with_a_client_s_program(both: Any) -> None:
    url, pool, _ = both
    task = ExperimentTask("dugongs_simulator", seed=4, experiments=2, evaluation_points=3)
    program = LINE.replace("data.age", f"data.{next(iter(task.covariates))}")
    program = program.replace("data.length", f"data.{task.response}")
    served = {"simulator": "dugongs_simulator", "seed": 4, "experiments": 2, "evaluation_points": 3}
    status, _, begun = ask(f"{url}/rollouts", {"task": served, "experiments": [2.0]})
    assert (status, begun["over"], begun["experiments_left"]) == (200, False, 1), begun
    body = {"task": served, "experiments": [2.0, 4.0], "program": program, "predictions": True}
    status, _, found = ask(f"{url}/rollouts", body)
    assert (status, [turn["kind"] for turn in found["turns"]]) == (200, ["observe", "observe", "submit"]), (
        found
    )
    episode = task.begin()
    assert (
        found["turns"][0]["answer"] == begun["turns"][0]["answer"] == episode.answer("<observe>2.0</observe>")
    )
    episode.answer("<observe>4.0</observe>")
    expected = pool.score(episode.program or program.strip("\n"), task.given(episode))
    assert expected.scored, expected.message
    assert found["score"]["heldout_lpd"] == expected.heldout_lpd
    assert found["baseline"] == pool.score(baseline_program(task), task).heldout_lpd
    points = found["predictions"]
    assert len(points) == 3
    assert all(point["quantiles"]["0.05"] < point["quantiles"]["0.95"] for point in points)
    # what the client must not learn: responses of the evaluation points, and densities that tell them
    truth = [f"{value:.12g}" for value in task.data[task.response]]
    assert not any(value in json.dumps(found) for value in truth)
    assert found["score"]["diagnostics"]["heldout_lpd"]["pointwise"] == []
    same = ask(f"{url}/rollouts", {"task": served, "turns": ["<observe>2.0</observe>"]})[2]
    assert same["turns"] == begun["turns"]
    status, _, over = ask(
        f"{url}/rollouts", {"task": served, "turns": [f"<program>{program}</program>", "more"]}
    )
    assert (status, over["error"]["message"]) == (
        422,
        "turns must end with the episode, which is over after 1 of 2",
    )


def test_what_there_is_to_ask_for(both: Any) -> None:
    url, _, _ = both
    _, _, found = ask(f"{url}/tasks")
    by_name = {task["name"]: task for task in found["tasks"]}
    assert by_name["dugongs"]["fingerprint"] == get_task("dugongs").fingerprint
    assert (by_name["dugongs"]["episodes"], by_name["death_process"]["episodes"]) == (False, True)
    assert found["scores"] == ["evidence", "elpd", "heldout_lpd"]
    assert ask(f"{url}/tasks", key="wrong")[0] == ask(f"{url}/metrics", key="")[0] == 401
    assert ask(f"{url}/health", key="")[2]["status"] == "ok"
    assert ask(f"{url}/secret.txt")[0] == ask(f"{url}/../etc/passwd")[0] == 404
    assert ask(f"{url}/score", {"task": "dugongs", "program": "1 +"})[0] == 200
    text = ask(f"{url}/metrics")[2]
    assert re.search(r'^synthstats_requests_total\{path="/score",status="200"\} [1-9]', text, re.M)
    assert re.search(r'^synthstats_failures_total\{category="syntax"\} [1-9]', text, re.M)
    assert "synthstats_queue_limit 2" in text


def test_hostile_programs_get_nothing(both: Any, key: str) -> None:
    url, pool, process = both
    canaries_module = benchmark_module("sandbox_parts.sandbox_canaries")
    cases = json.loads((BENCHMARKS / "sandbox_parts" / "sandbox_cases.json").read_text())
    canaries = canaries_module.Canaries()
    try:
        with RemoteScorer(url, key, requests=QUEUE) as remote:
            for case in cases[:: len(cases) // HOSTILE][:HOSTILE]:
                score = remote.score(canaries.fill(case["code"], case["id"]), "dugongs")
                assert not score.scored
                assert not any(
                    token in json.dumps(score.to_dict()) for token in canaries_module.TOKENS.values()
                )
            assert without_seconds(remote.score(LINE, "dugongs")) == without_seconds(
                pool.score(LINE, get_task("dugongs"))
            )
        assert not canaries.tampered() + canaries.dropped()
        assert not canaries.reached()
        assert not canaries.hurt()
    finally:
        canaries.close()
    assert process.poll() is None


def test_beyond_the_bound_and_the_end(both: Any) -> None:
    """The last test of this file: the server is gone afterwards."""
    url, _, process = both

    def spin(number: int) -> tuple[int, dict[str, str], Any]:
        return ask(f"{url}/score", {"task": "dugongs", "program": SPIN.format(number)})

    with ThreadPoolExecutor(QUEUE) as threads:
        spinning = [threads.submit(spin, number) for number in range(QUEUE)]
        wait_until(lambda: ask(f"{url}/health")[2]["queue"] == QUEUE)
        status, headers, found = spin(QUEUE)
        assert (status, found["error"]["category"]) == (429, "queue_full")
        assert int({name.lower(): value for name, value in headers.items()}["retry-after"]) >= 1
        process.send_signal(signal.SIGTERM)
        # what was taken on is answered
        for each in spinning:
            status, _, found = each.result()
            assert (status, found["status"]) == (200, "cpu"), found
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    with pytest.raises(OSError, match="refused"):
        ask(f"{url}/health")


def wait_until(what: Any) -> None:
    """Asks until it is so; the test's own limit ends it."""
    pause = threading.Event()
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < 100
        pause.wait(0.02)
