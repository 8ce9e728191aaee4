"""Special functions and transforms, on tensors."""
