"""Decoding in as many rows at once as memory allows."""
