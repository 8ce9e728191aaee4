"""The form of a model: what a statistician calls it, whatever its priors and the scales of its columns."""
