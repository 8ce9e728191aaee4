"""Programs as scripts of PyMC alone, with the data and the figures that they reproduce."""
