"""What a worker of the pool is made from, here or on another machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from synthstats_lightning.confinement import Level, check_level
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.scoring.settings import EngineSettings


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker is made from; on another machine, equal settings share a worker.

    Attributes:
        limits: What each program may use of the machine.
        engine: How much work the engine spends on a program, and what it accepts.
        sandbox: How strictly the kernel confines programs: `"strict"`, `"standard"`, `"plus"` or `"none"`.
        score_cache: Path of a file of scores on the worker's machine; none by default.

    Raises:
        ValueError: If there is no such level.
    """

    limits: SandboxLimits = field(default_factory=SandboxLimits)
    engine: EngineSettings = field(default_factory=EngineSettings)
    sandbox: Level = "strict"
    score_cache: str | None = None

    def __post_init__(self) -> None:
        check_level(self.sandbox)
