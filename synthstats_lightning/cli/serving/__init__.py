"""What starts an inference server for a run."""
