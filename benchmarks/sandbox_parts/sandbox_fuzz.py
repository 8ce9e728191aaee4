"""Four fuzzers against the sandbox, each for some seconds; any crash, hang or effect is a finding.

`graph`: model graphs with random fields changed, through validation and canonical form. `result`: their bytes
changed, through the result protocol. `splice`: programs spliced from lines of the corpus, with canaries
around them. `calls`: random system calls with random arguments from inside, with canaries. The first two call
the trainer's side directly and are fast; `--coverage` has atheris guide them where it is installed.

Usage, in `benchmarks/`: `python -m sandbox_parts.sandbox_fuzz --corpus programs.json --seconds 1200` (for
each fuzzer).
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

from sandbox_parts.sandbox_canaries import Canaries, kernel_objects
from sandbox_parts.sandbox_corpus import TASK, Case, CorpusRunner, read_cases
from sandbox_parts.sandbox_forge import ATTACKS, NODES, graph

from synthstats_lightning.programs import canonicalise, parse_graph
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.sandbox.outcome import Outcome, interpret

LIMITS = SandboxLimits(cpu_seconds=1, wall_seconds=2.0)
ENDED = Outcome(0, False, False, False, 0.0, 0.0)
SLOW_SECONDS = 2.0
WORDS: list[Any] = [
    *(
        0,
        1,
        2,
        3,
        -1,
        8,
        10**6,
        10**12,
        2**63,
        0.0,
        -0.0,
        1.5,
        1e308,
        True,
        False,
        None,
        "",
        "x",
        "y",
        "int64",
    ),
    *("float64", "bool", "a", "__class__", [], {}, [0], [1, 2], [8], [-8], [10**6, 10**6], [[0.0] * 3] * 3),
    *OPERATIONS,
    *DISTRIBUTIONS,
]
KEYS = [
    "op",
    "inputs",
    "value",
    "dtype",
    "name",
    "shape",
    "distribution",
    "axis",
    "order",
    "index",
    "components",
]
KEYS += ["bounds"]

CALLS = """
import ctypes, random, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
dice = random.Random({seed})
memory = ctypes.create_string_buffer(b"@@CANARY@@/secret.txt", 4096)
address = ctypes.addressof(memory)
words = [0, 1, 2, 3, 4, 8, 64, 4096, os.getpid(), os.getppid(), @@VICTIM@@, address, address + 8, -1, -100]
words += [1 << n for n in range(64)]
# but these end or stop the process at once, or wait for ever
spared = {{60, 231, 15, 34, 35, 130, 9, 11, 12, 10, 25, 13, 14}}
for _ in range({count}):
    number = dice.choice([dice.randrange(470), dice.randrange(470), dice.randrange(1 << 32)])
    if number in spared:
        continue
    libc.syscall(ctypes.c_long(number), *(ctypes.c_long(dice.choice(words)) for _ in range(6)))
"""


def mutated(value: Any, dice: random.Random) -> Any:
    """JSON with one part replaced, removed, repeated or made of others."""
    choice = dice.random()
    if isinstance(value, dict) and value and choice < 0.8:
        result, key = dict(value), dice.choice(list(value))
        if choice < 0.1:
            del result[key]
        elif choice < 0.2:
            result[dice.choice(KEYS)] = dice.choice(WORDS)
        else:
            result[key] = mutated(value[key], dice)
        return result
    if isinstance(value, list) and value and choice < 0.85:
        items, place = list(value), dice.randrange(len(value))
        if choice < 0.1:
            items.insert(place, copy.deepcopy(dice.choice(items)))
        elif choice < 0.2:
            del items[place]
        elif choice < 0.3:
            items.append(_node(len(items), dice))
        else:
            items[place] = mutated(items[place], dice)
        return items
    return copy.deepcopy(dice.choice(WORDS))


def _node(count: int, dice: random.Random) -> dict[str, Any]:
    inputs = [dice.randrange(max(1, count)) for _ in range(dice.randrange(1, 4))]
    if dice.random() < 0.5:
        shape = dice.choice([[], [8], [2], [2, 2]])
        law = dice.choice(list(DISTRIBUTIONS))
        return {"op": "random", "distribution": law, "inputs": inputs, "name": f"n{count}", "shape": shape}
    node: dict[str, Any] = {"op": dice.choice(list(OPERATIONS)), "inputs": inputs}
    if dice.random() < 0.5:
        node[dice.choice(["axis", "shape", "order", "index"])] = dice.choice([0, [0], [8], [1, 0], -1])
    return node


def receive(document: bytes) -> str:
    """What the trainer's side and the scorer do with a result; the category of its failure, or `passed`."""
    try:
        canonicalise(parse_graph(interpret(ENDED, document, SandboxLimits()), TASK.schema))
    except ProgramFailure as failure:
        if not failure.message.isprintable():
            raise ValueError(f"a message that is not printable: {failure.message!r}") from failure
        return str(failure.category)
    return "passed"


def fuzz_graph(dice: random.Random) -> str:
    """One changed graph."""
    document: Any = {"format": 1, "nodes": NODES, "response": 3, "deterministics": [["d", 2]]}
    for _ in range(dice.randrange(1, 6)):
        document = mutated(document, dice)
    return receive(json.dumps(document).encode())


