"""Settings of the evaluation protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weighting = Literal["evidence", "stacking"]

ROWS = ("oracle", "baseline", "policy_best", "policy_set")
"""What is compared: the environment's own program, the intercept-only one, and a policy's programs."""


@dataclass(frozen=True)
class EvaluationSettings:
    """BoxingGym's protocol (Gandhi et al. 2025), with seeds that make it repeatable.

    Attributes:
        budgets: Numbers of experiments after which predictions are made, in ascending order; a budget's data
            are a prefix of the next one's. At 0 the prior predicts.
        seeds: Instances of each environment, one a seed; train on others.
        points: Evaluation points of each instance.
        goal: `"prediction"`, or a parameter goal of the environment.
        domain_knowledge: Whether the policy is told what the data are about.
        draws: Predictive draws of each program and point.
        weighting: How the programs of a policy's set are weighted: by evidence (Bayesian model averaging;
            times prior over policy where the policy looks at the data) or by stacking of leave-one-out
            densities.
        log_density_floor: A point's log predictive density counts as at least this much less than the
            baseline's, in nats: a program may deem a response impossible.
        reference_instances: Instances from which the constants of standardised errors are computed.
        eig_candidates: Random designs among which the best one is sought, for the information gain regret;
            0 for no regrets.
        eig_outer: Simulated responses of each information gain.
        eig_inner: Parameter draws for the marginal density of each.
        eig_particles: Draws of the posterior of the latents.

    Raises:
        ValueError: If a number is out of range.
    """

    budgets: tuple[int, ...] = (0, 1, 3, 5, 7, 10)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    points: int = 10
    goal: str = "prediction"
    domain_knowledge: bool = True
    draws: int = 500
    weighting: Weighting = "evidence"
    log_density_floor: float = -20.0
    reference_instances: int = 2000
    eig_candidates: int = 100
    eig_outer: int = 300
    eig_inner: int = 60
    eig_particles: int = 2000

    def __post_init__(self) -> None:
        if not self.budgets or list(self.budgets) != sorted(set(self.budgets)) or self.budgets[0] < 0:
            raise ValueError(
                f"budgets must be different numbers from 0 in ascending order, got {self.budgets}"
            )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            raise ValueError(f"seeds must be different numbers from 0, got {self.seeds}")
        if not self.log_density_floor < 0:
            raise ValueError(f"log_density_floor must be below 0, got {self.log_density_floor}")
        for name in ("points", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("reference_instances", "eig_outer", "eig_inner", "eig_particles"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, got {getattr(self, name)}")
        if self.eig_candidates < 0:
            raise ValueError(f"eig_candidates must be at least 0, got {self.eig_candidates}")
