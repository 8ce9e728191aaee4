"""Where a score's random numbers come from: equal models of equal data draw the same ones."""

from __future__ import annotations

import hashlib


def graph_seed(form: str, fingerprint: str) -> int:
    """Seed of a score's random numbers, from the canonical form and the data.

    Args:
        form: Canonical form of the graph.
        fingerprint: Hash of the data, see `programs.fingerprint`.
    """
    return int.from_bytes(hashlib.sha256(f"{form}\n{fingerprint}".encode()).digest()[:7], "big")
