"""Programs that the perceptron screen chooses against as many that are drawn blind.

    python benchmarks/language_models/screen.py --json screen.json [--folder FOLDER]

The policy's programs before any training: `--programs` of them scored as they are drawn, and as many chosen
of `--candidates` by what a digest of the data says of their structure (`learning.screen`). Both are weighted
by their evidence and by how they were drawn. With a folder of CSV files and an `index.json` (by data set
`response` and `description`) these are measured, too.

JSON: by data set and for each of `blind` and `screened` `scored` (share), `effective` (effective sample size
of the weighted programs), `log_z` (nats; importance estimate), `median` and `best` (evidence, nats),
`sampling_seconds` and `scoring_seconds` (of one core each); and over all data sets `better_effective` and
`better_best` (numbers of data sets), `data_sets`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from synthstats_lightning import CSVTask, ProgramScorer, Task, get_task
from synthstats_lightning.callbacks.screening import screened
from synthstats_lightning.cli.explore import most_covariates
from synthstats_lightning.metrics import effective_sample_size
from synthstats_lightning.policy import Policy, SamplingSettings, load_policy
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import task_prompt

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures_file import Options, figures_file

BUNDLED = ("dugongs", "surgical", "peregrines", "eight_schools")


def data_sets(folder: Path | None, policy: str) -> Iterator[Task]:
    """The bundled data sets, and those of a folder with as many covariates as the policy was made for."""
    for name in BUNDLED:
        yield get_task(name)
    if folder is None:
        return
    for name, entry in json.loads((folder / "index.json").read_text()).items():
        settings: dict[str, Any] = {"path": str(folder / f"{name}.csv"), "response": entry["response"]}
        settings |= {"description": entry["description"], "name": name}
        task = CSVTask(**settings)
        most = most_covariates(policy)
        if most is not None and len(task.understood.covariates) > most:
            task = CSVTask(**settings, screen=most)
        yield task


def figures(
    sources: Sequence[str],
    log_weights: Sequence[float],
    task: Task,
    scorer: ProgramScorer,
    sampling_seconds: float,
) -> dict[str, float]:
    """Figures of programs, each with the log weight that its evidence is added to."""
    scores = [future.result() for future in [scorer.submit(source, task) for source in sources]]
    evidence = np.array([np.nan if score.evidence is None else score.evidence for score in scores])
    known = np.isfinite(evidence)
    weight = np.where(known, evidence, -np.inf) + np.array(log_weights)
    return {
        "scored": float(known.mean()),
        "effective": effective_sample_size(weight[known]) if known.any() else 0.0,
        "log_z": float(np.logaddexp.reduce(weight[known]) - np.log(len(sources))),
        "median": float(np.median(evidence[known])) if known.any() else -np.inf,
        "best": float(evidence[known].max(initial=-np.inf)),
        "sampling_seconds": sampling_seconds,
        "scoring_seconds": sum(
            {source: score.seconds for source, score in zip(sources, scores, strict=True)}.values()
        ),
    }


def measure(
    policy: Policy, task: Task, scorer: ProgramScorer, programs: int, candidates: int, seed: int
) -> dict[str, dict[str, float]]:
    """Figures of blind and of screened programs of one data set."""
    prompt = [policy.encode_prompt(*task_prompt(task))]
    settings = SamplingSettings(max_new_tokens=160)
    stream = Stream.BENCHMARKS.at(seed)
    started = time.process_time()
    drawn = policy.sample(prompt, programs, settings, seed=seed, rank=0, step=stream)
    seconds = time.process_time() - started
    blind = figures(drawn.sources, [0.0] * programs, task, scorer, seconds)
    started = time.process_time()
    drawn = policy.sample(prompt, candidates, settings, seed=seed, rank=1, step=stream)
    chosen = screened(drawn, [task], [programs], np.random.default_rng(seed))
    seconds = time.process_time() - started
    sources = [drawn.sources[row] for row in chosen]
    return {
        "blind": blind,
        "screened": figures(sources, [-value for value in chosen.values()], task, scorer, seconds),
    }


def main() -> None:
    """Measures every data set and prints a table."""
    parser = Options(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=figures_file, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, help="data sets of one's own, with an index.json")
    parser.add_argument("--policy", default="tiny", help="name or folder of the policy")
    parser.add_argument("--programs", type=int, default=96, help="programs that are scored")
    parser.add_argument("--candidates", type=int, default=960, help="programs that are drawn to be screened")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="names of the data sets to measure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy(arguments.policy)
    table = Table("data set", "drawn", "scored", "effective", "log Z", "median", "best", "seconds")
    found: dict[str, Any] = {}
    with ProgramScorer(1, settings=EngineSettings().up_to("evidence")) as scorer:
        for task in data_sets(arguments.folder, arguments.policy):
            if arguments.only and task.name not in arguments.only:
                continue
            numbers = arguments.programs, arguments.candidates, arguments.seed
            found[task.name] = measure(policy, task, scorer, *numbers)
            for name, own in found[task.name].items():
                row = [f"{own['scored']:.0%}", f"{own['effective']:.1f}", f"{own['log_z']:.1f}"]
                row += [f"{own['median']:.1f}", f"{own['best']:.1f}"]
                table.add_row(
                    task.name, name, *row, f"{own['sampling_seconds']:.0f} + {own['scoring_seconds']:.0f}"
                )
    Console().print(table)
    pairs = list(found.values())
    document = found | {
        "data_sets": len(pairs),
        "better_effective": sum(each["screened"]["effective"] > each["blind"]["effective"] for each in pairs),
        "better_best": sum(each["screened"]["best"] > each["blind"]["best"] for each in pairs),
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
