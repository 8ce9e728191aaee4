"""Training of a policy that points at columns and reads digests, from simulated data sets."""
