"""From a batch of trajectories to a loss: inputs, metrics of a step, throughput, rebuilding objects."""
