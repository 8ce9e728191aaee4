"""The wide grammar: requests, programs for them and data that the programs make.

`draw_request(rng, weights)` makes a request up, `draw_program(rng, request, weights)` writes a program for it
from the prior over forms, and `simulate(rng, request, program)` tries the program once on made-up covariates:
data that go with the request, or `None`. `rng` is a `random.Random`. Several programs of one request share
`draw_covariates(rng, request)`; accepted data become a task by `Simulated.task()`, from which digests are
made, and `request_of(task)` is the request of a real one.
"""

from synthstats_lightning.pretraining.wide.program import Program, draw_program
from synthstats_lightning.pretraining.wide.request import Request, request_of
from synthstats_lightning.pretraining.wide.requests import draw_request
from synthstats_lightning.pretraining.wide.simulation import Simulated, simulate
from synthstats_lightning.pretraining.wide.values import draw_covariates
from synthstats_lightning.pretraining.wide.weights import WEIGHTS, Weights

__all__ = [
    "WEIGHTS",
    "Program",
    "Request",
    "Simulated",
    "Weights",
    "draw_covariates",
    "draw_program",
    "draw_request",
    "request_of",
    "simulate",
]
