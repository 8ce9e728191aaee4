"""Cost of a large replay buffer: drawing a batch after new programs came in, and saving it.

    python benchmarks/replay.py --json replay.json

Programs of 60 to 250 tokens over two tasks, a tenth of them failed, in 2,000 structures. A batch of 64 is
drawn from all four sources right after a round of 48 new programs, so that ranks and shares have to be
computed anew: the worst case of training. 30 ms are 3 % of a step of the tiny policy. Saving is `state_dict`
and `torch.save` to a file. One thread, medians; of drawing and adding, processor time.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from figures_file import Options, figures_file
from rich.console import Console
from rich.table import Table

from synthstats_lightning.replay import ReplayBuffer, Trajectory

BATCH, ROUND, STRUCTURES = 64, 48, 2_000
TARGETS = {"sample_ms": "at most 30", "save_s": "at most 2", "entries": "100000"}


def trajectories(number: int, generator: np.random.Generator) -> list[Trajectory]:
    """Programs as a run would have them."""
    lengths = generator.integers(60, 251, number)
    failed = generator.random(number) < 0.1
    structures = generator.geometric(3 / STRUCTURES, number) % STRUCTURES
    rewards = np.where(failed, -25.0, generator.normal(0, 10, number)).tolist()
    return [
        Trajectory(
            task_index=int(generator.integers(2)),
            program_ids=tuple(generator.integers(2048, size=lengths[i]).tolist()),
            log_reward=rewards[i],
            reference_log_prob=-40.0,
            log_prob=-39.0,
            parts=(-np.inf if failed[i] else rewards[i], 0.0, 0.0, 0.0),
            canonical="" if failed[i] else f"{generator.integers(2**62):032x}",
            structure="" if failed[i] else f"{structures[i]:032x}",
            step=i // ROUND,
        )
        for i in range(number)
    ]


def figures(entries: int, repeats: int) -> dict[str, float]:
    """Every figure, by name, and times that are only printed."""
    generator = np.random.default_rng(0)
    buffer = ReplayBuffer(capacity=entries, replay_fraction=0.4, structure_fraction=0.2, uniform_fraction=0.1)
    for task in range(2):
        buffer.register_prompt(task, range(200))
    for item in trajectories(entries, generator):
        buffer.add(item)
    buffer.sample(BATCH, generator)
    sampling, again, adding = [], [], []
    for _ in range(repeats):
        fresh = trajectories(ROUND, generator)
        times = [time.process_time()]
        for item in fresh:
            buffer.add(item)
        times.append(time.process_time())
        buffer.sample(BATCH, generator)
        times.append(time.process_time())
        buffer.sample(BATCH, generator)
        times.append(time.process_time())
        for kept, start, end in zip((adding, sampling, again), times, times[1:], strict=False):
            kept.append(1e3 * (end - start))
    saving = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            start = time.perf_counter()
            torch.save(buffer.state_dict(), Path(folder) / "buffer.pt")
            saving.append(time.perf_counter() - start)
        start = time.perf_counter()
        restored = ReplayBuffer(capacity=entries)
        restored.load_state_dict(torch.load(Path(folder) / "buffer.pt", weights_only=True))
        loading = time.perf_counter() - start
    if len(restored) != len(buffer):
        raise RuntimeError(f"{len(buffer)} programs were saved and {len(restored)} came back")
    return {
        "sample_ms": statistics.median(sampling),
        "save_s": statistics.median(saving),
        "entries": len(buffer),
        "sample again (ms)": statistics.median(again),
        f"add {ROUND} programs to the full buffer (ms)": statistics.median(adding),
        "load (s)": loading,
    }


def main() -> None:
    """Prints a table and writes JSON."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--entries", type=int, default=100_000, help="programs in the buffer")
    parser.add_argument("--repeats", type=int, default=50, help="batches that are timed")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measured = figures(arguments.entries, arguments.repeats)
    table = Table(title="Replay buffer")
    for column in ("figure", "measured", "target"):
        table.add_column(column)
    for name, value in measured.items():
        table.add_row(name, f"{value:.3g}" if isinstance(value, float) else str(value), TARGETS.get(name, ""))
    Console().print(table)
    if arguments.json:
        kept = {name: measured[name] for name in TARGETS}
        arguments.json.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
