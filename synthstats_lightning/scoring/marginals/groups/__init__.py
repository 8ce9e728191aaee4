"""Group quadrature: latents of which each row reads at most one element, integrated out element by element."""
