"""The scoring process: model graphs in, scores out, over one connection.

Started by `scoring.client` with a file descriptor as its only argument. No program code ever reaches it. It
keeps its own time and memory limits, because a graph comes from a program and may be made to be expensive.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np
import torch

from synthstats_lightning.programs import CanonicalModel, canonical_model, canonicalise, parse_graph
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.literals import graph_literals, literal_copies
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.prediction.design_gain import design_information_gain
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.forecast import Forecast, forecast
from synthstats_lightning.scoring.prediction.observed_rows import observed_posterior
from synthstats_lightning.scoring.prediction.posterior_draws import draw_posterior
from synthstats_lightning.scoring.prediction.predictive import predictive_quantiles
from synthstats_lightning.scoring.process.cache import CacheKey, ScoreCache
from synthstats_lightning.scoring.process.confinement import confine_scorer
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

Array = np.ndarray[Any, np.dtype[Any]]


class TaskData:
    """A task as the scoring process holds it.

    Args:
        message: The fields that `scoring.client.task_message` makes.
    """

    def __init__(self, message: dict[str, Any]) -> None:
        self.schema = DataSchema(**message["schema"])
        self.covariates = {
            name: np.asarray(values, dtype=self.schema.columns[name])
            for name, values in message["covariates"].items()
        }
        self.response: Array = np.asarray(message["response"], dtype=self.schema.response_dtype)
        self.shown_rows: int = message["shown_rows"]
        self.fingerprint: str = message["fingerprint"]
        self.rounding: float | None = message["rounding"]
        self.held_out: int = message["held_out"]
        self.quantities: list[str] = message["quantities"]


class ReceivedGraph:
    """A model graph as a request holds it, validated.

    Args:
        text: The graph's document.
        task: What it is a model of.

    Raises:
        ProgramFailure: If it is no valid graph, or leaves out a quantity that the task asks for.
    """

    def __init__(self, text: str, task: TaskData) -> None:
        self.source = (text, task.fingerprint)
        self.graph = parse_graph(text, task.schema)
        check_declared(self.graph, task.quantities)

    @cached_property
    def model(self) -> CanonicalModel:
        """Its canonical form."""
        return canonical_model(self.graph)


class ScoringService:
    """Answers requests one at a time.

    Args:
        settings: Of the engine.
        cache_entries: Scores kept by canonical form and task.
    """

    def __init__(self, settings: EngineSettings, cache_entries: int) -> None:
        self.settings = settings
        self.cache = ScoreCache(cache_entries)
        self.tasks: dict[str, TaskData] = {}
        self._latest: ReceivedGraph | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request; failures of a program are answers, not exceptions."""
        if request["kind"] == "task":
            task = TaskData(request["task"])
            self.tasks[task.fingerprint] = task
            return {}
        task = self.tasks[request["fingerprint"]]
        started = time.perf_counter()
        try:
            received = self._receive(request["graph"], task)
            graph = received.graph
            if request["kind"] == "identify":
                copies = literal_copies(graph_literals(graph), task.response)
                return {"canonical": received.model.hash, "literal_copies": copies}
            if request["kind"] == "draws":
                return {"draws": self._draws(graph, task, request).to_json()}
            if request["kind"] == "forecast":
                return {"forecast": self._forecast(graph, task, request).to_json()}
            if request["kind"] == "gain":
                return self._gain(graph, task, request)
            if request["kind"] == "score":
                return self._score(received, task).to_dict()
            return {"quantiles": self._predict(graph, task, request["quantiles"]).tolist()}
        except ProgramFailure as failure:
            return Score.failed(failure.category, failure.message, time.perf_counter() - started).to_dict()
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            return Score.failed(
                FailureCategory.SCORER_LIMIT, "the scorer ran out of memory", time.perf_counter() - started
            ).to_dict()

    def _receive(self, text: str, task: TaskData) -> ReceivedGraph:
        """A graph, kept until the next one: it is scored right after it was identified."""
        if self._latest is None or self._latest.source != (text, task.fingerprint):
            self._latest = None
            self._latest = ReceivedGraph(text, task)
        return self._latest

    def _score(self, received: ReceivedGraph, task: TaskData) -> Score:
        model = received.model
        key = CacheKey(model.hash, task.fingerprint, self.settings)
        score = self.cache.get(key)
        if score is None:
            score = score_graph(
                model,
                task.covariates,
                task.response,
                shown_rows=task.shown_rows,
                settings=self.settings,
                response_name=task.schema.response,
                rounding=task.rounding,
                held_out=task.held_out,
            )
            self.cache.put(key, score)
        # of the program, not of its canonical form
        return replace(score, literal_copies=literal_copies(graph_literals(received.graph), task.response))

    def _draws(self, graph: ModelGraph, task: TaskData, request: dict[str, Any]) -> PosteriorDraws:
        return draw_posterior(
            graph,
            task.covariates,
            task.response,
            chains=request["chains"],
            draws=request["draws"],
            seed=request["seed"],
            shown_rows=task.shown_rows,
            rounding=task.rounding,
            held_out=task.held_out,
            settings=self.settings,
        )

    def _forecast(self, graph: ModelGraph, task: TaskData, request: dict[str, Any]) -> Forecast:
        return forecast(
            graph,
            task.covariates,
            task.response,
            len(task.response) - task.held_out,
            draws=request["draws"],
            leave_one_out=request["leave_one_out"],
            quantities=tuple(task.quantities),
            rounding=task.rounding,
            settings=self.settings,
        )

    def _gain(self, graph: ModelGraph, task: TaskData, request: dict[str, Any]) -> dict[str, Any]:
        gain = design_information_gain(
            graph,
            task.covariates,
            task.response,
            len(task.response) - task.held_out,
            rows_per_design=request["rows_per_design"],
            outer=request["outer"],
            inner=request["inner"],
            rounding=task.rounding,
            settings=self.settings,
        )
        return {"gain": {name: values.tolist() for name, values in gain._asdict().items()}}

    def _predict(self, graph: ModelGraph, task: TaskData, quantiles: list[float]) -> Array:
        canonical = canonicalise(graph)
        density = build_density(canonical, task.covariates, task.response, task.rounding)
        fingerprint = data_fingerprint(
            task.covariates, task.response, task.shown_rows, task.rounding, task.held_out
        )
        generator = torch.Generator().manual_seed(graph_seed(canonical.to_json(), fingerprint))
        deadline = Deadline(self.settings.time_limit)
        found = observed_posterior(density, task.held_out, self.settings, generator, deadline)
        particles, density = found.posterior.particles, cast(Density, found.whole)
        weights = particles.log_weight.softmax(-1)
        return predictive_quantiles(density, particles.theta, weights, quantiles, generator).numpy()


