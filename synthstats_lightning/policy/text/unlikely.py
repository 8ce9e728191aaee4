"""What a token loses that a rule speaks against."""

UNLIKELY = 15.0
"""Nats that a token loses where a rule speaks against it. It is no ban: a program from elsewhere that breaks
a rule still has a probability, so that it can be imitated and replayed."""
