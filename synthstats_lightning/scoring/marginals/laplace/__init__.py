"""Normal parameters under any likelihood: a Laplace proposal given the others, corrected by its weights."""
