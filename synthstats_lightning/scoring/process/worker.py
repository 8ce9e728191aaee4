"""The scoring process: model graphs in, scores out, over its standard input and output.

Started by `scoring.process.client`. No program code ever reaches it. It keeps its own time and memory limits,
because a graph comes from a program and may be made to be expensive.
"""

from __future__ import annotations

import gc
import os
import select
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import torch

from synthstats_lightning.programs import CanonicalModel, canonical_model, parse_graph
from synthstats_lightning.programs.demands.censoring import censored_graph, check_censoring
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.literals import graph_literals, literal_copies
from synthstats_lightning.runtime.frames import (
    ConnectionLost,
    pack,
    read_frame,
    take_pipes,
    unpack,
    write_frame,
)
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.integration import completed, integrate
from synthstats_lightning.scoring.prediction.design_gain import design_information_gain
from synthstats_lightning.scoring.prediction.forecast import forecast
from synthstats_lightning.scoring.prediction.measured_scale import on_measured_scale
from synthstats_lightning.scoring.prediction.observed_rows import observed_posterior
from synthstats_lightning.scoring.prediction.posterior_draws import draw_posterior
from synthstats_lightning.scoring.prediction.predictive import predictive_quantiles
from synthstats_lightning.scoring.prediction.recorded import recorded_density
from synthstats_lightning.scoring.process.cache import ScoreCache
from synthstats_lightning.scoring.process.confinement import confine_scorer
from synthstats_lightning.scoring.process.messages import MAX_REQUEST, TaskMessage
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

CACHED_SCORES = 50_000
_MESSAGE = 300


class ReceivedGraph:
    """A model graph as a request holds it, validated.

    Args:
        text: The graph's document.
        task: What it is a model of.

    Raises:
        ProgramFailure: If it is no valid graph, leaves out a quantity that the task asks for, censors the
            response at limits of its own, or reads the task's as anything but limits.
    """

    def __init__(self, text: str, task: TaskMessage) -> None:
        self.source = (text, task.fingerprint)
        graph = parse_graph(text, task.schema)
        self.graph = censored_graph(graph, task.censoring, task.covariates, task.response)
        check_declared(self.graph, task.quantities)
        check_censoring(self.graph, task.limits, task.constants)
        self.literal_copies = literal_copies(graph_literals(self.graph), task.response)

    @cached_property
    def model(self) -> CanonicalModel:
        """Its canonical form."""
        return canonical_model(self.graph)


Operation = Callable[..., Any]
"""From a received graph, its task, the engine's settings and a request's details to what `pack` takes."""


def identify(received: ReceivedGraph, task: TaskMessage, settings: EngineSettings) -> dict[str, Any]:
    """What a graph is, without scoring it: the fields of `messages.Identity`."""
    return {"canonical": received.model.hash, "literal_copies": received.literal_copies}


def predict(
    received: ReceivedGraph, task: TaskMessage, settings: EngineSettings, quantiles: list[float]
) -> Any:
    """Posterior predictive quantiles of the response, `[quantiles, rows]`."""
    model = received.model
    target = integrate(recorded_density(model.graph, task.covariates, task.response, task.rounding))
    data = data_fingerprint(task.covariates, task.response, task.shown_rows, held_out=task.held_out)
    generator = torch.Generator().manual_seed(graph_seed(model.form, data))
    found = observed_posterior(target, task.held_out, settings, generator, Deadline(settings.time_limit))
    particles = found.posterior.particles
    weights = particles.log_weight.softmax(-1)
    given = torch.arange(len(task.response)) < len(task.response) - task.held_out
    density, theta = completed(found.whole, particles.theta, generator, given)
    return predictive_quantiles(density, theta, weights, quantiles, generator).numpy()


def draws(
    received: ReceivedGraph, task: TaskMessage, settings: EngineSettings, **details: int
) -> dict[str, Any]:
    """The fields of `PosteriorDraws`; details are `chains`, `draws` and `seed`."""
    found = draw_posterior(
        received.graph,
        dict(task.covariates),
        task.response,
        shown_rows=task.shown_rows,
        rounding=task.rounding,
        held_out=task.held_out,
        settings=settings,
        **details,
    )
    return vars(found)


def predict_held_out(
    received: ReceivedGraph, task: TaskMessage, settings: EngineSettings, **details: Any
) -> dict[str, Any]:
    """The fields of `Forecast`; details are `draws`, `leave_one_out` and `densities`."""
    found = forecast(
        received.graph,
        task.covariates,
        task.response,
        len(task.response) - task.held_out,
        quantities=task.quantities,
        rounding=task.rounding,
        settings=settings,
        **details,
    )
    return vars(found)


def gain(
    received: ReceivedGraph, task: TaskMessage, settings: EngineSettings, **details: int
) -> dict[str, Any]:
    """The fields of `InformationGain`; details are `rows_per_design`, `outer` and `inner`."""
    found = design_information_gain(
        received.graph,
        task.covariates,
        task.response,
        len(task.response) - task.held_out,
        rounding=task.rounding,
        settings=settings,
        **details,
    )
    return found._asdict()


