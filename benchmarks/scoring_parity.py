"""How many of PyMC's distributions the scorer has, and how exactly its densities are PyMC's.

Every model of `parity_cases*.py` is built in PyMC, extracted to a model graph, validated and made a torch
density. At random unconstrained points the log prior (with Jacobians), the log-likelihood of every row and
the gradient of their sum are compared with PyMC's compiled logp in float64. A distribution is supported if
all its models are extracted and both errors stay below 1e-8.

Errors are relative: of a log-density to its absolute value or 1, of a gradient to its largest entry or 1.

Every distribution by itself is then compared with its formula in 50 digits: parameters at the corners of the
ranges that the scorer admits and log-uniform within them, values in the bulk and the tails. The worst error
may be 1e-9.

Usage: `python benchmarks/scoring_parity.py --json scoring_parity.json` (some minutes on one core). For
another release of PyMC, record it in that environment with `parity_reference.py` and give the file as
`--reference`.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from figures_file import Options, figures_file

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.distributions.coordinates import CHOLESKY_COORDINATES
from synthstats_lightning.scoring.distributions.correlation import COVARIANCE_FACTOR_COORDINATES
from synthstats_lightning.scoring.marginals.density import Density, build_density

TOLERANCE = 1e-8
CORNER_TOLERANCE = 1e-9
TARGET = 60


class Errors(NamedTuple):
    """Worst relative errors of a log-density and of its gradient."""

    logp: float
    gradient: float


def compare(density: Density, record: dict[str, Any]) -> Errors:
    """The worst errors of a density at the points of a record (see `parity_reference.reference`)."""
    columns = {parameter.name: slice(parameter.start, parameter.stop) for parameter in density.parameters}
    worst_logp = worst_gradient = 0.0
    for point in record["points"]:
        theta = torch.zeros(1, density.dimension, dtype=torch.float64)
        slopes = np.zeros(density.dimension)
        for name, values, slope in zip(record["names"], point["values"], point["gradient"], strict=True):
            theta[0, columns[name]] = torch.tensor(values, dtype=torch.float64).reshape(-1)
            slopes[columns[name]] = np.ravel(slope)
        theta.requires_grad_(True)
        own, log_volume = own_coordinates(density, theta)
        log_prior, log_rows = density.log_prior_and_likelihood(own)
        log_prior = log_prior + log_volume
        (gradient,) = torch.autograd.grad(log_prior.sum() + log_rows.sum(), theta)
        rows = log_rows.sum(1, keepdim=True) if len(point["rows"]) == 1 else log_rows
        got = np.append(rows[0].detach().numpy(), log_prior.item())
        wanted = np.append(point["rows"], point["prior"])
        error = np.max(np.abs(got - wanted) / np.maximum(1.0, np.abs(wanted)))
        steep = np.max(np.abs(gradient[0].numpy() - slopes)) / max(1.0, np.max(np.abs(slopes)))
        # NaN must not pass as small
        worst_logp = max(worst_logp, np.nan_to_num(error, nan=np.inf))
        worst_gradient = max(worst_gradient, np.nan_to_num(steep, nan=np.inf))
    return Errors(float(worst_logp), float(worst_gradient))


def own_coordinates(density: Density, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The density's coordinates at PyMC's, and the log of the volume that these span per unit of PyMC's.

    They differ for packed Cholesky factors.
    """
    columns, log_volume = list(theta.unbind(1)), theta.new_zeros(len(theta))
    for parameter in density.parameters:
        if parameter.distribution.coordinates is COVARIANCE_FACTOR_COORDINATES:
            place = slice(parameter.start, parameter.stop)
            packed, volume = CHOLESKY_COORDINATES.constrain(theta[:, place])
            own = COVARIANCE_FACTOR_COORDINATES.unconstrain(packed)
            columns[place] = own.unbind(1)
            log_volume = log_volume + volume - COVARIANCE_FACTOR_COORDINATES.constrain(own)[1]
    return torch.stack(columns, 1), log_volume


