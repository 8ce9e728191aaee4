"""Figures of vLLM in the process that asks: in its own environment, which need not be the benchmark's.

PYTHONPATH=. "$(tests/servers/vllm_cpu.sh python)" benchmarks/rollout_parts/in_process.py --json FILE
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from figures_file import Options, figures_file
from rollout_parts.backends import Figures, change, measure, prompts_of

from synthstats_lightning.policy import LoraSettings, SamplingSettings, load_policy
from synthstats_lightning.rollouts import AdapterVersions, ServerBackend
from synthstats_lightning.rollouts.engine_connection import EngineConnection
from synthstats_lightning.rollouts.engine_settings import engine_settings
from synthstats_lightning.rollouts.vllm_engine import VLLMEngine

ROOT = Path(__file__).resolve().parent.parent.parent


def measure_in_process(name: str, programs: int, length: int) -> Figures:
    """Figures of an engine in this process.

    Args:
        name: The base model.
        programs: How many are written at once.
        length: Tokens of each, where speed is measured.
    """
    policy = load_policy(name, LoraSettings(), seed=0)
    change(policy, 0)

    class Longest:
        sampling = SamplingSettings(max_new_tokens=max(length, 128))

    settings = engine_settings(policy, [], prompts_of(policy), [Longest()], 1, 0.3)
    connection = EngineConnection(lambda: VLLMEngine(settings))
    with tempfile.TemporaryDirectory() as folder:
        backend = ServerBackend([connection], AdapterVersions([connection], Path(folder), keep=1))
        try:
            return measure(policy, backend, programs, length)
        finally:
            backend.versions.close()
            backend.close()


def measure_elsewhere(script: Path, name: str, programs: int, length: int) -> Figures:
    """The same in this process where vLLM is there, else in a process of the environment that has it.

    Args:
        script: Which tells the environment's interpreter.
        name: The base model.
        programs: How many are written at once.
        length: Tokens of each, where speed is measured.

    Raises:
        RuntimeError: If there is no such environment, or the measurement fails.
    """
    if importlib.util.find_spec("vllm") is not None:
        return measure_in_process(name, programs, length)
    python = subprocess.run(["bash", str(script), "python"], capture_output=True, text=True, check=True)
    interpreter = python.stdout.strip()
    if not Path(interpreter).is_file():
        raise RuntimeError(f"no vLLM in {interpreter}: run {script} install")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        given = [f"--policy={name}", f"--programs={programs}", f"--length={length}", f"--json={path}"]
        ran = subprocess.run(
            [interpreter, __file__, *given],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        if ran.returncode:
            raise RuntimeError(" ".join(ran.stderr.split())[-300:])
        found: Figures = json.loads(path.read_text(encoding="utf-8"))
        return found


def main() -> None:
    """Measures and writes."""
    parser = Options(description=__doc__)
    parser.add_argument("--policy", default="tiny")
    parser.add_argument("--programs", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--json", type=figures_file, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    figures = measure_in_process(arguments.policy, arguments.programs, arguments.length)
    arguments.json.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
