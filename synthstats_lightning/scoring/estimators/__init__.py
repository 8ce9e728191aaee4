"""Evidence and posterior of a density: modes, importance sampling, tempering."""
