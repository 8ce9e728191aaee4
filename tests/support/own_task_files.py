"""Files that a user would write: a simulator and data of their own, in Python and in YAML."""

SIMULATOR = '''
"""Cooling of a cup of coffee."""

import numpy as np

from synthstats_lightning.tasks.simulators import DesignField, Simulator


class Coffee(Simulator):
    """The temperature of coffee above that of the room."""

    name = "coffee"
    description = "Temperature of coffee above that of the room, by minutes since it was poured."
    plain_description = "A number that shrinks with another."
    question = "How warm is the coffee at given times?"
    columns = ("minutes", "warmth")
    units = {"minutes": "minutes", "warmth": "kelvin"}
    response_kind = "continuous"
    fields = (DesignField("minutes", "continuous", 0.0, 60.0, "minutes"),)

    def __init__(self, noise: float = 1.0) -> None:
        super().__init__()
        self.noise = noise

    def sample_latents(self, rng, size):
        return {"rate": rng.gamma(20.0, 0.002, size)}

    def covariates(self, design):
        return {"minutes": np.array([design["minutes"]])}

    def mean(self, latents, covariates):
        return 60.0 * np.exp(-latents["rate"][:, None] * covariates["minutes"])

    def simulate(self, latents, covariates, rng):
        mean = self.mean(latents, covariates)
        return mean + self.noise * rng.standard_normal(mean.shape)

    def log_likelihood(self, latents, covariates, response):
        z = (response - self.mean(latents, covariates)) / self.noise
        return -0.5 * z**2 - np.log(self.noise * np.sqrt(2 * np.pi))

    def evaluation_rows(self, n, rng):
        rows = {"minutes": rng.uniform(0.0, 60.0, n)}
        return {**rows, "warmth": self.simulate(self.latents_batch, rows, rng)[0]}
'''

SIMULATOR_YAML = """
data:
  class_path: ReplayDataModule
  init_args:
    tasks:
      - class_path: SimulatedTask
        init_args:
          simulator:
            class_path: coffee.Coffee
            init_args:
              noise: 2.0
          num_observations: 12
          held_out: 4
"""

DATA = '''
"""Heights of plants, in centimetres whatever the file says."""

from synthstats_lightning import CSVTask


class Plants(CSVTask):
    """A file of heights in metres or centimetres."""

    def __init__(self, path: str, metres: bool = False, held_out: int = 0) -> None:
        super().__init__(
            path,
            response="height",
            description="Heights of plants by dose of fertiliser.",
            units={"height": "metres" if metres else "cm", "dose": "g"},
            response_kind="continuous",
            held_out=held_out,
        )
'''

DATA_YAML = """
data:
  class_path: ReplayDataModule
  init_args:
    tasks:
      - class_path: plants.Plants
        init_args:
          path: plants.csv
          metres: true
          held_out: 2
"""
