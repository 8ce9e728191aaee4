"""Scores of a PyMC model by PyMC's own samplers. Imported only in the reference engine's process."""

from __future__ import annotations

import math
import time
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import NDArray

from synthstats_lightning.pool.reference.settings import ReferenceSettings
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.score import Diagnostics, Score

Array = NDArray[np.float64]


def check_model(model: Any, response: NDArray[np.generic]) -> None:
    """Refuses models whose likelihood is not that of the response, once.

    Args:
        model: A `pm.Model`.
        response: The response's values.

    Raises:
        ProgramFailure: `BAD_GRAPH` if the model has potentials, or does not observe the response and nothing
            else.
    """
    if model.potentials:
        raise ProgramFailure(FailureCategory.BAD_GRAPH, "the reference engine takes no pm.Potential")
    observed = model.observed_RVs
    if len(observed) != 1:
        raise ProgramFailure(
            FailureCategory.BAD_GRAPH, f"the model observes {len(observed)} variables instead of the response"
        )
    values = np.asarray(model.rvs_to_values[observed[0]].eval())
    if values.shape != response.shape or not np.array_equal(values, response):
        raise ProgramFailure(FailureCategory.BAD_GRAPH, f"{observed[0].name} does not observe the response")


def score_model(model: Any, sampler: str, settings: ReferenceSettings) -> Score:
    """Elpd by NUTS and PSIS leave-one-out; with `pymc` evidence by sequential Monte Carlo, too.

    Args:
        model: A `pm.Model` that `check_model` accepts.
        sampler: `"nutpie"` or `"pymc"`.
        settings: Draws and acceptance.

    Returns:
        The score; without evidence from nutpie, which has none.

    Raises:
        ProgramFailure: `UNSUPPORTED` for discrete parameters by nutpie, `SCORER_LIMIT` if the chains
            disagree, `NON_FINITE` if a score is not finite.
    """
    discrete = [variable.name for variable in model.free_RVs if variable.dtype not in pm.continuous_types]
    if sampler == "nutpie" and discrete:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"nutpie draws no discrete parameters ({', '.join(discrete)}): the reference engine pymc does, by"
            " step methods of its own",
        )
    started = time.perf_counter()
    trace = sample_nutpie(model, settings) if sampler == "nutpie" else sample_pymc(model, settings)
    r_hat = max((float(np.max(values)) for values in az.rhat(trace).data_vars.values()), default=1.0)
    if not r_hat <= settings.max_r_hat:
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"{sampler}: chains disagree, R-hat {r_hat:.3f} (at most {settings.max_r_hat:g})",
        )
    with model:
        pm.compute_log_likelihood(trace, progressbar=False)
    loo = az.loo(trace, pointwise=True)
    rows = np.asarray(loo.loo_i if hasattr(loo, "loo_i") else loo.elpd_i, dtype=np.float64).reshape(-1)
    effective = min((float(np.min(values)) for values in az.ess(trace).data_vars.values()), default=math.inf)
    pareto_k = float(np.max(np.asarray(loo.pareto_k)))
    elpd = float(rows.sum())
    diagnostics = {
        "elpd": Diagnostics(
            mcse=_elpd_mcse(trace, settings.chains),
            effective_sample_size=effective,
            pareto_k=pareto_k,
            estimator=f"psis+nuts-{sampler}",
            seconds=time.perf_counter() - started,
            pointwise=tuple(rows.tolist()),
        )
    }
    evidence, evidence_se = None, None
    if sampler == "pymc":
        smc_started = time.perf_counter()
        evidence, evidence_se = smc_evidence(model, settings)
        diagnostics["evidence"] = Diagnostics(
            mcse=evidence_se,
            effective_sample_size=float(settings.smc_draws * settings.chains),
            pareto_k=None,
            estimator="smc-pymc",
            seconds=time.perf_counter() - smc_started,
        )
    for name, value in (("elpd", elpd), ("evidence", evidence)):
        if value is not None and not math.isfinite(value):
            raise ProgramFailure(FailureCategory.NON_FINITE, f"{name} by {sampler} is {value}")
    return Score(
        evidence=evidence,
        evidence_se=evidence_se,
        elpd=elpd,
        elpd_se=math.sqrt(len(rows) * float(rows.var())),
        pareto_k=pareto_k,
        effective_sample_size=effective,
        num_parameters=sum(int(np.size(value)) for value in model.initial_point().values()),
        estimator=f"nuts-{sampler}",
        seconds=time.perf_counter() - started,
        diagnostics=diagnostics,
    )


def sample_pymc(model: Any, settings: ReferenceSettings) -> Any:
    """PyMC's own NUTS, with its other step methods for discrete parameters."""
    with model:
        return pm.sample(
            draws=settings.draws,
            tune=settings.tune,
            chains=settings.chains,
            cores=1,
            random_seed=settings.seed,
            target_accept=settings.target_accept,
            nuts_sampler="pymc",
            compute_convergence_checks=False,
            progressbar=False,
        )


def sample_nutpie(model: Any, settings: ReferenceSettings) -> Any:
    """NUTS as nutpie has it."""
    import nutpie

    return nutpie.sample(
        nutpie.compile_pymc_model(model),
        draws=settings.draws,
        tune=settings.tune,
        chains=settings.chains,
        cores=1,
        seed=settings.seed,
        target_accept=settings.target_accept,
        progress_bar=False,
    )


def smc_evidence(model: Any, settings: ReferenceSettings) -> tuple[float, float]:
    """Log evidence and its standard error, from independent runs of PyMC's sequential Monte Carlo."""
    with model:
        trace = pm.sample_smc(
            draws=settings.smc_draws,
            chains=settings.chains,
            cores=1,
            random_seed=settings.seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    # one entry for each temperature, NaN until the last; chains may take different numbers of them
    found = np.asarray(trace.sample_stats["log_marginal_likelihood"])
    runs = [np.atleast_1d(np.asarray(chain, dtype=object)) for chain in found]
    last = np.array([_last_finite(run) for run in runs])
    relative = np.exp(last - last.max())
    log_mean = float(last.max() + math.log(relative.mean()))
    return log_mean, float(relative.std(ddof=1) / relative.mean() / math.sqrt(len(last)))


def _last_finite(values: NDArray[np.object_]) -> float:
    flat = np.array([float(value) for entry in values for value in np.atleast_1d(entry)], dtype=np.float64)
    finite = flat[np.isfinite(flat)]
    return float(finite[-1]) if len(finite) else math.nan


def _elpd_mcse(trace: Any, chains: int) -> float:
    """Monte-Carlo standard error of elpd, from the spread of the chains' own estimates."""
    each = []
    for chain in range(chains):
        loo = az.loo(trace.isel(chain=[chain]))
        each.append(float(loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd))
    return float(np.std(each, ddof=1) / math.sqrt(chains))