def check(record: dict[str, Any], covariates: dict[str, Any]) -> Errors | str:
    """Errors of one model, or why it is not supported."""
    if "failure" in record:
        return str(record["failure"])
    response = np.asarray(record["response"])
    columns = {name: str(values.dtype) for name, values in covariates.items()}
    schema = DataSchema(columns, "y", str(response.dtype), len(response))
    try:
        graph = parse_graph(record["graph"], schema)
        return compare(build_density(graph, covariates, response), record)
    except ProgramFailure as failure:
        return str(failure)


def summarise(results: dict[str, list[Errors | str]], names: list[str]) -> tuple[Table, dict[str, Any]]:
    """A table of distributions and the figures."""
    table = Table("distribution", "models", "logp", "gradient", title="PyMC's distributions in the scorer")
    supported, worst_logp, worst_gradient = 0, 0.0, 0.0
    for name in names:
        found = results.get(name, [])
        errors = [entry for entry in found if isinstance(entry, Errors)]
        reasons = [entry for entry in found if isinstance(entry, str)]
        if not errors or reasons:
            table.add_row(name, str(len(found)), "-", (reasons or ["no model"])[0])
            continue
        logp, gradient = max(e.logp for e in errors), max(e.gradient for e in errors)
        supported += max(logp, gradient) <= TOLERANCE
        worst_logp, worst_gradient = max(worst_logp, logp), max(worst_gradient, gradient)
        table.add_row(name, str(len(found)), f"{logp:.1e}", f"{gradient:.1e}")
    return table, {
        "documented": len(names),
        "supported": supported,
        "worst_logp_error": worst_logp,
        "worst_grad_error": worst_gradient,
    }


def at_corners(names: list[str] | None, sets: int, seed: int) -> tuple[Table, dict[str, Any]]:
    """A table of errors against 50 digits, and the figures.

    Args:
        names: Distributions, all for `None`.
        sets: Sets of parameters at corners, and as many within, of each distribution.
        seed: Seed of their choice.
    """
    from scoring_parts.corners import NAMES, worst_error

    table = Table("distribution", "values", "error", "where", title="Log-densities against 50 digits")
    errors: dict[str, float] = {}
    for name in NAMES if names is None else [name for name in NAMES if name in names]:
        worst = worst_error(name, sets, sets, seed)
        errors[name] = worst.error
        missed = worst.error > CORNER_TOLERANCE
        table.add_row(name, str(worst.compared), f"{worst.error:.1e}", worst.case if missed else "")
    return table, {"corner_errors": errors, "worst_corner_error": max(errors.values(), default=0.0)}


def main() -> None:
    """Runs the comparison."""
    parser = Options(description=__doc__)
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--reference", type=Path, help="records of parity_reference.py instead of PyMC here")
    parser.add_argument("--only", nargs="*", help="names of distributions (default: all)")
    parser.add_argument("--sets", type=int, default=100, help="corners of each distribution (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="which of them (default: 0)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    from scoring_parts import parity_reference

    if arguments.reference is None:
        names, version = parity_reference.documented(), parity_reference.pm.__version__
        wanted = arguments.only or [name for name, _, _ in parity_reference.all_cases()]
        found = (
            (n, parity_reference.record(case)) for n, _, case in parity_reference.all_cases() if n in wanted
        )
    else:
        document = json.loads(arguments.reference.read_text())
        names, version = document["documented"], document["pymc"]
        found = ((key.split("[")[0], record) for key, record in document["records"].items())
    results: dict[str, list[Errors | str]] = {}
    for name, record in found:
        results.setdefault(name, []).append(check(record, parity_reference.COVARIATES))
    table, figures = summarise(results, arguments.only or names)
    console = Console()
    console.print(table)
    console.print(
        f"PyMC {version}: {figures['supported']} of {figures['documented']} supported (target {TARGET}),"
        f" worst error of logp {figures['worst_logp_error']:.1e}, of gradients"
        f" {figures['worst_grad_error']:.1e} (target {TOLERANCE:.0e})"
    )
    table, corners = at_corners(arguments.only, arguments.sets, arguments.seed)
    figures |= corners
    console.print(table)
    console.print(
        f"worst error of a log-density {corners['worst_corner_error']:.1e} (target {CORNER_TOLERANCE:.0e})"
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
