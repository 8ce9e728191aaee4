"""Positive responses, those that are zero in some rows, and shares between zero and one."""

from __future__ import annotations

from synthstats_lightning.pretraining.draft import Range
from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.responses.family import (
    Family,
    log_range_of,
    logit_range,
    observe,
    plain_or_certain,
)
from synthstats_lightning.pretraining.wide.responses.scales import write_scale


def _write_log_normal(draft: Draft, location: str) -> None:
    observe(draft, "LogNormal", location, write_scale(draft, 1.5))


def _write_gamma(draft: Draft, location: str) -> None:
    shape = draft.positive("k", 5.0, 0.7)
    observe(draft, "Gamma", shape, f"{shape}/pt.exp({location})")


def _write_weibull(draft: Draft, location: str) -> None:
    observe(draft, "Weibull", draft.positive("k", 2.0), f"pt.exp({location})")


def _write_exponential(draft: Draft, location: str) -> None:
    observe(draft, "Exponential", f"pt.exp(-{_inner(location)})")


def _inner(location: str) -> str:
    return location if location.isidentifier() else f"({location})"


def _write_hurdle_gamma(draft: Draft, location: str) -> None:
    share, shape = draft.unit(), draft.positive("k", 3.0, 0.7)
    observe(draft, "HurdleGamma", f"psi={share}", f"alpha={shape}", f"beta={shape}/pt.exp({location})")


def _write_hurdle_log_normal(draft: Draft, location: str) -> None:
    share = draft.unit()
    observe(draft, "HurdleLogNormal", f"psi={share}", f"mu={location}", f"sigma={write_scale(draft, 1.5)}")


def _write_beta(draft: Draft, location: str) -> None:
    precision = draft.positive("phi", 20.0, 0.8)
    observe(draft, "Beta", f"mu=pt.sigmoid({location})", f"nu={precision}")


def _write_logit_normal(draft: Draft, location: str) -> None:
    observe(draft, "LogitNormal", location, write_scale(draft, 1.5))


def _is_positive(law: str, request: Request) -> bool:
    return request.response.low > 0 and plain_or_certain(law)(request)


def _is_semicontinuous(request: Request) -> bool:
    return request.response.low == 0 and not request.censoring


def _is_share(request: Request) -> bool:
    return request.response.low > 0 and request.response.high < 1 and not request.censoring


def _share_range(request: Request) -> Range:
    return logit_range(request.response.low, request.response.high)


POSITIVE = {
    "LogNormal": Family(
        "log",
        log_range_of,
        _write_log_normal,
        lambda request: _is_positive("LogNormal", request),
        scaled=True,
    ),
    "Gamma": Family("log", log_range_of, _write_gamma, lambda request: _is_positive("Gamma", request)),
    "Weibull": Family("log", log_range_of, _write_weibull, lambda request: _is_positive("Weibull", request)),
    "Exponential": Family(
        "log", log_range_of, _write_exponential, lambda request: _is_positive("Exponential", request)
    ),
}
SEMICONTINUOUS = {
    "HurdleGamma": Family(
        "log", log_range_of, _write_hurdle_gamma, _is_semicontinuous, features=("mixture",)
    ),
    "HurdleLogNormal": Family(
        "log", log_range_of, _write_hurdle_log_normal, _is_semicontinuous, features=("mixture",)
    ),
}
PROPORTION = {
    "Beta": Family("logit", _share_range, _write_beta, _is_share),
    "LogitNormal": Family("logit", _share_range, _write_logit_normal, _is_share, scaled=True),
}
