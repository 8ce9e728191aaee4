"""The served scorer under load: many clients at once, a tenth of their programs hostile.

    python benchmarks/serving.py --json serving.json --folder ../shared/corpus

Starts `synthstats-lightning serve` and asks it from 64 threads for some minutes: for programs of the grammar
that the bundled policy learned, half of them asked for before, and, for a tenth, for the hostile programs of
`programs.json` in a folder (see `benchmarks/sandbox.py`), by default those of `sandbox_parts`. Afterwards
honest programs are scored again in a pool of this process, and every bit of what was served is compared.

JSON: `{requests, p50_ms, p95_ms, errors, wrong, leak, refused, largest_queue, ...}`. Latencies are those of
requests that were answered with a score; a request beyond the bound is answered at once with status 429, is
`refused`, and is made again after the pause that the server asks for. `wrong` counts programs whose answers
differ from one another, or from the pool's own; `leak` hostile programs that reached a canary, or scored half
a nat above the honest program of their data.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from figures_file import Options, figures_file
from load import draw_programs
from rich.console import Console
from rich.table import Table
from sandbox_parts.sandbox_canaries import TOKENS, Canaries
from sandbox_parts.sandbox_corpus import HONEST, TASK, read_cases

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.serving.remote_scorer import RemoteScorer, task_fields
from synthstats_lightning.tasks import Task

OWN_CASES = Path(__file__).parent / "sandbox_parts" / "sandbox_cases.json"
BENIGN = {"benign", "none"}
"""Kinds of cases that are no attack."""
GAIN = 0.5
"""Nats above the honest program's score that count as gained."""
LATE_SECONDS = 5.0
"""Late effects are waited for so long."""
LONGEST_PAUSE = 5.0
TARGETS = {"errors": 0, "wrong": 0, "leak": 0}


@dataclass
class Served:
    """What clients have seen.

    Attributes:
        latencies: Seconds of each request that was answered with a score.
        waits: The same from the first attempt on, with pauses after refusals.
        refused: Requests beyond the bound.
        errors: Anything else that was no score, by what it was.
        answers: Honest programs with what was served, without times.
        hostile: Hostile programs asked for, by their cases.
        leaks: Hostile programs that got something, with what.
        largest_queue: Most programs that the server said to have taken on.
    """

    latencies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    refused: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    answers: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    hostile: Counter[str] = field(default_factory=Counter)
    leaks: Counter[str] = field(default_factory=Counter)
    largest_queue: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Figures:
    """What came of it.

    Attributes:
        requests: Requests that were answered with a score, or the reason why there is none.
        p50_ms: Median latency of them, in milliseconds.
        p95_ms: 95 % of them took at most so long, in milliseconds.
        p95_with_pauses_ms: The same from the first attempt on, with pauses after refusals.
        refused: Requests beyond the bound, answered with status 429.
        errors: Requests that were answered otherwise, or not at all.
        wrong: Programs whose answers differ from one another, or from the pool's own.
        checked: Honest programs that were scored again.
        leak: Hostile programs that reached a canary or gained.
        hostile: Requests with hostile programs.
        cases: Different hostile programs.
        largest_queue: Most programs taken on at once; the bound is `queue`.
        queue: Bound of programs.
        clients: Clients at once.
        minutes: How long they asked.
        load: The machine's load average of five minutes at the end.
    """

    requests: int
    p50_ms: float
    p95_ms: float
    p95_with_pauses_ms: float
    refused: int
    errors: int
    wrong: int
    checked: int
    leak: int
    hostile: int
    cases: int
    largest_queue: int
    queue: int
    clients: int
    minutes: float
    load: float


