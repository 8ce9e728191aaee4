"""Finite discrete parameters, summed out of a density exactly."""