def fuzz_result(dice: random.Random) -> str:
    """One result with changed bytes."""
    start = dice.choice([graph(), *(text for _, text in ATTACKS.values() if len(text) < 3000)])
    content = bytearray(start.encode("utf-8", "surrogatepass"))
    for _ in range(dice.randrange(1, 9)):
        place = dice.randrange(len(content) + 1)
        match dice.randrange(4):
            case 0:
                content[place:place] = dice.choice(
                    [b"[", b"{", b'"', b"\\", b"0", b"e9", b",", b"\xff", b"\0"]
                )
            case 1:
                del content[place : place + dice.randrange(9)]
            case 2:
                content[place : place + 1] = bytes([dice.randrange(256)])
            case _:
                content[place:place] = content[: dice.randrange(len(content) + 1)]
    return receive(bytes(content))


def spliced(cases: list[Case], dice: random.Random) -> str:
    """A program of parts of several."""
    parts = []
    for _ in range(dice.randrange(2, 5)):
        lines = dice.choice(cases)["code"].splitlines()
        start = dice.randrange(len(lines))
        part = "\n".join(lines[start:]) if dice.random() < 0.5 else "\n".join(lines)
        parts.append(
            "try:\n" + "\n".join("    " + line for line in part.splitlines()) + "\nexcept Exception: pass"
        )
    return "\n".join(parts)


def run_direct(
    fuzz: Callable[[random.Random], str], seconds: float, seed: int
) -> tuple[Counter[str], list[str]]:
    """Outcomes and findings of a fuzzer that calls the trainer's side directly."""
    outcomes: Counter[str] = Counter()
    findings = []
    deadline, number = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        started = time.process_time()
        try:
            outcomes[fuzz(random.Random(f"{seed} {number}"))] += 1
        except Exception as error:  # whatever is not a ProgramFailure is a finding
            findings.append(f"{fuzz.__name__}({seed} {number}): {type(error).__name__}: {error}")
        if time.process_time() - started > SLOW_SECONDS:
            findings.append(f"{fuzz.__name__}({seed} {number}): slow")
        number += 1
    return outcomes, findings


def run_inside(
    source: Callable[[random.Random], str], seconds: float, seed: int
) -> tuple[Counter[str], list[str]]:
    """Outcomes and findings of a fuzzer whose programs run in the sandbox, with canaries around them."""
    outcomes: Counter[str] = Counter()
    canaries, before = Canaries(), kernel_objects()
    try:
        with Sandbox(LIMITS) as sandbox:
            runner = CorpusRunner(sandbox, canaries)
            cases: list[Case] = []
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                name = f"fuzz-{seed}-{len(cases)}"
                code = source(random.Random(f"{seed} {len(cases)}"))
                effect = {"kind": "none"}
                cases.append({"id": name, "code": code, "effect": effect, "scoring": False})
                report = runner.run(cases[-1:])
                outcomes["effect" if name in report.effects else "none"] += 1
            left = sum(max(0, count - before[kind]) for kind, count in kernel_objects().items())
            findings = [f"{name}: {seen}" for name, seen in runner.report.effects.items()]
            return outcomes, findings + ([f"{left} things left behind"] if left else [])
    finally:
        canaries.close()


def run_coverage(fuzz: Callable[[bytes], object], seconds: float) -> None:
    """Has atheris search for bytes that break the result's reader; it ends the process itself."""
    import atheris

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-max_total_time={int(seconds)}"], fuzz)
    atheris.Fuzz()


def main() -> None:
    """Runs the fuzzers."""
    parser = Options(description=__doc__)
    parser.add_argument("--corpus", required=True, help="the corpus's programs.json")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each fuzzer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=("graph", "result", "splice", "calls"), default=[])
    parser.add_argument("--coverage", action="store_true", help="search for results with atheris instead")
    parser.add_argument("--json", type=figures_file, help="write outcomes and findings to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.coverage:
        run_coverage(receive, options.seconds)
        return
    cases = [case for case in read_cases(Path(options.corpus)) if case["effect"]["kind"] != "dos"]
    cases += read_cases(Path(__file__).parent / "sandbox_parts" / "sandbox_cases.json")
    fuzzers: dict[str, Callable[[], tuple[Counter[str], list[str]]]] = {
        "graph": lambda: run_direct(fuzz_graph, options.seconds, options.seed),
        "result": lambda: run_direct(fuzz_result, options.seconds, options.seed),
        "splice": lambda: run_inside(lambda dice: spliced(cases, dice), options.seconds, options.seed),
        "calls": lambda: run_inside(
            lambda dice: CALLS.format(seed=dice.randrange(1 << 30), count=4000), options.seconds, options.seed
        ),
    }
    found = {}
    for name, fuzzer in fuzzers.items():
        if not options.only or name in options.only:
            outcomes, findings = fuzzer()
            found[name] = {"outcomes": dict(outcomes), "findings": findings}
            print(name, dict(outcomes), *findings[:20], sep="\n  ")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if any(part["findings"] for part in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
