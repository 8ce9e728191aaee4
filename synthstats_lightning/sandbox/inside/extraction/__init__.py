"""From a PyMC model to a model graph."""
