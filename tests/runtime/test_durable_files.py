"""A file that is replaced is the old one or the new one, whatever happens."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from synthstats_lightning.runtime.durable_files import is_temporary, out_of_space, replacing, write_text


def test_the_new_content_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "folder" / "programs.jsonl"
    write_text(path, "one\n")
    write_text(path, "two μ\n")
    assert path.read_bytes() == "two μ\n".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["programs.jsonl"]


def test_the_temporary_file_keeps_the_ending(tmp_path):
    with replacing(tmp_path / "posterior.png") as temporary:
        assert temporary.suffix == ".png"
        assert temporary.parent == tmp_path
        assert is_temporary(temporary)
        temporary.write_bytes(b"picture")


def test_an_error_leaves_the_old_content_and_no_scratch(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half of the n")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_content_is_on_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    calls = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (calls.append("fsync"), fsync(number))[1])
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("replace"), rename(*names))[1])
    write_text(tmp_path / "a", "content")
    assert calls == ["fsync", "replace", "fsync"]


WRITER = """
import sys
from synthstats_lightning.runtime.durable_files import replacing

with replacing(sys.argv[1]) as temporary:
    with temporary.open("w") as file:
        file.write("half of ")
        file.flush()
        print("written", flush=True)
        sys.stdin.readline()
"""


def test_what_a_killed_writer_leaves_is_swept(tmp_path):
    path = tmp_path / "programs.jsonl"
    path.write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
    left = [entry for entry in tmp_path.iterdir() if is_temporary(entry)]
    assert len(left) == 1
    # that of a process that runs is its own
    running = tmp_path / f".tmp-{os.getppid()}-programs.jsonl"
    running.write_text("another's")
    write_text(path, "new")
    assert path.read_text() == "new"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["programs.jsonl", running.name])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_what_a_full_disk_says(number):
    assert out_of_space(OSError(number, "full"))
    assert not out_of_space(OSError(errno.EACCES, "denied"))
    assert not out_of_space(ValueError("full"))
