"""A tree of files of its own: some paths in an otherwise empty root, made once and entered by many processes.

Without it a process that may open files also learns what else exists: a path that is refused is another error
than one that is not there, and the kernel's `stat` asks no access control.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from synthstats_lightning.confinement import landlock
from synthstats_lightning.confinement.system_calls import machine, system_call, system_calls

_NEW_MOUNT, _NEW_USER = 0x20000, 0x10000000
_MS_READ_ONLY, _MS_REMOUNT, _MS_BIND, _MS_RECURSIVE, _MS_PRIVATE, _DETACH = 1, 32, 4096, 0x4000, 0x40000, 2


class Tree(NamedTuple):
    """Descriptors of the namespaces that hold a tree.

    Attributes:
        mount: That of the mount namespace.
        user: That of the user namespace that owns it; `None` where root made it in its own.
    """

    mount: int
    user: int | None

    def close(self) -> None:
        """Closes both; processes inside keep the tree."""
        os.close(self.mount)
        if self.user is not None:
            os.close(self.user)


def make_tree(readable: Iterable[str], folder: str, ruleset: int | None = None) -> Tree:
    """Makes a tree of some paths, with the file systems of this process behind them.

    Args:
        readable: Files and folders that it holds, under their own names; missing ones are left out.
        folder: Any folder, over which the root of the tree is mounted, out of sight of everyone else.
        ruleset: A Landlock ruleset to which the right is added to list the tree's folders.

    Returns:
        What `enter_tree` takes; the descriptors are closed when a program is run.

    Raises:
        OSError: If the kernel or the machine's policy forbids it.
    """
    root = os.geteuid() == 0
    said, say = os.pipe2(os.O_CLOEXEC)
    held, hold = os.pipe2(os.O_CLOEXEC)
    helper = os.fork()
    if helper == 0:
        try:
            os.close(hold)
            _build(sorted(set(readable)), folder, ruleset, root)
            os.write(say, b"\0")
            os.read(held, 1)  # until the namespaces have been opened
        except OSError as error:
            os.write(say, str(error.errno or 0).encode())
        finally:
            os._exit(0)
    os.close(say)
    os.close(held)
    try:
        answer = os.read(said, 20)
        if answer != b"\0":
            number = int(answer or b"1")
            raise OSError(number, os.strerror(number))
        flags = os.O_RDONLY | os.O_CLOEXEC
        mount = os.open(f"/proc/{helper}/ns/mnt", flags)
        return Tree(mount, None if root else os.open(f"/proc/{helper}/ns/user", flags))
    finally:
        os.close(said)
        os.close(hold)
        os.waitpid(helper, 0)


def enter_tree(tree: Tree) -> None:
    """Makes a tree the root of this process, and its working directory.

    The process must be single-threaded. Where the tree has a user namespace, the process then has every
    capability inside it, and should drop them.

    Args:
        tree: What `make_tree` returned.

    Raises:
        OSError: If the kernel refuses.
    """
    number = _numbers()["setns"]
    if tree.user is not None:
        system_call(number, tree.user, _NEW_USER)
    system_call(number, tree.mount, _NEW_MOUNT)


def _build(readable: list[str], folder: str, ruleset: int | None, root: bool) -> None:
    numbers = _numbers()
    user, group = os.geteuid(), os.getegid()
    system_call(numbers["unshare"], _NEW_MOUNT if root else _NEW_MOUNT | _NEW_USER)
    if not root:
        # only who has an id there may make folders there
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path(f"/proc/self/{name}").write_bytes(text.encode())
    _mount("none", "/", "", _MS_RECURSIVE | _MS_PRIVATE)
    _mount("tmpfs", folder, "tmpfs", 0, "size=4m,mode=755")
    os.umask(0o022)
    for path in readable:
        if os.path.exists(path):
            _bind(path, folder)
    os.chdir(folder)
    here = ctypes.create_string_buffer(b".")
    # stacks the old root on the new one, so that no folder is needed for it
    system_call(numbers["pivot_root"], here, here)
    system_call(numbers["umount2"], here, _DETACH)
    os.chdir("/")
    _mount("none", "/", "", _MS_REMOUNT | _MS_BIND | _MS_READ_ONLY)
    if ruleset is not None:
        landlock.allow_listing(ruleset, "/")


def _bind(path: str, folder: str) -> None:
    place = Path(folder + path)
    if place.exists():
        return  # part of a folder that is there already
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(path):
        place.mkdir()
    else:
        place.touch()
    _mount(os.path.realpath(path), str(place), "", _MS_BIND | _MS_RECURSIVE)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    texts = [ctypes.create_string_buffer(os.fsencode(text)) for text in (source, target, kind, options)]
    system_call(_numbers()["mount"], *texts[:3], flags, texts[3])


def _numbers() -> dict[str, int]:
    return system_calls(machine() or "x86_64")
