"""The tutorial's pictures and its report, from a run of the tutorial's own command.

`posterior.png`, which the README shows, is that of a run of the quickstart, copied from its folder.

    python docs/make_pictures.py                    # trains for minutes, then draws
    python docs/make_pictures.py --run runs/plants/version_0    # draws from a run that there is

Run it from the top folder of a clone; it needs nothing beyond the package.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from synthstats_lightning import CSVTask, ProgramScorer

HERE = Path(__file__).resolve().parent
PLANTS = HERE / "tutorial" / "plants.csv"
PICTURES = HERE / "pictures"
COMMAND = "fit --config quickstart --config docs/tutorial/plants.yaml"
HELD_OUT = 6
LARGEST = 200_000
"""Bytes of a picture that the repository takes."""


def write_plants(path: Path, rows: int = 36, seed: int = 1) -> None:
    """Writes the made-up data: heights that approach a ceiling as the dose grows, noise of 3 cm.

    Args:
        path: The CSV file to write.
        rows: How many plants there are.
        seed: Of the doses and the noise.
    """
    random = np.random.default_rng(seed)
    dose = np.round(random.uniform(0.0, 6.0, rows), 2)
    height = np.round(72.0 - 60.0 * np.exp(-dose / 1.5) + random.normal(0.0, 3.0, rows), 1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dose", "height"])
        writer.writerows(zip(dose.tolist(), height.tolist(), strict=True))


def newest_run() -> Path:
    """The newest folder below `runs/plants`."""
    return max(Path("runs/plants").glob("version_*"), key=lambda folder: folder.stat().st_mtime)


def programs(run: Path, top: int = 20) -> tuple[list[str], np.ndarray]:
    """The programs of a run with the largest posterior probability, and those probabilities made to sum to 1.

    Args:
        run: The run's folder.
        top: How many programs are taken.
    """
    records = [json.loads(line) for line in (run / "programs.jsonl").read_text().splitlines()]
    scored = [item for item in records if item["evidence"] is not None]
    scored.sort(key=lambda item: -(item["evidence"] + item["reference_log_prob"]))
    weight = np.array([item["evidence"] + item["reference_log_prob"] for item in scored[:top]])
    weight = np.exp(weight - weight.max())
    return [item["source"] for item in scored[:top]], weight / weight.sum()


def draw_prediction(run: Path, task: CSVTask, path: Path) -> None:
    """Draws the held-out plants beside what the weighted programs predict of them.

    Args:
        run: The run's folder.
        task: The tutorial's task.
        path: The PNG file to write.
    """
    sources, weights = programs(run)
    with ProgramScorer() as scorer:
        futures = [scorer.forecast(source, task) for source in sources]
        draws = [future.result().draws for future in futures]
    random = np.random.default_rng(0)
    counts = random.multinomial(4000, weights)
    mixed = np.concatenate(
        [each[random.integers(len(each), size=count)] for each, count in zip(draws, counts, strict=True)]
    )
    low, middle, high = np.quantile(mixed, (0.05, 0.5, 0.95), axis=0)
    dose, height = task.data["dose"], task.data["height"]
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(dose[:-HELD_OUT], height[:-HELD_OUT], "o", color="0.6", markersize=4, label="plants that count")
    new = dose[-HELD_OUT:]
    axes.errorbar(
        new, middle, (middle - low, high - middle), fmt="s", capsize=4, label="prediction, median and 90 %"
    )
    axes.plot(new, height[-HELD_OUT:], "o", color="black", markersize=4, label="held-out plants")
    axes.set_xlabel("dose (g)")
    axes.set_ylabel("height (cm)")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def draw_training(run: Path, path: Path) -> None:
    """Draws the learned log Z and the spread of the residual against the training step.

    Args:
        run: The run's folder.
        path: The PNG file to write.
    """
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    names = {
        "train/log_z/plants": "learned log Z (nats)",
        "train/residual_std": "standard deviation of the residual (nats)",
    }
    for axes, (name, label) in zip(figure.subplots(1, 2), names.items(), strict=True):
        points = [(int(row["step"]), float(row[name])) for row in rows if row.get(name)]
        axes.plot(*np.array(points).T)
        axes.set_xlabel("training step")
        axes.set_title(label)
    figure.savefig(path, dpi=110)


def write_figures(run: Path, path: Path) -> None:
    """Writes the single numbers of a run's report: what is not a list of forms.

    Args:
        run: The run's folder.
        path: The JSON file to write.
    """
    report = json.loads((run / "report.json").read_text())
    numbers = {
        task: {name: value for name, value in found.items() if isinstance(value, int | float)}
        for task, found in report.items()
    }
    path.write_text(json.dumps(numbers, indent=2) + "\n")


def main() -> None:
    """Makes the data and the run if need be, and draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--run", type=Path, help="folder of a run of the tutorial's command")
    run: Path | None = parser.parse_args().run
    if not PLANTS.exists():
        write_plants(PLANTS)
    if run is None:
        subprocess.run([sys.executable, "-m", "synthstats_lightning", *COMMAND.split()], check=True)
        run = newest_run()
    PICTURES.mkdir(exist_ok=True)
    task = CSVTask(
        PLANTS, "height", "Heights of plants by dose of fertiliser.", units={"height": "cm", "dose": "g"},
        held_out=HELD_OUT,
    )  # fmt: skip
    write_figures(run, PLANTS.parent / "report.json")
    draw_prediction(run, task, PICTURES / "prediction.png")
    draw_training(run, PICTURES / "training.png")
    for path in PICTURES.glob("*.png"):
        if path.stat().st_size > LARGEST:
            raise SystemExit(f"{path} has {path.stat().st_size} bytes; at most {LARGEST} are taken")


if __name__ == "__main__":
    main()
