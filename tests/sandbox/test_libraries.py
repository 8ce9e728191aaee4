"""What level `standard` lets a program read, by name."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pytest

import synthstats_lightning
from synthstats_lightning.sandbox.inside.libraries import library_paths


def test_libraries_and_nothing_that_holds_others_data() -> None:
    paths = [Path(path).resolve() for path in library_paths()]
    for needed in (os.__file__, np.__file__, "/dev/null"):
        assert any(Path(needed).resolve() in (path, *path.rglob("*")) for path in paths if path.exists())
    own = Path(synthstats_lightning.__file__).resolve().parent
    shared = [own, *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib"))]
    for folder in (
        *shared,
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path.home(),
        Path(tempfile.gettempdir()),
    ):
        assert folder not in paths
        assert not any(path in folder.parents for path in paths), folder
    assert not any(own in path.parents for path in paths)


@pytest.mark.parametrize("name", ["stdlib", "purelib"])
def test_data_among_libraries_are_none_of_them(name: str) -> None:
    parent = sysconfig.get_path(name)
    if not os.access(parent, os.W_OK):
        pytest.skip("not a place for this user's data")
    folder = Path(tempfile.mkdtemp(prefix="data_", dir=parent))
    try:
        assert not {str(folder), str(folder.resolve())} & set(library_paths())
    finally:
        shutil.rmtree(folder)
