"""Programs that inference servers write, with log-probabilities that this process computes."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Int
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch import Tensor

from synthstats_lightning.policy.forced import forced_token_log_probs
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.policy.memory_plan.decoder import Decoder
from synthstats_lightning.policy.sampling import Decoded, RowRandomness, SamplingSettings, row_temperatures
from synthstats_lightning.rollouts.adapter_versions import AdapterVersions
from synthstats_lightning.rollouts.completions import Completion, CompletionRequest
from synthstats_lightning.rollouts.dialects import LogProbsMode
from synthstats_lightning.rollouts.errors import RefusedError, RolloutError
from synthstats_lightning.rollouts.request_threads import RequestThreads
from synthstats_lightning.rollouts.rollout_counts import RolloutCounts
from synthstats_lightning.rollouts.transport import Transport

T = TypeVar("T")

MOST_PROGRAMS = 64
"""Of one request."""
SEED_SPACING = 1 << 16
"""Between the seeds of two requests of a round: each program of a request has the next seed."""
SEED_BITS = 61
REQUESTS_AT_ONCE = 64
RECENT_ROUNDS = 16
"""Rounds that are remembered, to see which will be asked for again; suffixes, of which none is, are some."""
POLL_SECONDS = 1.0
TELL_SECONDS = 5.0
"""For which a server is away before the run says so."""
RELOADS = 3
"""How often a request has its adapter loaded again, on a server that has lost it."""


class Answer(NamedTuple):
    """What came of a request.

    Attributes:
        programs: What was written, in the order of the seeds.
        step: Training step of the weights that wrote them.
        done: When they were there, on the clock of `time.perf_counter`.
    """

    programs: list[Completion]
    step: int
    done: float


class ServedRound(NamedTuple):
    """Programs that are under way.

    Attributes:
        prompts: Token ids of the prompts, each of them once.
        row_prompt: Which prompt each row continues.
        settings: How they are drawn.
        rows: The rows of each request.
        answers: What comes of each request.
        started: When they were asked for, on the clock of `time.perf_counter`.
    """

    prompts: list[tuple[int, ...]]
    row_prompt: Int[Tensor, " batch"]
    settings: SamplingSettings
    rows: list[list[int]]
    answers: list[Future[Answer]]
    started: float


class ServerBackend:
    """Has inference servers that hold the same weights write programs.

    One request a prompt and `MOST_PROGRAMS` programs, dealt over the servers in turn; where every program has
    a temperature of its own, one request a program. What the loss sees is computed here, from the token ids
    that come back. A sampling probability is known where the server's log-probabilities are those of what it
    drew from.

    Where rounds overlap, a round as large as one before it, of the same prompts, has the next one asked for
    at once, which is written while the trainer learns.

    Args:
        connections: The servers that programs are asked of.
        versions: What adapter requests name.
        mode: What the servers' log-probabilities are those of.

    Attributes:
        counts: What the servers have done since the last log.
        current_step: The training step, from which ages are counted.
        overlap: Whether rounds do.
        same_weights: Whether the published adapter is that of the policy at present.
        between: Called while answers are waited for; it may raise.
    """

    def __init__(
        self, connections: Sequence[Transport], versions: AdapterVersions, mode: LogProbsMode = "raw"
    ) -> None:
        self.connections = list(connections)
        self.versions = versions
        self.mode = mode
        self.counts = RolloutCounts()
        self.current_step = 0
        self.same_weights = False
        self.overlap = False
        self.between: Callable[[], None] = lambda: None
        self.threads = RequestThreads(REQUESTS_AT_ONCE)
        self._turn = itertools.cycle(self.connections)
        self._told = False
        self._recent: deque[Hashable] = deque(maxlen=RECENT_ROUNDS)
        self._ahead: dict[Hashable, ServedRound] = {}

    def drawing(self, policy: Decoder) -> AbstractContextManager[None]:
        """Nothing: another process holds the weights.

        Args:
            policy: The policy, whose weights the servers have.
        """
        return nullcontext()

    def decode(
        self,
        policy: Decoder,
        prompts: Sequence[Sequence[int]],
        row_prompt: Int[Tensor, " batch"],
        settings: SamplingSettings,
        generator: torch.Generator,
        randomness: RowRandomness | None = None,
    ) -> Decoded:
        """Draws one program a row, and waits for all of them.

        Args:
            policy: The policy, in eval mode.
            prompts: Token ids of the prompts, each of them once.
            row_prompt: Which prompt each row continues.
            settings: Temperature, `top_p` and length limits of sampling.
            generator: Source of the requests' seeds.
            randomness: Of which only the temperatures are used.

        Raises:
            ValueError: If `settings.epsilon` is not 0.
            RolloutError: If a server refuses, is away for too long, or breaks what it was asked for.
        """
        if randomness is not None or not self.overlap:
            temperatures = None if randomness is None else randomness.temperatures
            return self.finish(
                policy, self.begin(policy, prompts, row_prompt, settings, generator, temperatures)
            )
        limits = settings.max_new_tokens, settings.min_new_tokens
        key: Hashable = (tuple(tuple(map(int, prompt)) for prompt in prompts), len(row_prompt), limits)
        served = self._ahead.pop(key, None)
        if served is None:
            served = self.begin(policy, prompts, row_prompt, settings, generator)
        again = key in self._recent
        if again:
            self._recent.remove(key)
        self._recent.append(key)
        decoded = self.finish(policy, served)
        if again:
            self._ahead[key] = self.begin(policy, prompts, row_prompt, settings, generator)
        return decoded

    def begin(
        self,
        policy: Decoder,
        prompts: Sequence[Sequence[int]],
        row_prompt: Int[Tensor, " batch"],
        settings: SamplingSettings,
        generator: torch.Generator,
        temperatures: Tensor | None = None,
    ) -> ServedRound:
        """Asks for one program a row and returns at once; see `decode`."""
        check_settings(settings)
        if temperatures is None:
            temperatures = row_temperatures(settings, len(row_prompt), generator)
        seed = int(torch.randint(1 << SEED_BITS, (1,), generator=generator))
        by_prompt: dict[int, list[int]] = {}
        for row, place in enumerate(row_prompt.tolist()):
            by_prompt.setdefault(place, []).append(row)
        size = MOST_PROGRAMS if temperatures is None else 1
        rows = [own[start : start + size] for own in by_prompt.values() for start in range(0, len(own), size)]
        given = [tuple(map(int, prompt)) for prompt in prompts]
        places = row_prompt.tolist()
        answers = []
        for number, own in enumerate(rows):
            request = CompletionRequest(
                given[places[own[0]]],
                len(own),
                seed + number * SEED_SPACING,
                settings.max_new_tokens,
                settings.min_new_tokens,
                settings.temperature if temperatures is None else float(temperatures[own[0]]),
                settings.top_p,
                tuple(policy.stop_token_ids),
                policy.stop_strings.strings,
                int(policy.text_config.vocab_size),
            )
            answers.append(self.threads.submit(_served(self.versions, next(self._turn), request)))
        return ServedRound(given, row_prompt, settings, rows, answers, time.perf_counter())

    def finish(self, policy: Decoder, served: ServedRound) -> Decoded:
        """Waits for the programs of a round and computes their log-probabilities.

        Args:
            policy: The policy as it is now, in eval mode.
            served: What `begin` returned.

        Raises:
            RolloutError: If a server refuses, is away for too long, or breaks what it was asked for.
        """
        found = self.wait(served.answers)
        programs: list[Completion] = [Completion((), False, ())] * len(served.row_prompt)
        steps = [0] * len(programs)
        for own, answer in zip(served.rows, found, strict=True):
            for row, completion in zip(own, answer.programs, strict=True):
                programs[row], steps[row] = completion, answer.step
        ids, mask = pad_right([each.ids for each in programs], policy.pad_token_id, policy.device)
        stopped = torch.tensor([each.stopped for each in programs], device=policy.device)
        settings = served.settings
        log_probs = forced_token_log_probs(
            policy, served.prompts, served.row_prompt, ids, mask, settings.min_new_tokens
        )
        server = _padded([each.log_probs for each in programs], log_probs)
        self.counts.tokens += int(mask.sum())
        self.counts.seconds += max(answer.done for answer in found) - served.started
        self.counts.programs += len(programs)
        weights_step = torch.tensor(steps, device=policy.device)
        self.counts.age += int((self.current_step - weights_step).sum())
        if self.same_weights:
            self._compare(log_probs, server, mask & (weights_step == self.current_step)[:, None], settings)
        proposal = server.sum(1) if self._tells_proposal(settings) else None
        return Decoded(ids, mask, log_probs.sum(1), stopped, log_probs, proposal, weights_step)

    def wait(self, futures: Iterable[Future[T]]) -> list[T]:
        """The results of calls beside the trainer; meanwhile it says which server is away.

        Args:
            futures: What `threads` has made of the calls.

        Raises:
            RolloutError: As the calls do.
        """
        futures = list(futures)
        started = time.perf_counter()
        pending: set[Future[Any]] = set(futures)
        try:
            while pending:
                done, pending = wait(pending, POLL_SECONDS)
                for future in done:
                    future.result()
                self._tell()
                if pending:
                    self.between()
        except BaseException:
            for future in pending:
                future.cancel()
            raise
        finally:
            self.counts.waiting_seconds += time.perf_counter() - started
        return [future.result() for future in futures]

    def called(self, call: Callable[[], T]) -> T:
        """What a call beside the trainer returns; see `wait`.

        Args:
            call: It asks a server.
        """
        return self.wait([self.threads.submit(call)])[0]

    def take_counts(self) -> RolloutCounts:
        """What the servers have done since the last call."""
        counts, self.counts = self.counts, RolloutCounts()
        for connection in self.connections:
            counts.failed += connection.failed
            connection.failed = 0
        return counts

    def close(self) -> None:
        """Ends what waits for servers."""
        for connection in self.connections:
            connection.close()
        self.threads.close()

    def _tells_proposal(self, settings: SamplingSettings) -> bool:
        """Whether the servers' log-probabilities are those of what programs are drawn from."""
        if self.mode == "processed":
            return True
        plain = self.mode == "tempered" or (settings.temperature == 1 and settings.temperature_high is None)
        return plain and settings.top_p == 1 and settings.min_new_tokens == 0

    def _compare(self, own: Tensor, server: Tensor, mask: Tensor, settings: SamplingSettings) -> None:
        """How far the servers are from the trainer, where both are of the same distribution and weights."""
        plain = settings.temperature == 1 and settings.temperature_high is None and settings.top_p == 1
        if self.mode != "raw" and not plain:
            return
        compared = mask.clone()
        if self.mode != "processed":  # these know nothing of a least length
            compared[:, : settings.min_new_tokens] = False
        self.counts.gap += float((own - server)[compared].abs().sum())
        self.counts.compared += int(compared.sum())

    def _tell(self) -> None:
        away = [each for each in self.connections if each.trouble]
        long = [each for each in away if time.monotonic() - each.away_since >= TELL_SECONDS]
        if long and not self._told:
            self._told = True
            rank_zero_warn(
                f"the inference server is away: {long[0].trouble}; waiting for it,"
                f" {long[0].patience_s:g} s at most"
            )
        if self._told and not away:
            self._told = False
            rank_zero_info("the inference server is back")


