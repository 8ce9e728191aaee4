"""Confining a process by the Linux kernel: seccomp, Landlock, privileges and namespaces, through `ctypes`.

Needs no root, no setuid helper, no container engine and nothing beyond the standard library. Imports nothing
of this package: the sandbox confines programs with it, the scoring process confines itself.
"""

from synthstats_lightning.confinement.confiner import ConfinementUnavailable, Confiner
from synthstats_lightning.confinement.levels import LEVELS, Level, check_level

__all__ = ["LEVELS", "ConfinementUnavailable", "Confiner", "Level", "check_level"]
