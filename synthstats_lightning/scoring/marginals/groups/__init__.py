"""Group quadrature: latents of which each row reads one element at most, integrated out by element."""
