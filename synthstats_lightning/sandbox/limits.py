"""What one program may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one program; the kernel enforces all but the last three.

    Attributes:
        address_space: Bytes of address space that the program may map beyond what the warm worker maps
            already.
        cpu_seconds: Seconds of CPU time, whole ones as the kernel counts them.
        wall_seconds: Seconds that it may neither compute nor wait for a processor, so sleep or be stopped. It
            is run once more before that is believed; everything it started is killed each time. With
            `processes`, waiting counts too.
        file_size: Bytes of the largest file that it may write.
        processes: Processes and threads that it may start beside its own. The kernel counts them over all
            processes of the same user, so that for an unprivileged user only 0 is exact; programs need
            none.
        open_files: File descriptors that it may hold at once.
        output_bytes: Bytes of the result document.
        log_bytes: Bytes printed to standard output and standard error together.
        source_bytes: Bytes of the source in UTF-8.

    Raises:
        ValueError: If a limit is not positive (`processes` and `file_size` may be 0).
    """

    address_space: int = 1024 * MIB
    cpu_seconds: int = 5
    wall_seconds: float = 2.5
    file_size: int = 1 * MIB
    processes: int = 0
    open_files: int = 64
    output_bytes: int = 1_000_000
    log_bytes: int = 64 * 1024
    source_bytes: int = 100_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            lowest = 0 if field.name in {"processes", "file_size"} else 1
            if field.name == "wall_seconds":
                if not 0 < value < float("inf"):
                    raise ValueError(f"wall_seconds must be a positive number of seconds, got {value!r}")
            elif isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise ValueError(f"{field.name} must be an integer of at least {lowest}, got {value!r}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SandboxLimits:
        """The inverse of `to_dict`."""
        return cls(**values)
