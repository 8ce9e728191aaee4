"""How many draws of a block leave-one-out takes, by what they cost."""

from __future__ import annotations

ALONE = 2_048
"""Draws where no other parameter is left to average over."""
LEAVE_ONE_OUT_DRAWS = (2, 64, 512)
"""Fewest and most draws of leave-one-out for each value of the other parameters, and where none is left."""
ADDED_DRAWS = (8, 64, 512)
"""The same of the densities of rows that are not given."""
MANY = 1_000
"""Rows that differ, beyond which draws are fewer."""
WORK, WORK_OF_MANY = 8e6, 4e6
"""Log-likelihoods of rows that leave-one-out may take for all its draws, and that of `MANY` rows may."""
MATRIX_WORK = 1 / 160
"""What a multiplication of a block's dense matrices takes of a row's log-likelihood."""
LEAST_PARTICLES = 250
"""Fewest particles that leave-one-out may be thinned to."""


def work_for(rows: int) -> float:
    """Log-likelihoods of rows that leave-one-out may take.

    Args:
        rows: Number of rows that differ.
    """
    return WORK if rows <= MANY else WORK_OF_MANY


def affordable_draws(rows: int, size: int, particles: int, times: int, limits: tuple[int, int]) -> int:
    """Draws for each particle where rows are evaluated several times for each of them.

    Args:
        rows: Number of rows that differ.
        size: Dimensions of the block.
        particles: Number of particles.
        times: How many times all rows are evaluated for one draw.
        limits: Fewest and most draws.
    """
    least, most = limits
    left = work_for(rows) / particles - MATRIX_WORK * size**3
    return 2 * max(least // 2, min(most // 2, int(left / (times * rows) / 2)))


def most_particles(rows: int, size: int, times: int, least: int) -> int:
    """Particles that are affordable with the fewest draws of each.

    Args:
        rows: Number of rows that differ.
        size: Dimensions of the block.
        times: How many times all rows are evaluated for one draw.
        least: Fewest draws of each particle.
    """
    work = least * times * rows + MATRIX_WORK * size**3
    return max(int(work_for(rows) / work), LEAST_PARTICLES)
