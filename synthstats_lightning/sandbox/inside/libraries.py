"""What level `standard` lets a program read: the standard library, and packages that a worker has loaded."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_OWN = Path(__file__).resolve().parents[2]
_THIRD_PARTY = frozenset({"site-packages", "dist-packages"})
_NO_MODULES = frozenset({"lib-dynload", "__pycache__"})
_SYSTEM = (
    *("/usr/share/zoneinfo", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/lib64", "/usr/lib64"),
)


def library_paths() -> list[str]:
    """Files and folders, none of which holds anything of this package's, or of a folder beside a library's.

    No folder is named that others install into, such as `site-packages` or the interpreter's prefix: whatever
    data lie there stay out of reach.
    """
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    entries = [entry for folder in standard for entry in _entries(folder)]
    packages = list(_packages())
    shared = list(_shared_libraries([folder.resolve() for folder in standard]))
    multiarch = sysconfig.get_config_var("MULTIARCH")
    system = [*_SYSTEM, *(f"{folder}/{multiarch}" for folder in ("/lib", "/usr/lib") if multiarch)]
    found = [*entries, *packages, *shared, *map(Path, system)]
    return sorted({str(path) for path in found if not _holds_own(path)})


def _entries(folder: Path) -> Iterator[Path]:
    """What belongs to the standard library in its folder, into which others install."""
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        stem = entry.name.partition(".")[0]
        if stem in sys.stdlib_module_names or stem.startswith("_sysconfigdata") or entry.name in _NO_MODULES:
            yield entry


def _packages() -> Iterator[Path]:
    """Top-level packages and modules that are loaded, with the shared libraries that wheels bring along."""
    for name in sorted({name.partition(".")[0] for name in sys.modules}):
        module = sys.modules.get(name)
        if name == "__main__" or module is None:
            continue
        folders = [Path(folder) for folder in getattr(module, "__path__", ())]
        file = getattr(module, "__file__", None)
        for path in folders or ([Path(file)] if isinstance(file, str) else []):
            yield path
            yield path.with_name(f"{path.name}.libs")


def _shared_libraries(standard: list[Path]) -> Iterator[Path]:
    """Where loaded shared libraries lie: the folder, or the libraries alone where others install into it."""
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    files = {line.split(maxsplit=5)[5] for line in mapped if line.count(" /") and ".so" in line}
    for folder in sorted({Path(file).parent for file in files if os.path.isabs(file)}):
        if any(part in _THIRD_PARTY for part in folder.parts):
            continue  # a package's own
        if any(folder.resolve() in (each, *each.parents) for each in standard):
            yield from folder.glob("*.so*")
        else:
            yield folder


def _holds_own(path: Path) -> bool:
    found = path.resolve()
    return found in (_OWN, *_OWN.parents) or _OWN in found.parents
