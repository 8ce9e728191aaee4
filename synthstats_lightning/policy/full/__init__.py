"""Training all weights instead of an adapter: which modes there are, and the reference's own weights."""
