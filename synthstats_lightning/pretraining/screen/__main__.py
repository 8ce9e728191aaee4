"""`python -m synthstats_lightning.pretraining.screen --output perceptrons.npz`: minutes of one core."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import jsonargparse
import torch

from synthstats_lightning.learning.screen.perceptrons import save_perceptrons
from synthstats_lightning.learning.screen.screening import QUESTIONS
from synthstats_lightning.pretraining.screen.simulation import Simulated, simulated
from synthstats_lightning.pretraining.screen.training import FitSettings, fit_perceptron, questions
from synthstats_lightning.programs.forms.outline import PARTS

PROGRAM_NAME = "python -m synthstats_lightning.pretraining.screen"


def train_screen(
    output: Path,
    data_sets: int = 15000,
    programs_per_request: int = 8,
    seed: int = 1,
    fit: FitSettings = FitSettings(),  # noqa: B008
) -> None:
    """Trains the perceptrons that screen programs and writes them to a file.

    Args:
        output: File ending in `.npz`; `learning/screen/perceptrons.npz` holds the shipped ones.
        data_sets: Simulated data sets that go with their requests; about one try in six does.
        programs_per_request: Programs tried on each request.
        seed: Seeds the grammar, parameters and responses.
        fit: How each perceptron is trained.
    """
    torch.set_num_threads(1)
    examples = questions(_until(data_sets, programs_per_request, seed))
    trained = {}
    for question in QUESTIONS:
        names = f"{question}_blind", question
        known = [name for each in names for name in examples[each].classes]
        classes = list(PARTS) if question == "part" else sorted(set(known))
        for name in names:
            found = fit_perceptron(examples[name], classes, fit)
            trained[name] = found.perceptron
            _log(
                f"{name}: {len(examples[name].classes)} examples,"
                f" held-out cross-entropy {found.cross_entropy:.3f} nats"
            )
    save_perceptrons(trained, output)


def _until(data_sets: int, programs: int, seed: int) -> Iterator[Simulated]:
    """Simulated programs until so many have data that go with their request."""
    accepted = 0
    for each in simulated(Random(seed), programs):  # noqa: S311
        yield each
        accepted += each.accepted
        if accepted == data_sets:
            return


def _log(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(args: list[str] | None = None) -> None:
    """Runs `train_screen` from the command line."""
    jsonargparse.auto_cli(train_screen, args=args, as_positional=False, prog=PROGRAM_NAME, allow_abbrev=False)


if __name__ == "__main__":
    main()
