"""Long NUTS runs on the real data sets, for `scoring_accuracy.py`: writes `accuracy_long_runs.json`.

Each run is 4 chains of 5000 draws after 2000 of tuning by nutpie at a target acceptance of 0.95; rows of
Pareto k above 0.3 are refitted without the row: at the usual 0.7 twenty thousand draws are still off by up
to half a nat (surgical). The centred eight schools share the run of the non-centred ones, which
is the same model and has no funnel.

Usage: `cd benchmarks; python -m scoring_parts.accuracy_long_runs` (about ten minutes).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scoring_parts.accuracy_cases import CASES, SURGICAL_LOGIT_NORMAL, Case

LONG = {"draws": 5000, "tune": 2000, "chains": 4, "target_accept": 0.95, "refit": True, "refit_k": 0.3}
SAME = {"schools_centred": "schools_non_centred"}
"""Programs that are another program's model."""
NON_CENTRED = {
    "surgical_logit_normal": SURGICAL_LOGIT_NORMAL.replace(
        'logit = pm.Normal("logit", mu, tau, shape=12)',
        'logit = mu + tau * pm.Normal("offset", 0.0, 1.0, shape=12)',
    )
}
"""The same models in coordinates that NUTS explores better."""


def long_run(name: str, case: Case) -> dict[str, Any]:
    """The result of one long run, in a process of its own."""
    job = {
        "sampler": "nutpie",
        "source": NON_CENTRED.get(name, case.source),
        "columns": {key: values.tolist() for key, values in case.data.items()},
        **LONG,
    }
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={cache}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "scoring_parts.scoring_reference"],
            cwd=Path(__file__).parents[1],
            input=json.dumps(job),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Runs every program of a real data set and writes the file."""
    found = {name: long_run(name, case) for name, case in CASES.items() if case.real and name not in SAME}
    found |= {name: found[other] for name, other in SAME.items()}
    path = Path(__file__).with_name("accuracy_long_runs.json")
    path.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for name, result in sorted(found.items()):
        print(f"{name}: elpd {result['elpd']:.3f}, r_hat {result['r_hat']:.4f}, {result['refitted']} refits")


if __name__ == "__main__":
    main()
