"""One program through PyMC's own samplers, in a process of its own: a job as JSON in, a result as JSON out.

The clock starts after the imports and covers building, compiling, sampling, pointwise log-likelihood and
`az.loo`.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from typing import Any

warnings.simplefilter("ignore")

import arviz as az  # noqa: E402
import numpy as np  # noqa: E402
import pymc as pm  # noqa: E402
import pytensor.tensor as pt  # noqa: E402

REFIT_K = 0.7
"""Rows of larger Pareto k are refitted without the row, so that the reference is not itself a guess; a job's
`refit_k` asks for more."""


def build(source: str, columns: dict[str, np.ndarray]) -> pm.Model:
    """Runs a program; its model is `model`."""
    scope: dict[str, Any] = {"pm": pm, "np": np, "pt": pt, "math": math, "data": columns, **columns}
    exec(compile(source, "<program>", "exec"), scope)
    return scope["model"]


def sample_pymc(model: pm.Model, job: dict[str, Any]) -> Any:
    """PyMC's default sampler, chains one after the other."""
    return pm.sample(
        draws=job["draws"],
        tune=job["tune"],
        chains=job["chains"],
        cores=1,
        random_seed=1,
        progressbar=False,
        model=model,
    )


def sample_nutpie(model: pm.Model, job: dict[str, Any]) -> Any:
    """Nutpie with its default backend, chains one after the other."""
    import nutpie

    return nutpie.sample(
        nutpie.compile_pymc_model(model),
        draws=job["draws"],
        tune=job["tune"],
        chains=job["chains"],
        cores=1,
        seed=1,
        progress_bar=False,
        **({"target_accept": job["target_accept"]} if "target_accept" in job else {}),
    )


SAMPLERS = {"pymc": sample_pymc, "nutpie": sample_nutpie}


def pointwise_log_likelihood(model: pm.Model, trace: Any) -> np.ndarray:
    """PyMC's pointwise log-likelihood `[draws, rows]` of a trace."""
    pm.compute_log_likelihood(trace, model=model, progressbar=False)
    values = next(iter(trace.log_likelihood.data_vars.values())).values
    return values.reshape(-1, values.shape[-1])


def refit(job: dict[str, Any], columns: dict[str, np.ndarray], row: int, full: pm.Model) -> float:
    """Log predictive density of one row from a run that did not see it."""
    others = {name: np.delete(values, row) for name, values in columns.items()}
    trace = SAMPLERS[job["sampler"]](build(job["source"], others), job)
    draws = pointwise_log_likelihood(full, az.InferenceData(posterior=trace.posterior))[:, row]
    return float(np.logaddexp.reduce(draws) - math.log(len(draws)))


def main() -> None:
    """Reads the job, runs it, writes the result."""
    job = json.load(sys.stdin)
    columns = {name: np.asarray(values) for name, values in job["columns"].items()}
    if job["sampler"] == "nutpie":
        import nutpie  # noqa: F401 - before the clock starts
    start = time.perf_counter()
    model = build(job["source"], columns)
    trace = SAMPLERS[job["sampler"]](model, job)
    pm.compute_log_likelihood(trace, model=model, progressbar=False)
    loo = az.loo(trace, pointwise=True)
    seconds = time.perf_counter() - start
    pointwise, pareto_k = loo.loo_i.values.copy(), loo.pareto_k.values
    rows = np.flatnonzero(pareto_k > job.get("refit_k", REFIT_K)) if job.get("refit") else []
    for row in rows:
        pointwise[row] = refit(job, columns, int(row), model)
    result = {
        "seconds": seconds,
        "elpd": float(pointwise.sum()),
        "elpd_se": float(loo.se),
        "pareto_k": float(pareto_k.max()),
        "refitted": len(rows),
        "r_hat": float(az.rhat(trace).to_array().max()),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
