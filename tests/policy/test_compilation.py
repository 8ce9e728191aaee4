"""A compiled forward pass says what an uncompiled one says; without a compiler there is one clear line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from synthstats_lightning.policy import LoraSettings, ModelSettings, load_policy

LORA = LoraSettings(rank=4, alpha=8.0)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_values_and_gradients_are_the_same_for_any_length(model_folder: Path) -> None:
    # in a process of its own: the type checks that tests put around functions are not for compiling
    script = Path(__file__).with_name("compiled_run.py")
    done = subprocess.run(
        [sys.executable, "-m", "tests.policy.compiled_run", str(model_folder)],
        cwd=script.parents[2],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 0, "something was compiled"


def test_no_compiler_is_one_clear_line(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match=r"compile: true needs a C\+\+ compiler, and there is no 'g\+\+'"):
        load_policy(str(model_folder), LORA, ModelSettings(compile=True))
