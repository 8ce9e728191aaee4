"""The served scorer's routes."""

# FastAPI reads annotations of routes as objects: no `from __future__ import annotations` here
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.serving.http.admission import Admission
from synthstats_lightning.serving.http.guard import Guard
from synthstats_lightning.serving.http.messages import RolloutRequest, ScoreRequest
from synthstats_lightning.serving.http.metrics import ServerMetrics
from synthstats_lightning.serving.http.refusals import (
    InvalidRequestError,
    NoSuchPathError,
    Refusal,
    ServerFailedError,
    WrongMethodError,
)
from synthstats_lightning.serving.http.served_tasks import ServedTasks
from synthstats_lightning.serving.http.service import Service
from synthstats_lightning.serving.http.settings import ServerSettings
from synthstats_lightning.tasks import Task

PATHS = frozenset({"/score", "/rollouts", "/tasks", "/health", "/metrics"})


def create_app(
    scorer: ProgramScorer, settings: ServerSettings, tasks: Sequence[Task] = (), key: str | None = None
) -> tuple[Guard, Admission]:
    """The ASGI application of the served scorer, and what it was asked to do.

    Args:
        scorer: A pool that was started; it is not closed here.
        settings: What the server takes on.
        tasks: Tasks beside the bundled ones, which requests can name.
        key: The key that requests must bring; `None` if none is asked for.

    Raises:
        ValueError: If a task has the name of another.
    """
    metrics = ServerMetrics(PATHS)
    admission = Admission(settings.queue, scorer.num_workers)
    service = Service(scorer, ServedTasks(tasks), admission, metrics, settings.timeout_s)
    application = FastAPI(title="synthstats-lightning", version=__version__)

    def refuse(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, RequestValidationError):
            refusal: Refusal = InvalidRequestError(_not_json(request) or in_one_line(error.errors()))
        elif isinstance(error, HTTPException):  # FastAPI's own: a path, a method, a body that is no JSON
            refusal = _own_refusal(error)
        else:
            refusal = error if isinstance(error, Refusal) else ServerFailedError()
        metrics.failed(refusal.category)
        return JSONResponse(refusal.body, refusal.status, refusal.headers)

    for kind in (Refusal, RequestValidationError, HTTPException, Exception):
        application.add_exception_handler(kind, refuse)

    @application.post("/score")
    async def score(body: ScoreRequest, request: Request) -> Any:
        """The score of one program on one task."""
        return JSONResponse(await service.score(body, lambda: _left(request)))

    @application.post("/rollouts")
    async def rollouts(body: RolloutRequest, request: Request) -> Any:
        """One episode of a simulated environment: experiments, a program, its predictions and its score."""
        return JSONResponse(await service.roll_out(body, lambda: _left(request)))

    @application.get("/tasks")
    async def listing() -> Any:
        """The tasks that requests can name, and what a policy is told of each."""
        return JSONResponse({"tasks": await service.listing(), "scores": list(service.computed)})

    @application.get("/health")
    async def health() -> Any:
        """Whether programs are taken on, and how many are."""
        fields = {"status": "stopping" if admission.stopping else "ok", "queue": admission.waiting}
        return JSONResponse(fields, 503 if admission.stopping else 200)

    @application.get("/metrics")
    async def counted() -> Any:
        """Requests, latencies, failures and the queue, as Prometheus reads them."""
        text = metrics.render(
            {
                "queue_programs": ("Programs taken on and not yet answered.", admission.waiting),
                "queue_limit": ("Most programs that are taken on.", admission.bound),
                "workers": ("Programs that are scored at a time.", scorer.num_workers),
            },
            {
                "programs_scored_total": ("Distinct programs that got a score.", scorer.scored),
                "programs_repeated_total": ("Programs whose score was known.", scorer.repeated),
                "worker_restarts_total": ("Worker processes that were replaced.", scorer.worker_restarts),
            },
        )
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return Guard(application, settings, key, metrics), admission


def in_one_line(errors: Sequence[Any]) -> str:
    """What is wrong with a request, by its keys.

    Args:
        errors: What Pydantic found, each with its place and a message.
    """
    found = set()
    for error in errors:
        place = () if error["type"] == "json_invalid" else error["loc"][1:]
        why = f" ({error['ctx']['error']})" if error["type"] == "json_invalid" and "ctx" in error else ""
        found.add(f"{'.'.join(str(part) for part in place) or 'the body'}: {error['msg']}{why}")
    return " ".join("; ".join(sorted(found)).split())


def _own_refusal(error: HTTPException) -> Refusal:
    """What the framework refuses by itself."""
    if error.status_code == 400:
        return InvalidRequestError(f"the body: {error.detail}")
    if error.status_code == 405:
        return WrongMethodError((error.headers or {}).get("Allow", "another one"))
    return NoSuchPathError(error.detail)


def _not_json(request: Request) -> str | None:
    """What is wrong with a body that is not said to be JSON, which FastAPI takes for a text."""
    given = request.headers.get("content-type")
    kind = (given or "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return None
    return f"the header Content-Type must be application/json, got {given!r}"


async def _left(request: Request) -> None:
    """Returns once the client has gone: all of the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
