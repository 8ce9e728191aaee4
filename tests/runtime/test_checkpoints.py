"""Torn checkpoints are named and passed over; a full disk leaves the ones before as they were."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jsonargparse import Namespace

from synthstats_lightning.cli.checkpoint_choice import checkpoint_folders, choose_checkpoint
from synthstats_lightning.runtime import durable_files
from synthstats_lightning.runtime.checkpoints import (
    DiskFullError,
    DurableCheckpointIO,
    TornCheckpointError,
    damage,
    newest_checkpoint,
    usable_checkpoint,
)

CONTENT = {"global_step": 3, "state_dict": {"weight": torch.arange(50_000.0)}, "texts": ["a", "b"]}


def write(path: Path, age: float = 0.0, step: int = 3) -> Path:
    DurableCheckpointIO().save_checkpoint({**CONTENT, "global_step": step}, path)
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def tear(path: Path, way: str) -> None:
    """Breaks a file and keeps its time."""
    times, content = path.stat(), bytearray(path.read_bytes())
    if way == "short":
        content = content[: len(content) // 2]
    elif way == "flipped":
        content[len(content) // 2] ^= 0x40
    elif way == "zeros":
        content = bytearray(len(content))
    else:
        content = bytearray()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_what_is_written_is_read(tmp_path):
    path = write(tmp_path / "run" / "step3.ckpt")
    assert damage(path) is None
    read = DurableCheckpointIO().load_checkpoint(path, weights_only=True)
    assert torch.equal(read["state_dict"]["weight"], CONTENT["state_dict"]["weight"])
    assert read["texts"] == ["a", "b"]
    assert [entry.name for entry in path.parent.iterdir()] == ["step3.ckpt"]


@pytest.mark.parametrize("way", ["short", "flipped", "zeros", "empty"])
def test_a_torn_checkpoint_is_named_and_passed_over(tmp_path, way):
    write(tmp_path / "a" / "step1.ckpt", age=20, step=1)
    good = write(tmp_path / "b" / "step2.ckpt", age=10, step=2)
    torn = write(tmp_path / "b" / "last.ckpt", age=5)
    (tmp_path / "b" / ".tmp-1-last.ckpt").write_bytes(b"scratch")
    tear(torn, way)
    assert damage(torn)
    with pytest.warns(UserWarning, match=r"torn checkpoint: .*b/last.ckpt") as caught:
        assert newest_checkpoint([tmp_path]) == good
    assert "a/step1.ckpt" not in str(caught[0].message)
    with pytest.warns(UserWarning, match="is used instead"):
        assert DurableCheckpointIO().load_checkpoint(torn, weights_only=True)["global_step"] == 2
    # one that was asked for by its own name is not exchanged for another
    named = write(tmp_path / "b" / "step9.ckpt")
    tear(named, way)
    with pytest.raises(TornCheckpointError, match=r"step9\.ckpt"):
        usable_checkpoint(named)


def test_none_is_whole(tmp_path):
    assert newest_checkpoint([tmp_path, tmp_path / "nowhere"]) is None
    tear(write(tmp_path / "step1.ckpt"), "short")
    with pytest.raises(TornCheckpointError, match=r"no whole checkpoint: .*step1\.ckpt"):
        newest_checkpoint([tmp_path])
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        usable_checkpoint(tmp_path / "nowhere.ckpt")


def configuration(folder: Path, **ckpt) -> Namespace:
    logger = Namespace(class_path="CSVLogger", init_args=Namespace(save_dir=str(folder), name="run"))
    elsewhere = Namespace(class_path="ModelCheckpoint", init_args=Namespace(dirpath=str(folder / "kept")))
    trainer = Namespace(logger=logger, callbacks=[elsewhere, Namespace(class_path="X")])
    return Namespace(trainer=trainer, checkpoint=Namespace(dirpath=str(folder / "own")), **ckpt)


def test_which_checkpoint_is_meant(tmp_path):
    fresh = configuration(tmp_path, ckpt_path="last")
    assert checkpoint_folders(fresh) == [tmp_path / "own", tmp_path / "kept", tmp_path / "run"]
    assert choose_checkpoint(fresh) == "last"
    old = write(tmp_path / "run" / "version_0" / "checkpoints" / "last.ckpt", age=9)
    assert choose_checkpoint(fresh) == str(old)
    new = write(tmp_path / "run" / "version_1" / "checkpoints" / "last.ckpt", age=8)
    assert choose_checkpoint(fresh) == str(new)
    kept = write(tmp_path / "kept" / "step2.ckpt", age=7)
    assert choose_checkpoint(fresh) == str(kept)
    assert choose_checkpoint(configuration(tmp_path, ckpt_path=str(tmp_path / "run"))) == str(new)
    assert choose_checkpoint(configuration(tmp_path, ckpt_path=str(old))) == str(old)
    for given in (None, "best", "hpc", "registry:model", "s3://bucket/last.ckpt"):
        assert choose_checkpoint(configuration(tmp_path, ckpt_path=given)) == given
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        choose_checkpoint(configuration(tmp_path, ckpt_path=str(tmp_path / "empty")))


@contextlib.contextmanager
def small_disk():
    """No file of this process may exceed 64 kB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path):
    path = write(tmp_path / "last.ckpt")
    before = path.read_bytes()
    with small_disk(), pytest.raises(DiskFullError) as caught:
        DurableCheckpointIO().save_checkpoint({**CONTENT, "global_step": 4}, path)
    assert caught.value.errno == errno.EFBIG
    assert f"no room for the checkpoint {path} (0.2 MB): resume from {path} once there is" in str(
        caught.value
    )
    assert path.read_bytes() == before
    assert damage(path) is None
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_another_kind_is_not_called_a_full_disk(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "denied", str(path))

    monkeypatch.setattr(durable_files, "_flush", refuse)
    with pytest.raises(PermissionError):
        DurableCheckpointIO().save_checkpoint(CONTENT, tmp_path / "last.ckpt")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_on_a_file_system_that_is_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        path = write(disk / "step1.ckpt")
        write(disk / "step2.ckpt", age=-1)
        with pytest.raises(DiskFullError, match=r"step2.ckpt once there is"):
            DurableCheckpointIO().save_checkpoint(CONTENT, disk / "step3.ckpt")
        assert damage(path) is None
        assert sorted(entry.name for entry in disk.iterdir()) == ["step1.ckpt", "step2.ckpt"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


SAVER = """
import sys
import torch
from synthstats_lightning.runtime.checkpoints import DurableCheckpointIO

content = {"global_step": 0, "weight": torch.zeros(200_000)}
for step in range(1_000_000):
    content["global_step"] = step
    DurableCheckpointIO().save_checkpoint(content, sys.argv[1])
    if step == 3:
        print("saving", flush=True)
"""


@pytest.mark.long
def test_whole_after_a_kill_at_any_time(tmp_path):
    path = tmp_path / "last.ckpt"
    process = subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "saving\n"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(int.from_bytes(os.urandom(1)) / 1000)
        process.kill()
    assert damage(path) is None
    assert torch.load(path, weights_only=True)["global_step"] >= 3
