"""What supervised training on given programs gains, and where runs that start from it go.

    python benchmarks/language_models/warm_start.py --json warm_start.json

`tiny` imitates 2,000 programs of the pretraining's grammar, chat messages in a JSONL file, through the
command line: `validation_gain_nats` is how much likelier, in nats a program, it holds 222 that it has not
seen, after against before. (Its weights are sharper than the grammar, so that there is something to learn.)
On a language whose 85 answers can be listed a model imitates some of them, and GFlowNet runs start from that
adapter with either reference: `total_variation_base` and `total_variation_adapter` are the distances from
their targets, which are `targets_apart` of each other.

JSON: `{validation_gain_nats, total_variation_base, total_variation_adapter, targets_apart}`.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import torch
from rich.console import Console
from rich.table import Table

from synthstats_lightning import DemonstrationDataModule, GFlowNetModule
from synthstats_lightning.pretraining.grammar import draw_example
from synthstats_lightning.tasks.instructions import RULES
from synthstats_lightning.testing.listed_language import LIMIT, LORA, REQUEST, save_listed_model, train_from

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file

SHARE = 0.1
"""Of the examples, held back."""
IMITATED = ("A", "A B", "B A", "A A", "U x", "")
"""Answers of the listed language."""


def write_conversations(path: Path, number: int) -> None:
    """Programs of the grammar with their requests."""
    rng = Random(11)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(number):
            example = draw_example(rng, 1)
            said = (
                ("system", RULES),
                ("user", example.data.request),
                ("assistant", example.programs[0]),
            )
            messages = [{"role": role, "content": content} for role, content in said]
            file.write(json.dumps({"messages": messages}) + "\n")


def imitate(folder: Path, examples: Path, *more: str) -> Path:
    """Supervised training through the command line; the run's folder."""
    options = {
        "data.init_args.examples": examples,
        "data.init_args.validation_share": SHARE,
        "trainer.logger.init_args.save_dir": folder,
        "trainer.enable_model_summary": "false",
    }
    given = (f"--{key}={value}" for key, value in options.items())
    command = [sys.executable, "-m", "synthstats_lightning", "fit", "--config=warm_start", *given, *more]
    subprocess.run(command, check=True)
    return folder / "warm_start" / "version_0"


def held_back(examples: Path, adapter: Path | None) -> float:
    """Nats a program of what is held back, under `tiny` with an adapter."""
    given = DemonstrationDataModule(str(examples), validation_share=SHARE, seed=0)
    module = GFlowNetModule(adapter=None if adapter is None else str(adapter))
    module.configure_model()
    policy, total = module.loaded_policy, 0.0
    with torch.no_grad(), policy.evaluating():
        for example in given.validation:
            prompt = policy.encode_prompt(*(message.content for message in example.messages[:2]))
            program = policy.encode_program(example.messages[-1].content)
            ids, mask = torch.tensor([program]), torch.ones(1, len(program), dtype=torch.bool)
            total += float(policy.program_log_probs(torch.tensor([prompt]), ids, mask))
    return total / len(given.validation)


def tiny_gain(folder: Path, number: int, epochs: int) -> tuple[float, list[float]]:
    """Nats a program that `tiny` gains, and the validation losses, in nats a token, of its epochs."""
    examples = folder / "examples.jsonl"
    write_conversations(examples, round(number / (1 - SHARE)))
    run = imitate(folder, examples, f"--trainer.max_epochs={epochs}")
    with (run / "metrics.csv").open() as file:
        losses = [float(row["val/loss"]) for row in csv.DictReader(file) if row["val/loss"]]
    return held_back(examples, run / "adapter") - held_back(examples, None), losses


def both_references(folder: Path, steps: int) -> dict[str, float]:
    """Distances from the targets of the listed language."""
    model, examples = folder / "model", folder / "answers.jsonl"
    model.mkdir()
    save_listed_model(model)
    asked = {"role": "user", "content": REQUEST}
    lines = ({"messages": [asked, {"role": "assistant", "content": text}]} for text in IMITATED * 8)
    examples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run = imitate(
        folder / "listed",
        examples,
        f"--model.init_args.policy={model}",
        f"--model.init_args.lora.rank={LORA.rank}",
        f"--model.init_args.sampling.max_new_tokens={LIMIT}",
        "--model.init_args.optimizer.init_args.lr=0.01",
        "--trainer.max_epochs=5",
    )
    base = train_from(model, run / "adapter", "base", steps)
    adapter = train_from(model, run / "adapter", "adapter", steps)
    return {
        "total_variation_base": base.total_variation,
        "total_variation_adapter": adapter.total_variation,
        "targets_apart": 0.5 * float((base.target - adapter.target).abs().sum()),
    }


def main() -> None:
    """Trains, measures, prints and writes."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--examples", type=int, default=2000, help="that `tiny` imitates")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400, help="of the runs on the listed language")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        gain, losses = tiny_gain(Path(folder), arguments.examples, arguments.epochs)
        figures = {"validation_gain_nats": gain, **both_references(Path(folder), arguments.steps)}
    table = Table("figure", "measured", "target")
    table.add_row("gain on what was held back (nats a program)", f"{gain:.2f}", "above 0")
    table.add_row("loss by epoch (nats a token)", ", ".join(f"{loss:.4f}" for loss in losses), "")
    for reference in ("base", "adapter"):
        distance = figures[f"total_variation_{reference}"]
        table.add_row(f"total variation, reference: {reference}", f"{distance:.4f}", "at most 0.05")
    table.add_row("total variation between the two targets", f"{figures['targets_apart']:.3f}", "")
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
