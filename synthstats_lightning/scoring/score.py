"""What scoring a program yields."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
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

    @property
    def is_finite(self) -> bool:
        """Whether every number is one."""
        numbers = (self.mcse, self.effective_sample_size, self.pareto_k or 0.0, self.seconds)
        return all(map(math.isfinite, (*numbers, *self.pointwise)))


@dataclass(frozen=True, slots=True)
class Integration:
    """What was integrated out of a model before it was estimated.

    Attributes:
        method: `"exact"` for a linear-Gaussian block, `"quadrature"` for a latent of independent elements,
            `"laplace"` for a normal block under another likelihood, by weighted draws.
        size: Parameters that were integrated out, in dimensions.
        check: What the method's own numeric check found: a relative error of the exact one; of the others, in
            nats, the largest difference to a finer and wider rule, and what the weighted draws may be off by
            beyond the scores' own standard errors.
    """

    method: str
    size: int
    check: float

    @property
    def error(self) -> float:
        """What scores may be off by for it, in nats."""
        return 0.0 if self.method == "exact" else self.check


@dataclass(frozen=True, slots=True)
class Score:
    """A program's score on a task, or the reason why it has none.

    Attributes:
        failure: `None` if the program scored.
        message: One line that explains a failure; empty if the program scored.
        evidence: Log marginal likelihood of the scored rows given the shown ones, in nats.
        evidence_se: Monte-Carlo standard error of `evidence`, in nats.
        elpd: Leave-one-out expected log pointwise predictive density, in nats, summed over scored rows;
            `None` where the settings ask for no elpd, as those of a run whose reward is the evidence do.
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
        graph: The canonical model graph, as `ModelGraph.from_record` reads it; `None` of a failure.
        literal_copies: Values of the response that the program holds as literals (`programs.literals`); it
            explains, and changes no score.
        diagnostics: How each score that was computed was, under `"evidence"`, `"elpd"` and `"heldout_lpd"`.
        integrated: What the estimators did not see because it was integrated out; `None` if they saw all.
        terms: Values of the reward's terms by their keys; empty where there are none.
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
    graph: str | None = None
    literal_copies: int = 0
    diagnostics: dict[str, Diagnostics] = field(default_factory=dict)
    integrated: Integration | None = None
    terms: dict[str, float] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """Whether the program has a score."""
        return self.failure is None

    @property
    def settled(self) -> bool:
        """Whether it is the program's for good: another try on a machine that does less changes nothing."""
        out_of_time = self.failure is FailureCategory.SCORER_LIMIT and self.message.startswith(OUT_OF_TIME)
        return self.failure not in TRANSIENT and not out_of_time

    def finite(self) -> Score:
        """The same with finite numbers only, which can be stored and written.

        An evidence, elpd or held-out density that is not finite makes the score a failure; of anything else
        such a value is left out.
        """
        for name in ("evidence", "elpd", "heldout_lpd"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                failed = Score.failed(FailureCategory.NON_FINITE, f"{name} is {value}")
                return replace(
                    failed, canonical=self.canonical, structure=self.structure, summary=self.summary
                ).finite()
        missing: dict[str, Any] = {}
        for name in ("evidence_se", "elpd_se", "heldout_lpd_se", "pareto_k", "effective_sample_size"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                missing[name] = None
        diagnostics = {name: each for name, each in self.diagnostics.items() if each.is_finite}
        if len(diagnostics) < len(self.diagnostics):
            missing["diagnostics"] = diagnostics
        return replace(self, **missing) if missing else self

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, with `status` first: `"scored"` or the failure category; all numbers finite."""
        fields = asdict(self.finite())
        failure = fields.pop("failure")
        if not self.terms:
            del fields["terms"]
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
