import subprocess
import sys

import pytest

import synthstats_lightning


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_is_quick_and_quiet():
    heavy = "torch", "lightning", "transformers", "peft", "pymc", "pytensor", "arviz", "matplotlib", "numpy"
    done = run(f"import sys, synthstats_lightning; print([m for m in {heavy!r} if m in sys.modules])")
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


EVERY_TRUSTED_MODULE = """
import importlib, pkgutil, sys
import synthstats_lightning as package

for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.startswith(UNTRUSTED):
        importlib.import_module(module.name)
print([name for name in ("pymc", "pytensor", "arviz") if name in sys.modules])
"""
UNTRUSTED = tuple(
    f"synthstats_lightning.{name}"
    for name in ("__main__", "sandbox.inside.", "pool.reference.engine", "pool.reference.worker")
)


@pytest.mark.long
def test_the_trainer_process_never_imports_pymc():
    assert run(EVERY_TRUSTED_MODULE.replace("UNTRUSTED", repr(UNTRUSTED))).stdout.strip() == "[]"


@pytest.mark.parametrize("name", synthstats_lightning.__all__)
def test_every_public_name_is_there(name):
    assert getattr(synthstats_lightning, name) is not None
    assert name in dir(synthstats_lightning)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = synthstats_lightning.nonsense


def test_module_entry_point_and_version():
    command = [sys.executable, "-m", "synthstats_lightning", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"synthstats-lightning {synthstats_lightning.__version__}"


def test_the_console_script_ends_with_status_0():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="synthstats-lightning")
    module, function = script.value.split(":")
    code = (
        f"import sys; import {module} as c; made = sys.modules[c.{function}.__module__];"
        f" made.main = lambda: c; sys.exit(c.{function}())"
    )
    assert run(code).stderr == ""
