"""The table of distributions in torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from synthstats_lightning.scoring.distributions.asymmetric_laplace import ASYMMETRIC_LAPLACE
from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.distributions.bernoulli import BERNOULLI
from synthstats_lightning.scoring.distributions.beta import BETA
from synthstats_lightning.scoring.distributions.beta_binomial import BETA_BINOMIAL
from synthstats_lightning.scoring.distributions.binomial import BINOMIAL
from synthstats_lightning.scoring.distributions.categorical import CATEGORICAL
from synthstats_lightning.scoring.distributions.cauchy import CAUCHY
from synthstats_lightning.scoring.distributions.dirichlet import DIRICHLET
from synthstats_lightning.scoring.distributions.discrete_uniform import DISCRETE_UNIFORM
from synthstats_lightning.scoring.distributions.discrete_weibull import DISCRETE_WEIBULL
from synthstats_lightning.scoring.distributions.ex_gaussian import EX_GAUSSIAN
from synthstats_lightning.scoring.distributions.exponential import EXPONENTIAL
from synthstats_lightning.scoring.distributions.gamma import GAMMA
from synthstats_lightning.scoring.distributions.garch import GARCH11
from synthstats_lightning.scoring.distributions.gaussian_field import CAR, ICAR
from synthstats_lightning.scoring.distributions.geometric import GEOMETRIC
from synthstats_lightning.scoring.distributions.gumbel import GUMBEL
from synthstats_lightning.scoring.distributions.half_cauchy import HALF_CAUCHY
from synthstats_lightning.scoring.distributions.half_normal import HALF_NORMAL
from synthstats_lightning.scoring.distributions.half_student_t import HALF_STUDENT_T
from synthstats_lightning.scoring.distributions.hyper_geometric import HYPER_GEOMETRIC
from synthstats_lightning.scoring.distributions.interpolated import INTERPOLATED
from synthstats_lightning.scoring.distributions.inverse_gamma import INVERSE_GAMMA
from synthstats_lightning.scoring.distributions.kumaraswamy import KUMARASWAMY
from synthstats_lightning.scoring.distributions.laplace import LAPLACE
from synthstats_lightning.scoring.distributions.lkj_corr import LKJ_CORR, LKJ_CORR_CHOLESKY
from synthstats_lightning.scoring.distributions.log_normal import LOG_NORMAL
from synthstats_lightning.scoring.distributions.logistic import LOGISTIC
from synthstats_lightning.scoring.distributions.logit_normal import LOGIT_NORMAL
from synthstats_lightning.scoring.distributions.matrix_normal import MATRIX_NORMAL
from synthstats_lightning.scoring.distributions.moyal import MOYAL
from synthstats_lightning.scoring.distributions.multinomial import DIRICHLET_MULTINOMIAL, MULTINOMIAL
from synthstats_lightning.scoring.distributions.mv_normal import MV_NORMAL
from synthstats_lightning.scoring.distributions.mv_student_t import MV_STUDENT_T
from synthstats_lightning.scoring.distributions.negative_binomial import NEGATIVE_BINOMIAL
from synthstats_lightning.scoring.distributions.normal import NORMAL
from synthstats_lightning.scoring.distributions.pareto import PARETO
from synthstats_lightning.scoring.distributions.poisson import POISSON
from synthstats_lightning.scoring.distributions.rice import RICE
from synthstats_lightning.scoring.distributions.skew_normal import SKEW_NORMAL
from synthstats_lightning.scoring.distributions.skew_student_t import SKEW_STUDENT_T
from synthstats_lightning.scoring.distributions.stick_breaking_weights import STICK_BREAKING_WEIGHTS
from synthstats_lightning.scoring.distributions.student_t import STUDENT_T
from synthstats_lightning.scoring.distributions.triangular import TRIANGULAR
from synthstats_lightning.scoring.distributions.uniform import UNIFORM
from synthstats_lightning.scoring.distributions.von_mises import VON_MISES
from synthstats_lightning.scoring.distributions.wald import WALD
from synthstats_lightning.scoring.distributions.weibull import WEIBULL
from synthstats_lightning.scoring.distributions.wishart import WISHART
from synthstats_lightning.scoring.distributions.zero_sum_normal import ZERO_SUM_MATRIX, ZERO_SUM_NORMAL

_ENTRIES = (
    NORMAL,
    HALF_NORMAL,
    LOG_NORMAL,
    EXPONENTIAL,
    GAMMA,
    INVERSE_GAMMA,
    BETA,
    UNIFORM,
    STUDENT_T,
    HALF_STUDENT_T,
    CAUCHY,
    HALF_CAUCHY,
    LAPLACE,
    LOGISTIC,
    POISSON,
    NEGATIVE_BINOMIAL,
    BINOMIAL,
    BERNOULLI,
    ASYMMETRIC_LAPLACE,
    EX_GAUSSIAN,
    GUMBEL,
    INTERPOLATED,
    KUMARASWAMY,
    LOGIT_NORMAL,
    MOYAL,
    PARETO,
    RICE,
    SKEW_NORMAL,
    SKEW_STUDENT_T,
    TRIANGULAR,
    VON_MISES,
    WALD,
    WEIBULL,
    BETA_BINOMIAL,
    CATEGORICAL,
    DISCRETE_UNIFORM,
    DISCRETE_WEIBULL,
    GEOMETRIC,
    HYPER_GEOMETRIC,
    MV_NORMAL,
    MV_STUDENT_T,
    DIRICHLET,
    ZERO_SUM_NORMAL,
    ZERO_SUM_MATRIX,
    STICK_BREAKING_WEIGHTS,
    MULTINOMIAL,
    DIRICHLET_MULTINOMIAL,
    GARCH11,
    LKJ_CORR,
    LKJ_CORR_CHOLESKY,
    CAR,
    ICAR,
    MATRIX_NORMAL,
    WISHART,
)

DISTRIBUTIONS: Mapping[str, Distribution] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Torch side of `programs.distributions`, by the same names."""