def check_settings(settings: SamplingSettings | None) -> None:
    """Refuses what a server cannot do.

    Args:
        settings: How programs are drawn.

    Raises:
        ValueError: If `epsilon` is not 0.
    """
    if settings is not None and settings.epsilon > 0:
        raise ValueError(
            f"epsilon must be 0 where a server samples, got {settings.epsilon}: it mixes nothing in"
        )


def _served(
    versions: AdapterVersions, connection: Transport, request: CompletionRequest
) -> Callable[[], Answer]:
    """A call that has a server write the programs of a request, under the adapter that is present then."""
    dialect = connection.dialect

    def call() -> Answer:
        reason = "it broke the programs off"
        for _ in range(RELOADS):
            with versions.requested() as version:
                try:
                    answer = connection.ask_patiently(dialect.path, dialect.body(request, version.name, True))
                except RefusedError as error:
                    if not dialect.lost(error):
                        raise
                    reason = str(error)
                    versions.reload(connection)  # it was started anew
                    continue
            found = dialect.read(answer, request)
            if found is not None:
                return Answer(found, version.step, time.perf_counter())
        raise RolloutError(f"{connection.url}: no programs, {RELOADS} times in a row: {reason}")

    return call


def _padded(rows: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    """Numbers of each row, 0 behind them, as wide as another tensor."""
    values = [[*row, *[0.0] * (like.shape[1] - len(row))] for row in rows]
    return torch.tensor(values, dtype=like.dtype, device=like.device)
