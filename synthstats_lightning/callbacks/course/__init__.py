"""The way of a run to its target: temperatures, log Z, and what it warns of."""