@contextmanager
def server(workers: int, queue: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A served scorer in a process of its own: its address, and the process."""
    options = ["--port=0", f"--num_workers={workers}", f"--queue={queue}", "--timeout_s=600"]
    process = subprocess.Popen(
        [sys.executable, "-m", "synthstats_lightning", "serve", *options], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        if not line.startswith("serving scores at "):
            raise RuntimeError(f"the server does not start: {line}")
        yield line.split()[-1], process
        process.terminate()
        if process.wait(60) != 0:
            raise RuntimeError(f"the server ended with {process.returncode}: {process.stderr.read()}")
    finally:
        process.kill()
        process.wait()


class Client:
    """One client: asks again and again until the time is over."""

    def __init__(self, url: str, work: Work, served: Served, number: int) -> None:
        self.address = url.removeprefix("http://")
        self.work, self.served, self.random = work, served, Random(number)
        self.connection: http.client.HTTPConnection | None = None

    def run(self, until: float) -> None:
        """Asks until a time on the clock of `time.monotonic`."""
        while time.monotonic() < until:
            self._one(until)
        if self.connection is not None:
            self.connection.close()

    def _one(self, until: float) -> None:
        case, source, task, body = self.work.draw(self.random)
        first = time.perf_counter()
        while True:
            began = time.perf_counter()
            try:
                status, after, content = self._ask(body)
            except (OSError, http.client.HTTPException) as error:
                self._count(type(error).__name__)
                return
            if status != 429:
                break
            with self.served.lock:
                self.served.refused += 1
            if time.monotonic() >= until:
                return
            time.sleep(min(after, LONGEST_PAUSE) * self.random.uniform(0.5, 1.0))
        if status != 200:
            self._count(f"status {status}")
            return
        now = time.perf_counter()
        with self.served.lock:
            self.served.latencies.append(now - began)
            self.served.waits.append(now - first)
            if case is not None:
                self.served.hostile[case["id"]] += 1
        if case is not None:
            self._judge(case, content)
            return
        found = json.loads(content)
        found.pop("seconds")
        with self.served.lock:
            seen = self.served.answers.setdefault((source, task.name), [])
            if not any(without_times(found) == other for other in seen):
                seen.append(without_times(found))

    def _judge(self, case: dict[str, Any], content: bytes) -> None:
        named = f"CANARY-{case['effect'].get('token')}-OK"
        leaked = [token for token in (*TOKENS.values(), named) if token.encode() in content]
        evidence = json.loads(content)["evidence"]
        if leaked or (evidence is not None and evidence > self.work.honest + GAIN):
            with self.served.lock:
                self.served.leaks[f"{case['id']}: {leaked or evidence}"] += 1

    def _count(self, what: str) -> None:
        self.connection = None
        with self.served.lock:
            self.served.errors[what] += 1

    def _ask(self, body: bytes) -> tuple[int, float, bytes]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address, timeout=660)
        self.connection.request("POST", "/score", body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, float(response.headers.get("Retry-After", 0)), response.read()


class Work:
    """What clients ask for: honest programs, new ones and known ones, and a share of hostile ones."""

    def __init__(self, cases: list[dict[str, Any]], canaries: Canaries, share: float, honest: float) -> None:
        self.cases, self.canaries, self.share, self.honest = cases, canaries, share, honest
        self.programs: list[tuple[str, Task]] = []
        self._new = iter(self._drawn())
        self._asked = self._hostile = 0
        self._lock = threading.Lock()
        self._corpus = task_fields(TASK)

    def draw(self, random: Random) -> tuple[dict[str, Any] | None, str, Task, bytes]:
        """A case where it is hostile, the source, its task and the request's body."""
        with self._lock:
            self._asked += 1
            if self._hostile < self.share * self._asked:
                case = self.cases[self._hostile % len(self.cases)]
                self._hostile += 1
                # a program of its own each time: no score of it is known
                source = f"{self.canaries.fill(case['code'], case['id'])}\n# {self._hostile}\n"
                return case, source, TASK, _body(source, self._corpus)
            if self.programs and random.random() < 0.5:
                source, task = random.choice(self.programs)
            else:
                source, task = next(self._new)
                self.programs.append((source, task))
        return None, source, task, _body(source, task.name)

    def _drawn(self) -> Iterator[tuple[str, Task]]:
        for seed in range(10**6):
            yield from draw_programs(200, seed)


def _body(source: str, task: Any) -> bytes:
    return json.dumps({"task": task, "program": source}).encode()


def without_times(fields: dict[str, Any]) -> dict[str, Any]:
    """A served score without what differs from time to time."""
    diagnostics = {name: {**each, "seconds": 0.0} for name, each in fields.get("diagnostics", {}).items()}
    return {**fields, "diagnostics": diagnostics}


def watch(url: str, served: Served, canaries: Canaries, ended: threading.Event) -> None:
    """Looks at the queue and at the canaries until the end."""
    address = url.removeprefix("http://")
    while not ended.wait(0.5):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            connection = http.client.HTTPConnection(address, timeout=60)
            connection.request("GET", "/health")
            served.largest_queue = max(
                served.largest_queue, json.loads(connection.getresponse().read())["queue"]
            )
            connection.close()
        look(canaries, served)


def look(canaries: Canaries, served: Served) -> None:
    """Counts what programs did to the canaries."""
    for what in canaries.tampered() + canaries.dropped():
        served.leaks[f"changed {what}"] += 1
    if canaries.reached():
        served.leaks["reached a listener"] += 1
    if canaries.hurt():
        served.leaks["changed another process"] += 1


def count_wrong(
    served: Served, programs: list[tuple[str, Task]], workers: int, checked: int
) -> tuple[int, int]:
    """Programs that were served wrong, and how many were scored again."""
    wrong = {key for key, answers in served.answers.items() if len(answers) > 1}
    again = [item for item in programs if (item[0], item[1].name) in served.answers][:checked]
    with ProgramScorer(workers) as pool:
        pool.start()
        for (source, task), future in [(item, pool.submit(*item)) for item in again]:
            own = served.answers[source, task.name][0]
            theirs = Score.from_dict(
                {key: value for key, value in own.items() if key not in ("task", "fingerprint")}
            )
            ours = replace(future.result(), seconds=0.0)
            if replace(theirs, seconds=0.0) != ours and ours.settled and theirs.settled:
                wrong.add((source, task.name))
    return len(wrong), len(again)


def main() -> None:
    """Prints the figures, and writes them where asked."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument(
        "--queue", type=int, default=48, help="bound of programs; below the clients, some are refused"
    )
    parser.add_argument("--hostile", type=float, default=0.1, help="share of hostile programs")
    parser.add_argument("--folder", type=Path, help="folder with the hostile programs, programs.json")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--checked", type=int, default=300, help="honest programs that are scored again")
    options = parser.parse_args()
    console = Console(soft_wrap=True)
    path = OWN_CASES if options.folder is None else options.folder / "programs.json"
    cases = [case for case in read_cases(path) if case["effect"]["kind"] not in BENIGN]
    canaries, served, ended = Canaries(), Served(), threading.Event()
    try:
        with server(options.workers, options.queue) as (url, process):
            with RemoteScorer(url) as remote:
                honest = remote.score(HONEST, TASK).evidence
            assert honest is not None
            work = Work(cases, canaries, options.hostile, honest)
            until = time.monotonic() + 60 * options.minutes
            clients = [Client(url, work, served, number) for number in range(options.clients)]
            threads = [threading.Thread(target=client.run, args=(until,)) for client in clients]
            watcher = threading.Thread(target=watch, args=(url, served, canaries, ended))
            for thread in (*threads, watcher):
                thread.start()
            for thread in threads:
                thread.join()
            ended.set()
            watcher.join()
            if process.poll() is not None:
                served.errors["the server died"] += 1
            time.sleep(LATE_SECONDS)
            look(canaries, served)
            load = os.getloadavg()[1]
        wrong, checked = count_wrong(served, work.programs, options.workers, options.checked)
    finally:
        canaries.close()
    p50, p95, p95_waits = (
        1000 * float(np.quantile(values, level))
        for values, level in ((served.latencies, 0.5), (served.latencies, 0.95), (served.waits, 0.95))
    )
    figures = Figures(
        requests=len(served.latencies),
        p50_ms=p50,
        p95_ms=p95,
        p95_with_pauses_ms=p95_waits,
        refused=served.refused,
        errors=served.errors.total(),
        wrong=wrong,
        checked=checked,
        leak=len(served.leaks),
        hostile=served.hostile.total(),
        cases=len(served.hostile),
        largest_queue=served.largest_queue,
        queue=options.queue,
        clients=options.clients,
        minutes=options.minutes,
        load=load,
    )
    table = Table("figure", "value", "target", title="The served scorer")
    for name, value in asdict(figures).items():
        table.add_row(name, f"{value:g}", str(TARGETS.get(name, "")))
    console.print(table)
    for what, count in (served.errors + served.leaks).most_common(20):
        console.print(f"{count} times: {what}", markup=False)
    if options.json:
        options.json.write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
