"""The wheel holds what a user needs who has nothing else: configurations, and the files that they name."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 16e6
"""Bytes that the package is to have at most, bundled policies included."""
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", "*.pyc")


def test_every_configuration_is_in_the_wheel(tmp_path):
    source = tmp_path / "source"
    for folder in ("synthstats_lightning", "configs"):
        shutil.copytree(ROOT / folder, source / folder, ignore=LEFT_BEHIND)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*command, "-w", tmp_path, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size <= LARGEST
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    for folder, place in (("configs", "synthstats_lightning/configs"), ("synthstats_lightning",) * 2):
        written = {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.is_file()}
        expected = {
            f"{place}/{path}" for path in written if "__pycache__" not in path.parts and path.suffix != ".pyc"
        }
        assert expected - names == set()
    assert not {name for name in names if name.split("/")[0] in ("configs", "tests", "benchmarks")}
