"""What a run's posterior says, as plain values: programs, forms, and how sure the shares are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synthstats_lightning.programs.graph import ModelGraph


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """One distinct program of a run that has an evidence.

    Attributes:
        source: Source text of the program.
        graph: Canonical model graph; `None` where the record holds none.
        evidence: Log marginal likelihood, in nats.
        evidence_se: Its Monte-Carlo standard error, in nats.
        elpd: Leave-one-out expected log predictive density, in nats; `None` where it was not computed.
        elpd_se: Its standard error over observations, in nats.
        pointwise_elpd: What each scored row adds to `elpd`, in nats; empty where it was not computed.
        reference_log_prob: Log of the program's prior probability, in nats.
        log_weight: Log of prior times evidence, in nats, not normalised.
        share: Share of the posterior that this one program has.
        form: Key of its form.
        num_parameters: Unconstrained dimensions of the model.
        summary: The model in one line, with its priors.
        canonical: Hash of the canonical form, which several texts may share.
        structure: Hash of the structure.
        step: Training step at which it was first seen; `None` where the record does not say.
        count: How often it was sampled.
    """

    source: str
    graph: ModelGraph | None
    evidence: float
    evidence_se: float | None
    elpd: float | None
    elpd_se: float | None
    pointwise_elpd: tuple[float, ...]
    reference_log_prob: float
    log_weight: float
    share: float
    form: str
    num_parameters: int | None
    summary: str
    canonical: str | None
    structure: str | None
    step: int | None
    count: int


@dataclass(frozen=True, slots=True)
class FormSummary:
    """All programs of one form.

    Attributes:
        key: Hash of the form.
        text: The form in one line.
        features: What kind of model it is: `"nonlinear"`, `"interaction"`, ...; see `programs.forms`.
        covariates: Columns that the response's distribution reads.
        share: Posterior share, of all mass that is estimated to be there.
        prior_share: Share of the prior of programs that have an evidence; of those that were found alone,
            where no draws of a known law say more.
        log_bayes_factor: Log of the form's evidence over that of the first form, in nats.
        best: Program of the highest evidence.
        evidence_best: Evidence of that one, in nats.
        evidence_mixture: Log evidence of the form: the mean of its programs' evidences by their prior, in
            nats; of programs that were not found too, where draws of a known law say so.
        elpd: Of the mixture of its programs by their weights, in nats; `None` where it was not computed.
        elpd_difference: That minus the best form's elpd, in nats, at most 0.
        elpd_difference_se: Standard error of the difference over observations, in nats.
        stacking_weight: Weight in the mixture of forms that predicts left-out rows best; `None` of a form
            without elpd, or of small share.
        programs: Its programs, largest share first.
        num_parameters: Fewest unconstrained dimensions among its programs.
    """

    key: str
    text: str
    features: frozenset[str]
    covariates: frozenset[str]
    share: float
    prior_share: float
    log_bayes_factor: float
    best: ProgramSummary
    evidence_best: float
    evidence_mixture: float
    elpd: float | None
    elpd_difference: float | None
    elpd_difference_se: float | None
    stacking_weight: float | None
    programs: tuple[ProgramSummary, ...]
    num_parameters: int | None

    @property
    def num_programs(self) -> int:
        """How many distinct programs of the run are of this form."""
        return len(self.programs)


@dataclass(frozen=True, slots=True)
class PosteriorEstimate:
    """How the shares were computed, and how far they can be trusted.

    Attributes:
        method: What the shares come from, in a sentence.
        effective_sample_size: How many draws of equal weight would tell as much of the shares; NaN where
            there are no draws of a known law.
        unseen_mass: Estimated share of the posterior on programs that the run has not seen; NaN where the run
            allows no estimate.
        log_z: Log of the total of prior times evidence, unseen programs included, in nats; NaN where the run
            allows no estimate.
        log_z_se: Its standard error, in nats; NaN where it is not known.
        num_draws: Sampled programs that the estimate of what is unseen comes from.
    """

    method: str
    effective_sample_size: float
    unseen_mass: float
    log_z: float
    log_z_se: float
    num_draws: int


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Posterior probabilities that the response's distribution has something.

    Attributes:
        covariates: Probability that a column is read, by its name.
        features: Probability of a feature of the form, by its name, see `programs.forms`.
    """

    covariates: Mapping[str, float]
    features: Mapping[str, float]