def _end_with_trainer(descriptor: int) -> None:
    """Ends this process once the other side is gone, also in the middle of a score."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    poll.poll()
    os._exit(0)


def check_declared(graph: ModelGraph, quantities: Sequence[str]) -> None:
    """Refuses a program that lacks a quantity which its task asks for; nothing else is taken for it.

    Args:
        graph: Of the program.
        quantities: Names that it must declare.

    Raises:
        ProgramFailure: `BAD_GRAPH`.
    """
    for name in quantities:
        if name not in graph.deterministics:
            raise ProgramFailure(
                FailureCategory.BAD_GRAPH, f'the program declares no pm.Deterministic("{name}", ...)'
            )


def serve(connection: Connection) -> None:
    """Answers until the other side closes the connection."""
    settings = json.loads(connection.recv_bytes())
    if settings["confined"]:
        confine_scorer(settings["memory_bytes"])
    elif settings["memory_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (settings["memory_bytes"], settings["memory_bytes"]))
    # not before: a thread is confined only if it comes after
    threading.Thread(target=_end_with_trainer, args=(connection.fileno(),), daemon=True).start()
    service = ScoringService(EngineSettings(**settings["engine"]), settings["cache_entries"])
    # what has been imported is not searched for garbage again and again
    gc.collect()
    gc.freeze()
    connection.send_bytes(b'{"ready":true}')
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, ConnectionError):
            return
        connection.send_bytes(json.dumps(service.answer(json.loads(request))).encode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(Connection(int(sys.argv[1])))
