"""Stand-ins for other machines: an ordinary user, Docker's default filter, a kernel without Landlock."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from synthstats_lightning.confinement import seccomp
from synthstats_lightning.confinement.filters import ALLOW, Check, Rule, assemble
from synthstats_lightning.confinement.privileges import no_new_privileges
from synthstats_lightning.confinement.system_calls import ARCHITECTURES, machine, system_call, system_calls

OUTER = ("plain", "docker", "no_landlock")
USER = "sandbox-bench"

# Refused by Docker's default profile without capabilities (moby/profiles): numbers on x86-64 and aarch64
_DOCKER = {
    "unshare": (272, 97),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "quotactl": (179, 60),
    "move_pages": (279, 239),
    "mbind": (237, 235),
}
_NAMESPACES = 0x7E020000


def imitate(outer: str) -> None:
    """Puts a filter on this process that makes the machine look like another.

    Args:
        outer: One of `OUTER`.
    """
    name = machine()
    if outer == "plain" or name is None:
        return
    numbers = system_calls(name)
    if outer == "no_landlock":
        calls = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
        rules = [(numbers[call], Rule((), error=errno.ENOSYS)) for call in calls]
    else:
        column = list(ARCHITECTURES).index(name)
        rules = [(pair[column], Rule((), error=errno.EPERM)) for pair in _DOCKER.values()]
        rules += [
            (numbers["clone3"], Rule((), error=errno.ENOSYS)),
            (numbers["clone"], Rule(((Check(0, 0, mask=_NAMESPACES),),))),
        ]
    no_new_privileges()
    seccomp.install(assemble(rules, ARCHITECTURES[name], ALLOW).for_process(0))


def ordinary_user() -> int:
    """The id of an unprivileged user, made for the purpose where the machine lets us.

    Returns:
        Its id; one without a name where users cannot be added.
    """
    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        pass
    if shutil.which("useradd"):
        subprocess.run(["useradd", "--system", "--no-create-home", USER], check=False, capture_output=True)
    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        return 54321


def remove_user() -> None:
    """Removes that user again, with the System V objects that programs made where a mutation let them."""
    found = subprocess.run(["id", "-u", USER], check=False, capture_output=True, text=True)
    for kind, flag in (("shm", "-m"), ("msg", "-q"), ("sem", "-s")):
        table = Path(f"/proc/sysvipc/{kind}")
        names, *rows = [row.split() for row in table.read_text().splitlines()] if table.exists() else [[]]
        for row in (dict(zip(names, row, strict=False)) for row in rows):
            if found.returncode == 0 and row["uid"] == found.stdout.strip():
                subprocess.run(["ipcrm", flag, row[f"{kind}id"]], check=False, capture_output=True)
    if shutil.which("userdel"):
        subprocess.run(["userdel", USER], check=False, capture_output=True)


def make_reachable(path: str) -> None:
    """Lets every user reach a path of this process's mount namespace, which must be its own.

    A folder on the way that only its owner may enter is covered by one in memory that holds nothing but the
    way on; the machine itself stays as it is.
    """
    for folder in reversed(Path(path).resolve().parents):
        if folder.stat().st_mode & stat.S_IXOTH:
            continue
        onward = folder / Path(path).resolve().relative_to(folder).parts[0]
        handle = os.open(onward, os.O_PATH)
        _mount("tmpfs", str(folder), 0, "mode=755", kind="tmpfs")
        onward.mkdir()
        _mount(f"/proc/self/fd/{handle}", str(onward), 0x1000 | 0x4000, "")
        os.close(handle)


def own_mounts() -> None:
    """Gives this process a mount namespace of its own."""
    system_call(system_calls(machine() or "x86_64")["unshare"], 0x20000)
    _mount("none", "/", 0x4000 | 0x40000, "")


def _mount(source: str, target: str, flags: int, data: str, kind: str = "none") -> None:
    text = [ctypes.create_string_buffer(part.encode()) for part in (source, target, kind, data)]
    number = system_calls(machine() or "x86_64")["mount"]
    system_call(number, text[0], text[1], text[2], flags, text[3])


def command(arguments: list[str], user: int | None) -> list[str]:
    """How the benchmark is run in a process of its own."""
    script = Path(__file__).parents[1] / "sandbox.py"
    return [sys.executable, str(script), "--user", str(user or 0), *arguments]


def become(user: int) -> None:
    """Turns this process, which must be root and have imported nothing private, into an ordinary user's."""
    own_mounts()
    for path in {sys.prefix, sys.base_prefix, sys.executable, os.path.realpath(sys.executable), __file__}:
        make_reachable(path)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.environ.update(HOME="/nonexistent", USER=USER)
