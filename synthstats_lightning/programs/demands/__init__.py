"""What validation demands of the parameters of random nodes."""
