"""Sampled-and-trained tokens per second against TRL's GRPOTrainer, and peak memory against a log-softmax.

    pip install "trl==1.16.*"
    python benchmarks/throughput.py --json throughput.json

Both train the same adapter on the same model from the same prompts with as many programs of the same length,
one gradient step a batch, all rewards equal; blocks of steps alternate in one process, and figures are
medians over all steps but each block's first. Ours also computes the reference policy's log-probabilities,
which TRL without a KL term does not. Memory is the peak of a process of its own beyond model and inputs: of
resident pages on a CPU, of PyTorch's allocator on a GPU.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from figures_file import Options, figures_file
from learning_parts.throughput_models import SHAPES
from learning_parts.throughput_step import PARTS, TASKS, OurRun
from rich.console import Console
from rich.table import Table

from synthstats_lightning.policy import ModelSettings

TARGETS = {"ratio": "at least 1.5", "memory_ratio": "at most 0.333"}
MEMORY_MODEL = "wide"


def alternate(arguments: argparse.Namespace) -> tuple[OurRun, list[dict[str, float]], list[float], int]:
    """Blocks of steps of both by turns; ours alone with `--without-trl`."""
    settings = ModelSettings(
        micro_batch_tokens=arguments.micro_batch_tokens,
        compile=arguments.compile,
        gradient_checkpointing=arguments.gradient_checkpointing,
    )
    work = (arguments.model, arguments.prompts, arguments.group, arguments.length, arguments.device)
    ours = OurRun(*work, settings)
    trl: Any = None
    if not arguments.without_trl:
        from learning_parts.throughput_trl import TrlRun

        trl = TrlRun(*work)
        if [tuple(ids) for ids in trl.prompt_ids] != list(ours.prompt_ids.values()):
            raise RuntimeError("the prompts of both sides differ")
    own_steps: list[dict[str, float]] = []
    trl_steps: list[float] = []
    peak = 0
    for block in range(arguments.blocks):
        own_steps += ours.steps(arguments.steps)
        if arguments.device == "cuda" and not block:
            peak = torch.cuda.max_memory_allocated()  # TRL's model is not there yet
        if trl is not None:
            trl_steps += trl.steps(arguments.steps)
        print(f"block {block + 1} of {arguments.blocks}", file=sys.stderr)
    return ours, own_steps, trl_steps, peak


def memory(form: str, device: str) -> dict[str, Any]:
    """Peak of one form of the training pass, in a process that does nothing else."""
    script = [sys.executable, "-m", "learning_parts.throughput_memory"]
    command = [*script, form, "--model", MEMORY_MODEL, "--device", device]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measures, prints and writes."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--model", default="tiny", choices=sorted(SHAPES), help="shape of the model")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--prompts", type=int, default=1, choices=range(1, len(TASKS) + 1))
    parser.add_argument("--group", type=int, default=32, help="programs a prompt and step")
    parser.add_argument("--length", type=int, default=128, help="tokens a program")
    parser.add_argument("--steps", type=int, default=4, help="steps a block")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of each side")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch on the CPU")
    parser.add_argument("--micro-batch-tokens", type=int, help="see ModelSettings")
    parser.add_argument("--compile", action="store_true", help="compile our log-probabilities")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--without-trl", action="store_true", help="time ours alone")
    parser.add_argument("--without-memory", action="store_true", help="no passes for peak memory")
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="of the GPU, dense bfloat16")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    ours, own_steps, trl_steps, peak = alternate(arguments)
    seconds = statistics.median(sum(step.values()) for step in own_steps)
    figures: dict[str, float | None] = {
        "tokens_per_second": ours.tokens_per_step / seconds,
        "trl_tokens_per_second": None,
        "ratio": None,
        "memory_ratio": None,
    }
    if trl_steps:
        theirs = ours.tokens_per_step / statistics.median(trl_steps)
        figures |= {"trl_tokens_per_second": theirs, "ratio": ours.tokens_per_step / seconds / theirs}
    notes = []
    if not arguments.without_memory:
        peaks = {form: memory(form, arguments.device) for form in ("naive", "ours", "micro-batches")}
        figures["memory_ratio"] = peaks["ours"]["bytes"] / peaks["naive"]["bytes"]
        notes.append(
            f"peak memory of a pass at V = {SHAPES[MEMORY_MODEL].vocabulary}: "
            + ", ".join(f"{form} {value['bytes'] / 2**20:.0f} MiB" for form, value in peaks.items())
        )
    shares = {part: statistics.median(step.get(part, 0.0) for step in own_steps) for part in PARTS}
    notes.append(
        f"a step of {ours.tokens_per_step} tokens takes {1e3 * seconds:.0f} ms: "
        + ", ".join(f"{part} {value / seconds:.0%}" for part, value in shares.items())
    )
    if arguments.device == "cuda":
        training = shares["log-probs"] + shares["backward"]
        share = ours.training_flops(arguments.model) / training / (1e12 * arguments.peak_tflops)
        notes.append(f"peak memory {peak / 2**30:.1f} GiB; model FLOP utilisation of training {share:.1%}")
    table = Table(
        title=f"{arguments.model} on {arguments.device}: {arguments.prompts} x {arguments.group} programs of"
        f" {arguments.length} tokens"
    )
    for column in ("figure", "measured", "target"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name, value in figures.items():
        table.add_row(name, "not measured" if value is None else f"{value:.3g}", TARGETS.get(name, ""))
    console = Console()
    console.print(table)
    for note in notes:
        console.print(note)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
