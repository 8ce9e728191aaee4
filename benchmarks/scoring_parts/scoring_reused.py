"""Programs through nutpie, one after the other in one warm process: jobs as JSON in, seconds as JSON out.

A compiled function is kept for each model text, so that a repeated text costs sampling alone. The seconds of
each program are given in two parts: building and compiling, which a repeated text saves, and everything else.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

warnings.simplefilter("ignore")

import arviz as az  # noqa: E402
import numpy as np  # noqa: E402
import nutpie  # noqa: E402
import pymc as pm  # noqa: E402
from scoring_parts.scoring_reference import build  # noqa: E402


def score(
    source: str, columns: dict[str, np.ndarray], job: dict[str, Any], known: dict[str, Any]
) -> list[float]:
    """Seconds of compiling and of the rest."""
    start = time.perf_counter()
    if source not in known:
        model = build(source, columns)
        known[source] = model, nutpie.compile_pymc_model(model)
    model, compiled = known[source]
    ready = time.perf_counter()
    trace = nutpie.sample(
        compiled,
        draws=job["draws"],
        tune=job["tune"],
        chains=job["chains"],
        cores=1,
        seed=1,
        progress_bar=False,
    )
    pm.compute_log_likelihood(trace, model=model, progressbar=False)
    az.loo(trace)
    return [ready - start, time.perf_counter() - ready]


def main() -> None:
    """Reads the job, scores its programs, writes their seconds; the first program only warms the process."""
    job = json.load(sys.stdin)
    columns = {name: np.asarray(values) for name, values in job["columns"].items()}
    known: dict[str, Any] = {}
    seconds = [score(source, columns, job, known) for source in job["sources"]]
    print(json.dumps({"compile": [s[0] for s in seconds[1:]], "rest": [s[1] for s in seconds[1:]]}))


if __name__ == "__main__":
    main()
