"""Training of the bundled policy for episodes."""
