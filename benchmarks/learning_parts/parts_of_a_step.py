"""What our own products are worth: a whole training step with and without each part, by processor time.

    cd benchmarks && python -m learning_parts.parts_of_a_step --json parts.json

Sampling, the reference's log-probabilities, loss, gradient and optimiser; scores are given. Variants take
turns every 30 ms in threads of one process, one thread of PyTorch each, so that what else the machine does
slows all alike; medians over rounds. `tiny` is measured at the quickstart's settings; `qwen3-layers`, four
layers of Qwen3-0.6B, with 8 programs of 32 tokens a round. A ratio is the time without the part by the time
with it: a part that stays is worth 1.03 or more in one of the models. Which weights oneDNN multiplies follows
from the processor; where it is none, all ratios are 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from unittest.mock import patch

import torch
from figures_file import Options, figures_file
from learning_parts.turns import Turns
from learning_parts.whole_step import PROGRAMS, TOKENS, WholeStep, ratio
from rich.console import Console
from rich.table import Table

from synthstats_lightning.objectives import TrajectoryBalance
from synthstats_lightning.policy import fused_lora, products

SIZES = {"tiny": (PROGRAMS, TOKENS), "qwen3-layers": (8, 32)}
"""Programs of a sampling round and most tokens of one, by model."""
WITHOUT = {"one_dnn": "products by oneDNN", "layout": "oneDNN's layout of weights"}
EVERYTHING = "everything"


def ratios(model: str, rounds: int) -> dict[str, float]:
    """Time without each part by the time with it."""
    work: dict[str, Callable[[int], None]] = {}
    turns = Turns(work)
    for name in (EVERYTHING, *WITHOUT):
        work[name] = WholeStep(TrajectoryBalance(), model, turns.hand_over, *SIZES[model])
    least_entries, packed = products.least_entries, fused_lora.packed
    with (
        patch.object(
            products, "least_entries", lambda: math.inf if turns.name == "one_dnn" else least_entries()
        ),
        patch.object(
            fused_lora, "packed", lambda weight: weight if turns.name == "layout" else packed(weight)
        ),
    ):
        seconds = turns.seconds(rounds)
    return {name: ratio(seconds, name, EVERYTHING) for name in WITHOUT}


def main() -> None:
    """Measures, prints and writes."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--rounds", type=int, default=10, help="sampling rounds, of two training steps each")
    parser.add_argument("--models", nargs="+", default=list(SIZES), choices=list(SIZES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = {}
    table = Table(title="A whole step without a part, by one with it")
    for column in ("model", "without", "ratio"):
        table.add_column(column)
    for model in arguments.models:
        for name, value in ratios(model, arguments.rounds).items():
            figures[f"{model}_without_{name}".replace("-", "_")] = value
            table.add_row(model, WITHOUT[name], f"{value:.3f}")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
