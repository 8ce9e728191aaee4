"""Choosing among programs that are drawn blind, by what a digest of the data says of their structure.

    proposal(program) = blind(program) * inclusion(program)

A program's inclusion probability is known, so importance weights stay exact, whatever the perceptrons say.
"""

from synthstats_lightning.learning.screen.inclusion import Chosen, choose
from synthstats_lightning.learning.screen.perceptrons import Perceptron, load_perceptrons
from synthstats_lightning.learning.screen.screening import Screen

__all__ = ["Chosen", "Perceptron", "Screen", "choose", "load_perceptrons"]
