"""A tree of files of its own: what is in it, and that nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from synthstats_lightning.confinement import Confiner
from synthstats_lightning.confinement.privileges import become_user, set_dumpable
from synthstats_lightning.confinement.trees import enter_tree, make_tree
from tests.confinement.test_confiner import in_child

USERS = [None, pytest.param(12345, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"))]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with a module, beside one with data."""
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == Path.home().owner() and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o055)
    for name in ("library", "data", "scratch"):
        (tmp_path / name).mkdir(mode=0o755)
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "library"


def inside(action: Callable[[], object], library: Path, user: int | None) -> str:
    """What an action gives in a tree of the library, for a user or this one."""

    def enter() -> None:
        scratch = library.parent / "scratch"
        if user is not None:
            os.chown(scratch, user, user)
            become_user(user)
            set_dumpable(True)  # as after an exec
        try:
            tree = make_tree([str(library), str(library / "file"), "/dev/null", "/not/there"], str(scratch))
        except OSError as error:
            os.write(2, f"no namespaces here: {error}\n".encode())
            os._exit(77)
        enter_tree(tree)
        tree.close()

    found = in_child(action, enter)
    if found == "status 77":
        pytest.skip("this machine allows no mount namespaces")
    return found


@pytest.mark.parametrize("user", USERS)
def test_only_what_was_named_is_there(library: Path, user: int | None) -> None:
    data, trainer = library.parent / "data", os.getpid()
    for action, expected in (
        (lambda: (library / "file").read_text(), "library"),
        (lambda: os.listdir(library), "['file']"),
        (lambda: os.listdir(library.parent), "['library']"),
        (lambda: os.getcwd(), "/"),
        (lambda: Path("/dev/null").read_bytes(), "b''"),
        (
            lambda: os.path.lexists(data) or os.path.lexists(f"/proc/{trainer}") or os.path.lexists("/etc"),
            "False",
        ),
    ):
        assert inside(action, library, user) == expected
    for action in (lambda: os.mkdir("/new"), lambda: (library.parent / "new").touch()):
        assert "Read-only file system" in inside(action, library, user)


def test_a_confined_process_lists_and_reads_the_tree_alone(library: Path) -> None:
    scratch, parent = str(library.parent / "scratch"), os.getpid()
    confiner = Confiner("standard", [str(library)], scratch, own_tree=True)
    if "tree" in confiner.missing:
        pytest.skip("this machine allows no mount namespaces")
    user = 12345 if os.geteuid() == 0 else None

    def found(action: Callable[[], object]) -> str:
        return in_child(action, lambda: confiner.apply(user, parent, confiner.ruleset, confiner.tree))

    assert found(lambda: (library / "file").read_text()) == "library"
    assert found(lambda: os.listdir(library.parent)) == "['library']"
    assert found(lambda: os.stat(library.parent / "data")).startswith("FileNotFoundError")
    assert found(lambda: Path("/etc/passwd").read_text()).startswith("FileNotFoundError")
    for action in (
        lambda: (library / "file").write_text("x"),
        lambda: os.mkdir("/new"),
        lambda: os.chdir("/"),
    ):
        assert found(action).startswith("PermissionError")


def test_why_there_is_no_tree(library: Path) -> None:
    missing = str(library / "not there")
    with pytest.raises(FileNotFoundError):
        make_tree([str(library)], missing)
    assert Confiner("standard", [], missing, own_tree=True).missing == {"tree": "No such file or directory"}
    assert Confiner("standard", [], missing).missing == {}
