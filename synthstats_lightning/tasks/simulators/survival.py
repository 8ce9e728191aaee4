"""Survival of patients after surgery, with and without metastases."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, column
from synthstats_lightning.tasks.simulators.base import Variant
from synthstats_lightning.tasks.simulators.binary import BinarySimulator
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal


class SurvivalSimulator(BinarySimulator):
    """Whether a breast cancer patient has died a given time after surgery, with a constant hazard.

    Latents: `baseline ~ Gamma(shape 0.1, rate 0.1)`, `beta ~ HalfNormal(10)`. The hazard is
    `baseline * exp(beta * metastasised)`. An instance has 100 patients, `years ~ U(0, 10)` after surgery,
    metastasised with probability one half; a design is the number of a patient, whose outcome is fixed.
    Evaluation points are new patients.

    `boxing_gym`: the patient has died with probability `logistic(years * hazard)`, which is never below one
    half, even at year 0, and evaluation points hold as many deaths as survivals. `corrected`: with
    probability `1 - exp(-years * hazard)`, and points as they come (see `BinarySimulator`).

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        balanced: Whether evaluation points hold as many ones as zeros; by default as the variant says.
        num_patients: Patients of an instance, numbered from 0.
        max_years: Largest time since surgery.
        baseline_shape: Shape of the gamma prior of the baseline hazard.
        baseline_rate: Its rate, years.
        beta_scale: Scale of the half-normal prior of the log hazard ratio.
    """

    name: ClassVar[str] = "survival"
    description = (
        "Deaths (1) of breast cancer patients, by years since surgery and whether the cancer metastasised."
    )
    plain_description = "A binary response that depends on a binary and a positive number."
    question: ClassVar[str] = "Which patients have died?"
    columns = ("metastasised", "years", "died")
    repeatable: ClassVar[bool] = False

    def __init__(
        self,
        variant: Variant = "corrected",
        balanced: bool | None = None,
        num_patients: int = 100,
        max_years: float = 10.0,
        baseline_shape: float = 0.1,
        baseline_rate: float = 0.1,
        beta_scale: float = 10.0,
    ) -> None:
        super().__init__(variant, balanced)
        self.num_patients = num_patients
        self.max_years = max_years
        self.baseline_shape, self.baseline_rate = baseline_shape, baseline_rate
        self.beta_scale = beta_scale
        self.units = {"years": "years since surgery"}
        self.fields = (
            DesignField("patient", "integer", 0.0, float(num_patients - 1), "", "number of a patient"),
        )

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        baseline = rng.gamma(self.baseline_shape, 1.0 / self.baseline_rate, size)
        return {"baseline": baseline, "beta": np.abs(rng.normal(0.0, self.beta_scale, size))}

    def start(self, rng: np.random.Generator) -> None:
        """Draws the patients of the instance and their outcomes."""
        self.patients = self.evaluation_covariates(self.num_patients, rng)
        self.outcomes = self.simulate(self.latents_batch, self.patients, rng)[0]

    @property
    def design_notes(self) -> str:
        """Every patient whose outcome can be asked for, without words of the domain."""
        listed = zip(self.patients["metastasised"].tolist(), self.patients["years"].tolist(), strict=True)
        entries = [f"{number}: {status} {years:.2f}" for number, (status, years) in enumerate(listed)]
        return f"columns of each design by its number: {', '.join(entries)}"

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        return {key: values[[design["patient"]]] for key, values in self.patients.items()}

    def respond(self, design: Design, covariates: dict[str, Array], rng: np.random.Generator) -> Array:
        """The outcome of the patient."""
        outcome: Array = self.outcomes[[design["patient"]]]
        return outcome

    def exposure(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Hazard times years since surgery, `[size, rows]`."""
        hazard = column(latents["baseline"]) * np.exp(column(latents["beta"]) * covariates["metastasised"])
        return np.asarray(hazard * covariates["years"])

    def probability(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `BinarySimulator.probability`."""
        exposure = self.exposure(latents, covariates)
        return np.asarray(expit(exposure) if self.variant == "boxing_gym" else -np.expm1(-exposure))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`; exact where death is all but certain."""
        exposure = self.exposure(latents, covariates)
        died = np.asarray(response) == 1
        if self.variant == "boxing_gym":
            return np.where(died, 0.0, -exposure) - np.log1p(np.exp(-exposure))
        with np.errstate(divide="ignore"):
            return np.where(died, np.log(-np.expm1(-exposure)), -exposure)

    def evaluation_covariates(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `BinarySimulator.evaluation_covariates`."""
        return {"metastasised": rng.integers(0, 2, n), "years": rng.uniform(0.0, self.max_years, n)}

    def parameter_goals(self) -> list[Goal]:
        """The log hazard ratio of metastases."""
        return [
            parameter_goal(
                "metastasis",
                "beta",
                "What is the log hazard ratio of metastasised to other cancer?",
                "By how much does the log of the rate change with the binary input?",
                lambda latents: np.asarray(latents["beta"]),
            )
        ]
