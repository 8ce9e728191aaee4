"""What a request gets instead of a score: by a scorer that answers only when the test says so."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.serving.http.admission import Admission
from synthstats_lightning.serving.http.app import create_app
from synthstats_lightning.serving.http.metrics import ServerMetrics
from synthstats_lightning.serving.http.refusals import QueueFullError, StoppingError
from synthstats_lightning.serving.http.served_tasks import ServedTasks
from synthstats_lightning.serving.http.server import make_server, public_warning, serve
from synthstats_lightning.serving.http.settings import ServerSettings, is_public, listening_socket
from synthstats_lightning.tasks import get_task

BODY = json.dumps({"task": "dugongs", "program": "p"}).encode()
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
SETTINGS = ServerSettings(queue=2, timeout_s=60.0, grace_s=60.0, body_bytes=1000, body_s=60.0)


class SilentScorer(ProgramScorer):
    """Takes programs, and answers when the test sets their futures."""

    def __init__(self) -> None:
        super().__init__(1, settings=EngineSettings(last_score="evidence"))
        self.futures: list[Future[Score]] = []
        self.withdrawn: list[str] = []

    def submit(self, source: str, task: Any) -> Future[Score]:
        self.futures.append(Future())
        return self.futures[-1]

    def withdraw(self, source: str, task: Any) -> bool:
        self.withdrawn.append(source)
        return True


class Client:
    """One request to an ASGI application; `left` ends the connection."""

    def __init__(self, parts: tuple[bytes, ...] = (BODY,), path: str = "/score", key: str = "") -> None:
        self.left, self.stuck = asyncio.Event(), asyncio.Event()
        self.sent: list[Any] = []
        self._parts = list(parts or (b"",))
        headers = [(b"authorization", key.encode())] if key else []
        headers.append((b"content-type", b"application/json"))
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST" if parts else "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "scheme": "http",
            "root_path": "",
        }

    async def receive(self) -> Any:
        if self._parts:
            part = self._parts.pop(0)
            if part == b"stuck":
                await self.stuck.wait()
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def error(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.sent[1]["body"])["error"]
        return found


def served(
    test: Callable[[Any, Admission, SilentScorer], Awaitable[None]],
    settings: ServerSettings = SETTINGS,
    key: str | None = None,
) -> None:
    """Runs a test with an application, its admission and its scorer."""

    async def main() -> None:
        scorer = SilentScorer()
        application, admission = create_app(scorer, settings, (), key)
        await asyncio.wait_for(test(application, admission, scorer), 100)

    asyncio.run(main())


async def asked(scorer: SilentScorer, count: int) -> None:
    """Returns once so many programs have come to the scorer."""
    while len(scorer.futures) < count:
        await asyncio.sleep(0.001)


def test_beyond_the_bound() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        first, second, third = (Client() for _ in range(3))
        waiting = [
            asyncio.ensure_future(application(each.scope, each.receive, each.send))
            for each in (first, second)
        ]
        await asked(scorer, 2)
        await application(third.scope, third.receive, third.send)
        assert (third.status, third.error["category"]) == (429, "queue_full")
        assert int(third.headers[b"retry-after"]) >= 1
        for future in scorer.futures:
            future.set_result(Score(evidence=-1.5, seconds=2.0))
        await asyncio.gather(*waiting)
        assert first.status == second.status == 200
        assert json.loads(first.sent[1]["body"])["evidence"] == -1.5
        assert admission.waiting == 0
        counted = Client((), "/metrics")
        await application(counted.scope, counted.receive, counted.send)
        text = counted.sent[1]["body"].decode()
        assert 'synthstats_requests_total{path="/score",status="429"} 1' in text
        assert 'synthstats_failures_total{category="queue_full"} 1' in text
        assert 'synthstats_request_seconds_bucket{path="/score",le="+Inf"} 3' in text

    served(test)


def test_a_client_that_leaves_frees_its_place() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client()
        waiting = asyncio.ensure_future(application(client.scope, client.receive, client.send))
        await asked(scorer, 1)
        client.left.set()
        await waiting
        assert (scorer.withdrawn, admission.waiting) == (["p"], 0)
        assert not scorer.futures[0].cancelled()  # others may wait for it

    served(test)


def test_a_program_that_others_took_back_is_handed_over_again() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client()
        waiting = asyncio.ensure_future(application(client.scope, client.receive, client.send))
        await asked(scorer, 1)
        scorer.futures[0].cancel()
        await asked(scorer, 2)
        scorer.futures[1].set_result(Score(evidence=-2.0))
        await waiting
        assert (client.status, scorer.withdrawn) == (200, [])

    served(test)


def test_no_score_in_time() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client()
        await application(client.scope, client.receive, client.send)
        assert (client.status, client.error["category"]) == (504, "no_score_in_time")
        assert (scorer.withdrawn, admission.waiting) == (["p"], 0)

    served(test, ServerSettings(timeout_s=0.05))


def test_a_stop_answers_what_was_taken_on_and_gives_up_in_the_end() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        first, second, late, health = Client(), Client(), Client(), Client((), "/health")
        waiting = [
            asyncio.ensure_future(application(each.scope, each.receive, each.send))
            for each in (first, second)
        ]
        await asked(scorer, 2)
        admission.stop(1000.0)
        await application(late.scope, late.receive, late.send)
        assert (late.status, late.error["category"], late.headers[b"connection"]) == (
            503,
            "stopping",
            b"close",
        )
        await application(health.scope, health.receive, health.send)
        assert health.status == 503
        scorer.futures[0].set_result(Score(evidence=-1.5))
        await waiting[0]
        assert first.status == 200
        admission.given_up.set()
        await waiting[1]
        assert (second.status, scorer.withdrawn) == (503, ["p"])

    served(test)


def test_a_scorer_that_breaks_tells_the_client_nothing() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client()
        waiting = asyncio.ensure_future(application(client.scope, client.receive, client.send))
        await asked(scorer, 1)
        scorer.futures[0].set_exception(RuntimeError("/home/user/secret"))
        with pytest.raises(RuntimeError):  # which the server logs
            await waiting
        assert (client.status, client.error) == (
            500,
            {"category": "internal", "message": "the server failed; its log says why"},
        )
        assert admission.waiting == 0

    served(test)


def test_bodies_and_keys() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        large = Client((b"x" * 600, b"x" * 600), key="Bearer secret")
        await application(large.scope, large.receive, large.send)
        assert (large.status, large.error["category"]) == (413, "too_large")
        said = Client(key="Bearer secret")
        said.scope["headers"].append((b"content-length", b"9" * 5000))
        await application(said.scope, said.receive, said.send)
        assert said.status == 413
        for key in ("", "secret", "Bearer wrong", "Basic secret", "Bearer sécret"):
            client = Client(key=key)
            await application(client.scope, client.receive, client.send)
            assert (client.status, client.headers[b"www-authenticate"]) == (401, b"Bearer")
        assert not scorer.futures

    served(test, SETTINGS, "secret")


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (None, BODY, "the header Content-Type must be application/json, got None"),
        ("text/plain", BODY, "the header Content-Type must be application/json, got 'text/plain'"),
        ("application/json; charset=utf-8", b'{"a": ', "JSON decode error (Expecting value)"),
        ("application/json", b"{}", "program: Field required; task: Field required"),
    ],
)
def test_what_is_no_json_says_why(kind: str | None, body: bytes, words: str) -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client((body,))
        client.scope["headers"] = [(b"content-type", kind.encode())] if kind is not None else []
        await application(client.scope, client.receive, client.send)
        assert client.status == 422
        assert words in client.error["message"]

    served(test)


@pytest.mark.parametrize(
    ("path", "task", "words"),
    [
        ("/score", {"simulator": "survival", "seed": -1}, "task.InstanceTask.seed: Input should be greater"),
        ("/score", {"data": {"y": ["a"]}, "response": "y"}, "task.DataTask.data.y.0."),
        ("/score", {"class_path": "CSVTask"}, "task.DataTask.class_path: Extra inputs"),
        ("/score", 5, "task: Input should be a task's name or an object"),
        (
            "/rollouts",
            {"simulator": "survival", "turns": 0},
            "task.EpisodeTask.turns: Input should be greater",
        ),
        ("/rollouts", [], "task: Input should be a task's name or an object"),
    ],
)
def test_a_wrong_task_is_told_of_its_own_kind(path: str, task: Any, words: str) -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        body = json.dumps({"task": task, "program": "p"}).encode()
        client = Client((body,), path)
        await application(client.scope, client.receive, client.send)
        assert client.status == 422
        assert words in client.error["message"]
        other = {"DataTask", "InstanceTask", "EpisodeTask"} - set(words.split("."))
        assert not [name for name in other if name in client.error["message"]]
        assert not scorer.futures

    served(test)


def test_another_method_of_a_path() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client((), "/score")
        await application(client.scope, client.receive, client.send)
        assert (client.status, client.error["message"]) == (405, "the method must be POST")
        assert client.headers[b"allow"] == b"POST"

    served(test)


def test_a_body_that_does_not_come() -> None:
    async def test(application: Any, admission: Admission, scorer: SilentScorer) -> None:
        client = Client((b"{", b"stuck"))
        await application(client.scope, client.receive, client.send)
        assert (client.status, client.error["category"]) == (408, "slow_request")

    served(test, ServerSettings(body_s=0.05))


def test_a_head_that_does_not_come_ends_the_connection() -> None:
    async def main() -> None:
        settings = ServerSettings(port=0, body_s=0.05)
        listener = listening_socket(settings)
        address = listener.getsockname()
        server = make_server(SilentScorer(), settings)
        running = asyncio.ensure_future(server.serve([listener]))
        try:
            for whole, begun in ((b"", b""), (b"", b"POST /score HT"), (HEALTH, b"GET /sc")):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(whole)
                if whole:
                    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.write(begun)
                await asyncio.wait_for(reader.read(), 10)  # before uvicorn itself closes what is idle
                writer.close()
        finally:
            server.should_exit = True
            await running

    asyncio.run(main())


class EndedScorer(SilentScorer):
    """Ends what it has taken when it is closed, as a pool does with the programs that run."""

    def close(self) -> None:
        for future in self.futures:
            future.set_result(Score.failed(FailureCategory.KILLED, "the sandbox was closed"))


def test_a_second_ctrl_c_is_no_failure_of_a_program() -> None:
    async def main() -> bytes:
        settings, scorer = ServerSettings(port=0, grace_s=60.0), EndedScorer()
        listener = listening_socket(settings)
        running = asyncio.ensure_future(serve(scorer, settings, listener))
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        kind = "host: x\r\ncontent-type: application/json"
        head = f"POST /score HTTP/1.1\r\n{kind}\r\ncontent-length: {len(BODY)}\r\n\r\n"
        writer.write(head.encode() + BODY)
        await asked(scorer, 1)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.2)
        await asyncio.wait_for(running, 30)
        answer = await asyncio.wait_for(reader.readline(), 30)
        writer.close()
        return answer

    assert asyncio.run(main()).startswith(b"HTTP/1.1 503")


def test_pauses_grow_with_the_queue() -> None:
    async def main() -> None:
        admission = Admission(bound=40, workers=2)
        for _ in range(200):
            admission.took(4.0)
        places = [admission.place() for _ in range(40)]
        for place in places:
            place.__enter__()
        with pytest.raises(QueueFullError) as full, admission.place():
            pass
        assert full.value.retry_after == 40  # half of 40 programs of 4 s on two workers
        places[0].__exit__(None, None, None)
        admission.stop(1.0)
        with pytest.raises(StoppingError), admission.place():
            pass

    asyncio.run(main())


def test_classes_of_latencies() -> None:
    metrics = ServerMetrics(frozenset({"/score"}))
    for seconds in (0.001, 0.005, 0.3, 500.0):
        metrics.answered("/score", 200, seconds)
    metrics.answered("/made/up", 404, 0.1)
    text = metrics.render({"queue": ("Now.", 3)}, {"done_total": ("Ever.", 12_345_678)})
    for line in (
        '_bucket{path="/score",le="0.005"} 2',
        '_bucket{path="/score",le="0.5"} 3',
        '_bucket{path="/score",le="60.0"} 3',
        '_bucket{path="/score",le="+Inf"} 4',
        '_seconds_sum{path="/score"} 500.306000',
        '_requests_total{path="other",status="404"} 1',
        "# TYPE synthstats_queue gauge\nsynthstats_queue 3\n",
        "# TYPE synthstats_done_total counter\nsynthstats_done_total 12345678\n",
    ):
        assert line in text
    assert "made" not in text


def test_tasks_of_the_operator() -> None:
    own = get_task("surgical")
    own.name = "own"
    tasks = ServedTasks([own])
    assert tasks.scored("own") is own
    assert tasks.scored("dugongs") is tasks.scored("dugongs")
    assert tasks.listing()[0]["name"] == "own"
    with pytest.raises(Exception, match="task 'own' has no episodes"):
        tasks.episode("own")
    with pytest.raises(ValueError, match="names of their own, got 'dugongs', which is taken"):
        ServedTasks([get_task("dugongs")])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"port": 70_000}, "port must be from 0 to 65535, got 70000"),
        ({"queue": 0}, "queue must be at least 1, got 0"),
        ({"grace_s": float("inf")}, "grace_s must be a positive number of seconds, got inf"),
    ],
)
def test_settings_out_of_range(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ServerSettings(**given)


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_public(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "box")] == [
        *(False, False, False),
        *(True, True, True),
    ]
    assert "everyone there may have programs scored" in public_warning(ServerSettings(host="0.0.0.0"))
    assert not public_warning(ServerSettings(host="0.0.0.0", api_key_env="KEY"))
    assert not public_warning(ServerSettings())
    monkeypatch.setenv("KEY", "a b ")
    with pytest.raises(ValueError, match="printable ASCII without spaces at its ends, got 'KEY'"):
        ServerSettings(api_key_env="KEY").key()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ValueError, match="in use"):
        listening_socket(ServerSettings(port=taken.getsockname()[1]))
    with pytest.raises(ValueError, match="host must be an address of this machine, got 'no such host'"):
        listening_socket(ServerSettings(host="no such host"))
