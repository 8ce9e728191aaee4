"""vLLM as `vllm_cpu.sh` starts it."""

from __future__ import annotations

from pathlib import Path

SCRIPT = Path(__file__).with_name("vllm_cpu.sh")
