"""How the perceptrons of `learning.screen` are made: `python -m synthstats_lightning.pretraining.screen`.

Programs of the grammar, data sets that they make with parameters from their priors, digests of these, and the
classes of the programs. Nothing here reads the data of any task.
"""
