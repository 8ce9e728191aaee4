"""How strictly a process is confined."""

from __future__ import annotations

from typing import Literal, get_args

Level = Literal["strict", "standard", "plus", "none"]
"""`"strict"`: no system call that takes a path, and Landlock where the kernel has it; holds in containers and
on old kernels. `"standard"`: the files of the interpreter and its libraries may be read, under Landlock, for
lazy imports; where the kernel allows mount namespaces, nothing else can be seen to exist.
`"plus"`: strict, in user, network, IPC, UTS and mount namespaces of its own where the kernel allows them.
`"none"`: resource limits only."""

LEVELS: tuple[Level, ...] = get_args(Level)


def check_level(level: str) -> Level:
    """A level by its name.

    Raises:
        ValueError: If there is none of that name.
    """
    for known in LEVELS:
        if level == known:
            return known
    raise ValueError(f"sandbox must be one of {', '.join(LEVELS)}, got {level!r}")
