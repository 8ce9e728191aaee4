"""From a model graph and data to the terms of a batched log-density."""
