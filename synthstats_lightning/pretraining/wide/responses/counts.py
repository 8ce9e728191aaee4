"""Counts without and with a total, zeros and ones, and ordered categories."""

from __future__ import annotations

import math
from collections.abc import Callable

from synthstats_lightning.pretraining.draft import Range
from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.responses.family import (
    Family,
    log_range_of,
    logit_range,
    middle_of,
    observe,
)
from synthstats_lightning.tasks.columns import Column

ORDERED = "transform=pm.distributions.transforms.ordered"


def exposure_column(request: Request) -> Column | None:
    """The column that a count is in proportion to.

    Args:
        request: What is to be answered.
    """
    return request.with_role("exposure")


def _rate_range(request: Request) -> Range:
    found = log_range_of(request)
    column = exposure_column(request)
    shift = 0.0 if column is None else math.log(middle_of(column))
    return Range(found.low - shift, found.high - shift)


def _rate(draft: Draft, location: str) -> str:
    column = exposure_column(draft.request)
    return f"pt.exp({location})" if column is None else f"{column.name}*pt.exp({location})"


def _writes_count(law: str) -> Callable[[Draft, str], None]:
    """Poisson and negative binomial counts, plain, inflated at zero or with a hurdle there."""

    def write(draft: Draft, location: str) -> None:
        parameters = [f"psi={draft.unit()}"] if law not in ("Poisson", "NegativeBinomial") else []
        parameters.append(f"mu={_rate(draft, location)}")
        if law.endswith("NegativeBinomial"):
            parameters.append(f"alpha={draft.positive('phi', draft.rng.choice((1.0, 3.0, 10.0)))}")
        observe(draft, law, *parameters)

    return write


def _total(draft: Draft) -> str:
    total = draft.request.response.total
    if total is None:
        raise ValueError("the response has no total")
    return str(total)


def _totals(request: Request) -> float:
    total = request.response.total
    if isinstance(total, str):
        column = next(column for column in request.covariates if column.name == total)
        return middle_of(column)
    return float(total or 1)


def _share_range(request: Request) -> Range:
    most, response = _totals(request), request.response
    return logit_range(response.low / most, response.high / most)


def _write_binomial(draft: Draft, location: str) -> None:
    observe(draft, "Binomial", _total(draft), f"logit_p={location}")


def _write_beta_binomial(draft: Draft, location: str) -> None:
    precision = draft.positive("phi", draft.rng.choice((3.0, 10.0, 30.0)))
    share = draft.define("p", f"pt.sigmoid({location})")
    observe(
        draft,
        "BetaBinomial",
        f"n={_total(draft)}",
        f"alpha={share}*{precision}",
        f"beta=(1 - {share})*{precision}",
    )


def _write_zero_inflated_binomial(draft: Draft, location: str) -> None:
    observe(
        draft,
        "ZeroInflatedBinomial",
        f"psi={draft.unit()}",
        f"n={_total(draft)}",
        f"p=pt.sigmoid({location})",
    )


def _write_bernoulli(draft: Draft, location: str) -> None:
    observe(draft, "Bernoulli", f"logit_p={location}")


def _writes_ordered(law: str, scale: float) -> Callable[[Draft, str], None]:
    def write(draft: Draft, location: str) -> None:
        number = len(draft.request.ordered) - 1
        cuts = draft.state("cuts", f"Normal(0, {scale:g}, shape={number}, {ORDERED})")
        observe(draft, law, f"eta={location}", f"cutpoints={cuts}")

    return write


def _unit_range(request: Request) -> Range:
    return Range(-2.0, 2.0)


def _narrow_range(request: Request) -> Range:
    return Range(-1.0, 1.0)


def _features(law: str) -> tuple[str, ...]:
    mixed = ("mixture",) if law.startswith(("Zero", "Hurdle")) else ()
    return (*mixed, "overdispersion") if law.endswith("NegativeBinomial") else mixed


COUNT = {
    law: Family(
        "log",
        _rate_range,
        _writes_count(law),
        (lambda request: not request.censoring and request.response.low == 0)
        if law.startswith(("Zero", "Hurdle"))
        else (lambda request: not request.censoring),
        features=_features(law),
    )
    for law in (
        "Poisson",
        "NegativeBinomial",
        "ZeroInflatedPoisson",
        "ZeroInflatedNegativeBinomial",
        "HurdlePoisson",
        "HurdleNegativeBinomial",
    )
}
TOTAL = {
    "Binomial": Family("logit", _share_range, _write_binomial),
    "BetaBinomial": Family("logit", _share_range, _write_beta_binomial, features=("overdispersion",)),
    "ZeroInflatedBinomial": Family(
        "logit",
        _share_range,
        _write_zero_inflated_binomial,
        lambda request: request.response.low == 0,
        features=("mixture",),
    ),
}
BINARY = {"Bernoulli": Family("logit", _unit_range, _write_bernoulli)}
ORDINAL = {
    "OrderedLogistic": Family("logit", _unit_range, _writes_ordered("OrderedLogistic", 2.0), intercept=False),
    "OrderedProbit": Family("logit", _narrow_range, _writes_ordered("OrderedProbit", 1.0), intercept=False),
}
