"""How much memory a device has left."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on a device.

    On a GPU what the driver has free and what PyTorch's allocator holds unused; on a CPU what the system and
    the process's control group leave, pages of files that can be dropped included.

    Args:
        device: A CUDA device or the CPU; of any other the CPU's memory counts.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return min([_available(), *_left_by_groups()])


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        names = ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")
        pages = next(os.sysconf(name) for name in names if name in os.sysconf_names)
        return pages * os.sysconf("SC_PAGE_SIZE")
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) * 1024


def _left_by_groups() -> list[int]:
    """What control groups with a limit leave to the process."""
    left = []
    for limit, used, statistics in _CGROUPS:
        try:
            most, now = Path(limit).read_text().strip(), int(Path(used).read_text())
            stat = Path(statistics).read_text()
        except OSError:  # no such group
            continue
        if most.isdigit():
            fields = dict(line.split() for line in stat.splitlines())
            left.append(max(0, int(most) - now + int(fields.get("inactive_file", 0))))
    return left