OPERATIONS: dict[str, Operation] = {
    "identify": identify,
    "predict": predict,
    "draws": draws,
    "forecast": predict_held_out,
    "gain": gain,
}
"""What can be asked of a graph besides its score."""


class ScoringService:
    """Answers requests one at a time.

    Args:
        settings: How much work the engine spends on a program, and what it accepts.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.operations: dict[str, Operation] = {**OPERATIONS, "score": self._score}
        # of a quickstart's first 1,000 distinct sources 4 % are the model of another, of later ones more
        self.known: ScoreCache[tuple[str, str, str]] = ScoreCache(CACHED_SCORES)
        self.tasks: dict[str, TaskMessage] = {}
        self._latest: ReceivedGraph | None = None

    def reply(self, request: bytes) -> bytes:
        """The frame that answers a frame: what can be read, computed and written, or why it cannot be."""
        try:
            return pack(self.answer(unpack(request)))
        except BaseException as error:
            return pack(self._failed(error))

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The value of one request, or why it has none: whatever a graph brings about ends no process."""
        try:
            return {"value": self._value(request)}
        except ProgramFailure as failure:
            return {"failure": failure.category, "message": failure.message}
        except BaseException as error:
            return self._failed(error)

    def _failed(self, error: BaseException) -> dict[str, Any]:
        # half of what a failed operation left must not meet the next one
        self._latest = None
        scarce = isinstance(error, MemoryError) or "memory" in str(error)
        message = "the scorer ran out of memory" if scarce else f"the scorer failed: {_one_line(error)}"
        return {"failure": FailureCategory.SCORER_LIMIT, "message": message}

    def _value(self, request: dict[str, Any]) -> Any:
        if request["kind"] == "task":
            told = TaskMessage.from_json(request["task"])
            self.tasks[told.fingerprint] = told
            return None
        operation, task = self.operations[request["kind"]], self.tasks[request["fingerprint"]]
        received = self._receive(request["graph"], task)
        return operation(received, task, self.settings, **request["details"])

    def _score(
        self, received: ReceivedGraph, task: TaskMessage, settings: EngineSettings, *, whole: bool = False
    ) -> dict[str, Any]:
        """A score as `Score.to_dict` has it; equal models are scored once, whatever their spelling.

        Args:
            received: The model as it was received.
            task: The data that it models.
            settings: The engine's own settings.
            whole: Whether every score is computed, whatever the settings say.
        """
        settings = replace(settings, last_score=None) if whole else settings
        key = received.model.hash, task.fingerprint, str(settings.last_score)
        found = self.known.get(key)
        if found is None:
            found = score_graph(
                received.model,
                task.covariates,
                task.response,
                shown_rows=task.shown_rows,
                settings=settings,
                response_name=task.schema.response,
                rounding=task.rounding,
                held_out=task.held_out,
            )
            if task.log_jacobian is not None:
                found = on_measured_scale(found, task.log_jacobian, task.shown_rows, task.held_out, settings)
            if found.settled:
                self.known.put(key, found)
        # of the program, not of its canonical form
        return replace(found, literal_copies=received.literal_copies).to_dict()

    def _receive(self, text: str, task: TaskMessage) -> ReceivedGraph:
        """A graph, kept until the next one: it is scored right after it was identified."""
        if self._latest is None or self._latest.source != (text, task.fingerprint):
            self._latest = None
            self._latest = ReceivedGraph(text, task)
        return self._latest


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_MESSAGE]


def _end_with_trainer(requests: int) -> None:
    """Ends this process once the other side is gone, also in the middle of a score."""
    poll = select.poll()
    poll.register(requests, 0)  # hanging up needs no asking for
    poll.poll()
    os._exit(0)


def check_declared(graph: ModelGraph, quantities: Sequence[str]) -> None:
    """Refuses a program that lacks a quantity which its task asks for; nothing else is taken for it.

    Args:
        graph: The program as a model graph.
        quantities: Names that it must declare.

    Raises:
        ProgramFailure: `BAD_GRAPH`.
    """
    for name in quantities:
        if name not in graph.deterministics:
            raise ProgramFailure(
                FailureCategory.BAD_GRAPH, f'the program declares no pm.Deterministic("{name}", ...)'
            )


def serve() -> None:
    """Answers until the other side closes the pipe."""
    requests, replies = take_pipes()
    settings = unpack(read_frame(requests, MAX_REQUEST))
    confine_scorer(settings["memory_bytes"], confined=settings["confined"])
    # not before: a thread is confined only if it comes after
    threading.Thread(target=_end_with_trainer, args=(requests,), daemon=True).start()
    service = ScoringService(EngineSettings(**settings["engine"]))
    # what has been imported is not searched for garbage again and again
    gc.collect()
    gc.freeze()
    write_frame(replies, pack({"engine": asdict(service.settings)}))
    try:
        while True:
            write_frame(replies, service.reply(read_frame(requests, MAX_REQUEST)))
    except ConnectionLost:
        return


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve()
