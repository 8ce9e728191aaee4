"""All posteriors of the stress test by name."""

from __future__ import annotations

from stress_parts import bilinear, counts, hierarchies, mixtures, modes, ridge, series, sparse

CASES = {
    name: case
    for module in (ridge, hierarchies, bilinear, sparse, modes, mixtures, counts, series)
    for name, case in module.CASES.items()
}
"""Name to case."""
