"""A program of a run as a script of its own: data, model, sampling, and the figures that it should give."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.rendering.pymc_model import pymc_lines
from synthstats_lightning.programs.simplify import reachable
from synthstats_lightning.reports.exported.data import TABLE, data_lines
from synthstats_lightning.tasks import Task

TOLERANCE = 0.3
"""Difference of elpd, in nats, that sampling by MCMC explains."""
ERRORS = 3.0
"""Monte-Carlo standard errors of the expected elpd that are added to it."""

OWN_NAMES = frozenset({TABLE, "arviz", "pandas", "sys", "find_spec"})
"""What the script uses by these names before the model is built."""


@dataclass(frozen=True)
class ExpectedFigures:
    """What a script should give.

    Attributes:
        evidence: Log marginal likelihood, in nats.
        elpd: Leave-one-out expected log predictive density, in nats; `None` where none is known.
        elpd_se: Its standard error over observations, in nats.
        mcse: Its Monte-Carlo standard error, in nats.
    """

    evidence: float | None
    elpd: float | None
    elpd_se: float | None = None
    mcse: float = 0.0

    @property
    def tolerance(self) -> float:
        """Difference of elpd that Monte-Carlo errors of both sides explain, in nats."""
        return round(TOLERANCE + ERRORS * self.mcse, 2)


def export_script(
    task: Task, graph: ModelGraph, expected: ExpectedFigures, title: str, notes: tuple[str, ...] = ()
) -> str:
    """A stand-alone Python script of PyMC.

    The model is written from the model graph, not copied from the program: nothing that a policy wrote runs
    when the script does.

    Args:
        task: The task, with its data.
        graph: The program's graph under its own names, of the task without rows that are held out.
        expected: Figures that the script should give.
        title: What the script is, in one line.
        notes: More that its head should say, a sentence each.

    Raises:
        ValueError: If something in the model has no spelling that all releases of PyMC share.
    """
    model = pymc_lines(graph, task.response)
    columns = sorted({node.attributes["name"] for node in graph.nodes if node.op == "covariate"})
    if taken := {*columns, task.response} & OWN_NAMES:
        raise ValueError(f"a column named {min(taken)!r} is in the way of the script's own names")
    known = [graph.nodes[index] for index in reachable(graph) if index != graph.response]
    latents = [node for node in known if node.op == "random"]
    discrete = any(distribution_of(node.attributes).discrete for node in latents)
    one_draw = distribution_of(graph.nodes[graph.response].attributes).event_rank > 0
    has_elpd = expected.elpd is not None and not one_draw and not discrete
    loading = data_lines(task, columns)
    reads_file = any(line.startswith(f"{TABLE} = ") for line in loading)
    sections = [
        _head(expected, title, notes, has_elpd=has_elpd),
        _imports(reads_file=reads_file, samples=bool(latents)),
        "\n".join(loading),
        "\n".join(model),
        _sampling(expected, task.response, samples=bool(latents), nutpie=not discrete, has_elpd=has_elpd),
    ]
    return "\n\n".join(sections[:-1]) + "\n\n\n" + sections[-1] + "\n"


def _head(expected: ExpectedFigures, title: str, notes: tuple[str, ...], *, has_elpd: bool) -> str:
    lines = [title, "", f"Written by synthstats-lightning {__version__}, which the script does not need."]
    if expected.evidence is not None:
        lines.append(f"Log evidence {expected.evidence:.2f} nats.")
    if has_elpd:
        error = "" if expected.elpd_se is None else f" (standard error over rows {expected.elpd_se:.2f})"
        lines.append(f"Leave-one-out elpd {expected.elpd:.2f} nats{error}, which the script computes, too.")
    else:
        lines.append("No leave-one-out elpd is computed: ArviZ's would be that of something else.")
    filled = [textwrap.fill(line, 100) for line in (*lines, *notes)]
    text = "\n".join(filled).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""'


def _imports(*, reads_file: bool, samples: bool) -> str:
    standard = ["import sys"] if reads_file else []
    standard += ["from importlib.util import find_spec"] if samples else []
    others = ["import arviz", "import numpy as np"]
    others += ["import pandas"] if reads_file else []
    others += ["import pymc as pm", "import pytensor.tensor as pt"]
    return "\n".join([*standard, *([""] if standard else []), *others])


def _sampling(
    expected: ExpectedFigures, response: str, *, samples: bool, nutpie: bool, has_elpd: bool
) -> str:
    if not samples:
        return 'if __name__ == "__main__":\n    print("the model has no parameters")'
    sampler = '"nutpie" if find_spec("nutpie") else "pymc"' if nutpie else '"pymc"'
    lines = [
        "def sample(of):",
        '    """Posterior draws of a model, with the log-likelihood of each row."""',
        "    with of:",
        "        posterior = pm.sample(",
        "            draws=2000, tune=1500, chains=4, target_accept=0.95, random_seed=1,",
        f"            nuts_sampler={sampler},",
        "        )",
    ]
    if not has_elpd:
        start = ["    return posterior", "", "", 'if __name__ == "__main__":']
        return "\n".join([*lines, *start, "    print(arviz.summary(sample(model)))"])
    lines += [
        "    pm.compute_log_likelihood(posterior, model=model)",
        "    return posterior",
        "",
        "",
        "def density_without(row):",
        '    """Log predictive density of a row by the posterior given all others."""',
        "    with model.copy() as others:",
        f'        pm.Potential("left_out", -pm.logp(others["{response}"], {response})[row])',
        f'    values = sample(others).log_likelihood["{response}"].values[..., row].ravel()',
        "    return np.logaddexp.reduce(values) - np.log(values.size)",
        "",
        "",
        'if __name__ == "__main__":',
        "    posterior = sample(model)",
        "    print(arviz.summary(posterior))",
        "    loo = arviz.loo(posterior, pointwise=True)",
        "    # ArviZ 1 has another name for it",
        '    pointwise = np.array(loo.loo_i if hasattr(loo, "loo_i") else loo.elpd_i)',
        "    # rows that importance sampling does not reach are left out one by one",
        "    for row in np.flatnonzero(np.array(loo.pareto_k) > 0.7):",
        "        pointwise[row] = density_without(row)",
        "    elpd = pointwise.sum()",
        f"    expected, tolerance = {expected.elpd!r}, {expected.tolerance!r}",
        '    print(f"elpd {elpd:.2f}, expected {expected:.2f}")',
        "    if abs(elpd - expected) > tolerance:",
        '        raise SystemExit(f"elpd differs by more than {tolerance} nats")',
    ]
    return "\n".join(lines)
