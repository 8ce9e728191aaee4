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


def test_the_trainer_process_never_imports_pymc():
    code = (
        "import sys, synthstats_lightning as s; [getattr(s, name) for name in s.__all__];"
        "print([m for m in ('pymc', 'pytensor', 'arviz') if m in sys.modules])"
    )
    assert run(code).stdout.strip() == "[]"


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
    code = f"import sys; import {module} as c; c.main = lambda: c; sys.exit(c.{function}())"
    assert run(code).stderr == ""
