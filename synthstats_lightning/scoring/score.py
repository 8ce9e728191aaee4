"""What scoring a program yields."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from synthstats_lightning.programs.failure import OUT_OF_TIME, TRANSIENT, FailureCategory


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How one of a program's scores was computed.

    Attributes:
        mcse: Its Monte-Carlo standard error, in nats.
        effective_sample_size: What the draws behind it are worth, the smallest over observations, in draws.
        pareto_k: Largest Pareto k of their weights; `None` where there are no weights to smooth.
        estimator: What computed it: `"importance"` or `"smc"`, after `"psis+"` for leave-one-out by
            smoothing and after `"refits+"` where some rows were refitted.
        seconds: What it cost beyond what it shares with the others; not compared.
        pointwise: Its value for each observation, in nats: for evidence the density given the observations
            before, for elpd given all others, for held-out ones given those that are not held out. Empty for
            the evidence of rows that depend on each other given the parameters.
    """

    mcse: float
    effective_sample_size: float
    pareto_k: float | None
    estimator: str
    seconds: float = field(compare=False)
    pointwise: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Integration:
    """What was integrated out of a model before it was estimated.

    Attributes:
        method: `"exact"` for a linear-Gaussian block, `"quadrature"` for a latent of independent elements.
        size: Parameters that were integrated out, in dimensions.
        check: What the method's own numeric check found: a relative error of the exact one, the largest
            difference to a finer and wider rule, in nats, of quadrature.
    """

    method: str
    size: int
    check: float

    @property
    def error(self) -> float:
        """What scores may be off by for it, in nats."""
        return self.check if self.method == "quadrature" else 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """A program's score on a task, or the reason why it has none.

    Attributes:
        failure: `None` if the program scored.
        message: One line that explains a failure; empty if the program scored.
        evidence: Log marginal likelihood of the scored rows given the shown ones, in nats.
        evidence_se: Monte-Carlo standard error of `evidence`, in nats.
        elpd: Leave-one-out expected log pointwise predictive density, in nats, summed over scored rows.
        elpd_se: Standard error of `elpd` over observations, in nats.
        heldout_lpd: Log predictive density of held-out rows given the others, in nats: of those that the task
            holds out, otherwise of those that the engine's settings choose; `None` where no rows are held
            out. Evidence and elpd do not count the rows that the task holds out.
        heldout_lpd_se: Standard error of `heldout_lpd` over observations, in nats.
        pareto_k: Largest Pareto k of the PSIS smoothing over observations.
        effective_sample_size: What the weighted particle set is worth, in particles.
        num_parameters: Unconstrained dimensions of the model.
        estimator: `"importance"` or `"smc"`.
        seconds: What scoring cost, in seconds; not part of equality checks between runs.
        canonical: Hash of the canonical form of the model graph.
        structure: Hash of the structure (canonical form without constants).
        summary: The model in one line of mathematics.
        literal_copies: Values of the response that the program holds as literals (`programs.literals`); it
            explains, and changes no score.
        diagnostics: How each score was computed, under `"evidence"`, `"elpd"` and `"heldout_lpd"`.
        integrated: What the estimators did not see because it was integrated out; `None` if they saw all.
    """

    failure: FailureCategory | None = None
    message: str = ""
    evidence: float | None = None
    evidence_se: float | None = None
    elpd: float | None = None
    elpd_se: float | None = None
    heldout_lpd: float | None = None
    heldout_lpd_se: float | None = None
    pareto_k: float | None = None
    effective_sample_size: float | None = None
    num_parameters: int | None = None
    estimator: str | None = None
    seconds: float = 0.0
    canonical: str | None = None
    structure: str | None = None
    summary: str | None = None
    literal_copies: int = 0
    diagnostics: dict[str, Diagnostics] = field(default_factory=dict)
    integrated: Integration | None = None

    @property
    def scored(self) -> bool:
        """Whether the program has a score."""
        return self.failure is None

    @property
    def settled(self) -> bool:
        """Whether it is the program's for good: another try on a machine that does less changes nothing."""
        out_of_time = self.failure is FailureCategory.SCORER_LIMIT and self.message.startswith(OUT_OF_TIME)
        return self.failure not in TRANSIENT and not out_of_time

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, with `status` first: `"scored"` or the failure category."""
        fields = asdict(self)
        failure = fields.pop("failure")
        return {"status": "scored" if failure is None else str(failure), **fields}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Score:
        """The inverse of `to_dict`."""
        fields = dict(fields)
        status = fields.pop("status")
        diagnostics = {
            name: Diagnostics(**{**each, "pointwise": tuple(each["pointwise"])})
            for name, each in fields.pop("diagnostics", {}).items()
        }
        integrated = fields.pop("integrated", None)
        integrated = None if integrated is None else Integration(**integrated)
        failure = None if status == "scored" else FailureCategory(status)
        return cls(failure=failure, diagnostics=diagnostics, integrated=integrated, **fields)

    @classmethod
    def failed(cls, category: FailureCategory, message: str, seconds: float = 0.0) -> Score:
        """A failed score."""
        return cls(failure=category, message=message, seconds=seconds)
