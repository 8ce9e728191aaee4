"""Groups with several latents each, integrated out by adaptive Gauss-Hermite quadrature, group by group."""
