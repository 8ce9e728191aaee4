"""Settings of the reference engine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Sampler = Literal["nutpie", "pymc"]


@dataclass(frozen=True, slots=True)
class ReferenceSettings:
    """How long the reference engine samples, and what it accepts.

    Attributes:
        draws: Draws of each chain.
        tune: Draws of each chain that adapt the sampler and are discarded.
        chains: Independent chains, one after the other, at least 2.
        target_accept: Acceptance rate that NUTS aims at, between 0 and 1.
        smc_draws: Particles of each of PyMC's sequential Monte Carlo runs, which give the evidence with
            `pymc`.
        max_r_hat: Largest accepted split R-hat of any parameter (Vehtari et al. 2021).
        seed: Seed of all random numbers.
        time_limit: Limit of one program, compilation included, in seconds of processor time.
        memory_bytes: Limit of the process's private memory, in bytes.
    """

    draws: int = 1000
    tune: int = 1000
    chains: int = 4
    target_accept: float = 0.9
    smc_draws: int = 1000
    max_r_hat: float = 1.05
    seed: int = 0
    time_limit: float = 600.0
    memory_bytes: int = 8 * 2**30

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value >= 0 if field.name == "seed" else value > 0):
                raise ValueError(f"{field.name} must be above 0, got {value}")
        if self.chains < 2:
            raise ValueError(f"chains must be at least 2, got {self.chains}")
        if self.target_accept >= 1:
            raise ValueError(f"target_accept must be below 1, got {self.target_accept}")
        if self.max_r_hat <= 1:
            raise ValueError(f"max_r_hat must be above 1, got {self.max_r_hat}")
