"""All layers in the order in which they must be applied, prepared once for many processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable

from synthstats_lightning.confinement import landlock, privileges, seccomp
from synthstats_lightning.confinement.levels import Level
from synthstats_lightning.confinement.namespaces import enter_namespaces
from synthstats_lightning.confinement.trees import Tree, enter_tree, make_tree

LAYERS = ("no_new_privileges", "user", "capabilities", "death_signal", "not_dumpable", "landlock", "seccomp")
"""Layers of every level but `none`, in the order in which they are applied."""
_ALWAYS = ("no_new_privileges", "user", "death_signal")
"""Layers of level `none` too: what any child process of ours gives up."""


class ConfinementUnavailable(RuntimeError):
    """A layer that the level needs does not work on this machine."""


class Confiner:
    """Confines the processes that this one forks.

    Which layers there are is found by trying each in a process of its own, never from the kernel's version.

    Args:
        level: How strictly programs are confined, see `confinement.levels`.
        readable: Paths that level `standard` may read.
        folder: Any folder; level `plus`, and a tree, mount over it for the confined process alone.
        without: Layers and argument rules left out; for the tests that show each to matter.
        own_tree: Whether level `standard` hides every other path too, where the kernel allows it.

    Attributes:
        missing: Layer to why it is off, for those of the level that are.

    Raises:
        ConfinementUnavailable: If a layer does not work that the level's promise rests on: seccomp for every
            level but `none`, Landlock for `standard`.
    """

    def __init__(
        self,
        level: Level,
        readable: Iterable[str] = (),
        folder: str = "/",
        without: Collection[str] = (),
        *,
        own_tree: bool = False,
    ) -> None:
        self.level = level
        self.missing: dict[str, str] = dict.fromkeys(without, "removed by a test")
        self._without = frozenset(without)
        self._folder = folder
        self._ruleset: int | None = None
        self._filter: seccomp.Filter | None = None
        self._namespaces = False
        self._tree: Tree | None = None
        if level == "none":
            self.missing |= {layer: "level none" for layer in LAYERS if layer not in _ALWAYS}
            return
        readable = list(readable) if level == "standard" else []
        self._prepare_landlock(readable)
        self._prepare_seccomp()
        if own_tree and level == "standard" and "tree" not in self._without:
            self._prepare_tree(readable)
        self._namespaces = level == "plus" and self._try("namespaces", lambda: enter_namespaces(folder))

    @property
    def ruleset(self) -> int | None:
        """Descriptor that the confined process must still have open when `apply` is called."""
        return self._ruleset

    @property
    def tree(self) -> Tree | None:
        """Descriptors that it must still have open likewise; `None` where there is no tree."""
        return self._tree

    def apply(self, user: int | None, parent: int, ruleset: int | None, tree: Tree | None = None) -> None:
        """Confines this process, for good.

        Args:
            user: User id to become, or `None` to stay.
            parent: Process id of the parent, with which it dies.
            ruleset: Where `self.ruleset` is open now; it is closed.
            tree: Where `self.tree` is open now, for a process that is to enter it; it is closed.

        Raises:
            OSError: If the kernel refuses what it granted before; the process must end then.
        """
        if tree is not None:
            enter_tree(tree)
            tree.close()
        if self._on("no_new_privileges"):
            privileges.no_new_privileges()
        if self._on("capabilities"):
            privileges.drop_bounding_set()
        if user is not None and self._on("user"):
            privileges.become_user(user)
        if self._namespaces:
            enter_namespaces(self._folder)
            privileges.drop_bounding_set()
        if self._on("capabilities"):
            privileges.drop_capabilities()
        # a change of user or capabilities clears these two, so they come after
        if self._on("death_signal"):
            privileges.die_with_parent(parent)
        if self._on("not_dumpable"):
            privileges.set_dumpable(False)
        self.lock(ruleset)

    def lock(self, ruleset: int | None) -> None:
        """Applies the two layers that cannot be lifted: Landlock, then seccomp.

        Args:
            ruleset: Where `self.ruleset` is open now; it is closed.
        """
        if ruleset is not None:
            landlock.restrict(ruleset)
            os.close(ruleset)
        if self._filter is not None:
            seccomp.install(self._filter.for_process(os.getpid()))

    def leaves_out(self, layer: str) -> bool:
        """Whether a test removed a layer that is not applied here (closing descriptors)."""
        return layer in self._without

    def _on(self, layer: str) -> bool:
        return layer not in self._without and (self.level != "none" or layer in _ALWAYS)

    def _prepare_landlock(self, readable: Iterable[str]) -> None:
        if "landlock" in self._without:
            return
        try:
            ruleset = landlock.create_ruleset(readable)
        except OSError as error:
            self.missing["landlock"] = f"not in this kernel, or switched off ({error.strerror})"
        else:
            if self._try("landlock", lambda: _landlock_holds(ruleset)):
                self._ruleset = ruleset
            else:
                os.close(ruleset)
        if self._ruleset is None and self.level == "standard":
            raise ConfinementUnavailable(
                f"level standard needs Landlock: {self.missing['landlock']}; level strict does without"
            )

    def _prepare_seccomp(self) -> None:
        if "seccomp" in self._without:
            return
        rules = {name.partition(":")[2] for name in self._without if name.startswith("argument:")}
        built = seccomp.build_filter(self.level == "standard", rules)
        if built is None:
            raise ConfinementUnavailable("seccomp filters are written for x86-64 and aarch64 only")
        if not self._try("seccomp", lambda: _seccomp_holds(built)):
            raise ConfinementUnavailable(f"no seccomp: {self.missing['seccomp']}")
        self._filter = built

    def _prepare_tree(self, readable: list[str]) -> None:
        try:
            tree = make_tree(readable, self._folder, self._ruleset)
        except OSError as error:
            self.missing["tree"] = error.strerror or str(error)
            return
        if self._try("tree", lambda: enter_tree(tree)):
            self._tree = tree
        else:
            tree.close()

    def _try(self, layer: str, action: Callable[[], None]) -> bool:
        """Tries a layer in a process of its own and remembers why it does not work."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                try:
                    action()
                    os.write(writer, b"\0")
                except Exception as error:
                    os.write(writer, str(getattr(error, "strerror", None) or error).encode()[:200])
            os._exit(0)
        os.close(writer)
        said = os.read(reader, 300)
        os.close(reader)
        os.waitpid(child, 0)
        if said == b"\0":
            return True
        self.missing[layer] = said.decode("utf-8", "replace") or "the kernel killed the process that tried it"
        return False


def _landlock_holds(ruleset: int) -> None:
    privileges.no_new_privileges()
    landlock.restrict(ruleset)
    _must_fail(lambda: os.open("/", os.O_RDONLY | os.O_DIRECTORY), "Landlock let a folder be opened")


def _seccomp_holds(built: seccomp.Filter) -> None:
    privileges.no_new_privileges()
    seccomp.install(built.for_process(os.getpid()))
    _must_fail(lambda: os.chdir("/"), "seccomp let chdir through")
    _must_fail(lambda: os.memfd_create("probe"), "seccomp let memfd_create through")


def _must_fail(action: Callable[[], object], message: str) -> None:
    try:
        action()
    except PermissionError:
        return
    raise RuntimeError(message)
