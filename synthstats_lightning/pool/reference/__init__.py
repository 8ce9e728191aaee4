"""The reference engine: PyMC's own samplers in a confined process, for checks."""
