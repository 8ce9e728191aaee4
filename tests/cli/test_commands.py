"""One parser: every subcommand in one help, configurations by name, errors in one line."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.cli.errors import FAILED, WRONG_USAGE
from synthstats_lightning.cli.main import main
from synthstats_lightning.cli.parser import COMMANDS, find_config, nearest
from synthstats_lightning.runtime.shipped import own_or_shipped, shipped_configs, shipped_file


def stopped(capsys, *arguments):
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


def test_one_help_names_every_subcommand(capsys):
    code, text, _ = stopped(capsys, "--help")
    assert code == 0
    assert all(f"    {name}" in text for name in COMMANDS)
    for name in COMMANDS:
        code, text, _ = stopped(capsys, name, "--help")
        assert code == 0
        assert text.startswith(f"usage: synthstats-lightning [options] {name}")


def test_version_imports_nothing(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"synthstats-lightning {__version__}\n"
    code = (
        "import sys; from synthstats_lightning.cli.main import main; main(['--version']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "lightning", "jsonargparse"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "subcommand"),
        (("fitt",), "fitt"),
        (("configs", "trainer/dpp"), "no configuration 'trainer/dpp' in the package"),
        (("configs", "--output", "x.yaml"), "--output needs the name of a configuration"),
        (("fit", "--config", "quickstrat"), "quickstrat"),
        (("score", "nowhere.py", "--task", "dugongs"), "no program at nowhere.py"),
        (
            ("score", "x.py", "--task", "CSVTask", "--task.path", "no.csv", "--task.response", "y"),
            "no CSV file at no.csv",
        ),
        (("sandbox", "--level", "x"), "--level"),
        (("report", "nowhere"), "no folder of a run at nowhere"),
        (("report", ".", "--num_programs", "-1"), "num_programs must be at least 0, got -1"),
    ],
)
def test_wrong_usage_is_one_line(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, errors = stopped(capsys, *arguments)
    assert code == WRONG_USAGE != FAILED
    assert errors.count("\n") == 1
    assert errors.startswith("error: ")
    assert words in errors


def test_configs_are_listed_printed_and_copied_out(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = main(["configs"])
    names = {
        str(path.relative_to(shipped_configs()).with_suffix("")) for path in shipped_configs().rglob("*.yaml")
    }
    assert set(found) == names
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(names)
    assert lines[0].split() == ["quickstart", *found["quickstart"].split()]
    assert found["trainer/cpu"] == "one CPU process."
    main(["configs", "trainer/ddp"])
    written = (shipped_configs() / "trainer/ddp.yaml").read_text()
    assert capsys.readouterr().out == written
    main(["configs", "trainer/ddp.yaml", "--output", "mine/ddp.yaml"])
    assert Path("mine/ddp.yaml").read_text() == written
    code, _, errors = stopped(capsys, "configs", "trainer/cpu", "--output", "mine/ddp.yaml")
    assert (code, "mine/ddp.yaml is there already" in errors) == (WRONG_USAGE, True)
    assert Path("mine/ddp.yaml").read_text() == written


def test_a_reader_that_has_enough_is_no_error():
    command = f"{sys.executable} -m synthstats_lightning configs | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("quickstart ")
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["trainer/ddp", "trainer/ddp.yaml", "configs/trainer/ddp", "quickstart"])
def test_a_configuration_by_its_name(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    shipped = name.removeprefix("configs/").removesuffix(".yaml") + ".yaml"
    assert Path(find_config(name)).samefile(shipped_configs() / shipped)
    assert capsys.readouterr().err == ""
    own = tmp_path / name
    own = own if own.suffix else own.with_suffix(".yaml")
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("{}")
    assert Path(find_config(name)).samefile(own)
    assert capsys.readouterr().err.count("is the file in the working directory") == 1


def test_other_configurations_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in ("trainer: {max_steps: 3}", "{}", "a: 1\nb: 2"):
        assert find_config(value) == value
    for value in ("nowhere", "/etc/nowhere.yaml"):
        with pytest.raises(FileNotFoundError, match=f"no file {value!r} and no configuration of that name"):
            find_config(value)
    with pytest.raises(FileNotFoundError, match=r"\(nearest: trainer/ddp\)$"):
        find_config("trainer/dpp")
    assert shipped_file("../pyproject.toml") is None
    assert shipped_file(shipped_configs() / "quickstart.yaml") is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"trainer": {"max_step": 3}}, "(nearest: trainer.max_steps)"),
        (
            {"model": {"objective": {"class_path": "LogVarianc"}}},
            "no class 'LogVarianc' (nearest: LogVariance)",
        ),
    ],
)
def test_what_is_not_known_is_named_with_the_nearest_that_is(capsys, tmp_path, written, said):
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(written))
    given = ["--config", "quickstart", "--config", str(path), "--print_config"]
    code, _, errors = stopped(capsys, "fit", *given)
    assert code == WRONG_USAGE
    assert errors.count("\n") == 1
    assert said in errors


def test_the_nearest_name_or_all():
    known = ["help", "model", "model.help", "model.init_args.objective", "trainer.max_steps"]
    assert nearest("modle.objective", known) == " (nearest: model)"
    assert nearest("trainer.max_step", known) == " (nearest: trainer.max_steps)"
    assert nearest("qqq", known) == "; there are model, trainer"
    assert nearest("qqq", []) == ""
    assert nearest("qqq", [f"key_{number}" for number in range(100)]) == ""


def test_files_that_configurations_name_are_shipped_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = yaml.safe_load((shipped_configs() / "tasks/csv.yaml").read_text())
    (task,) = path["data"]["init_args"]["tasks"]
    assert own_or_shipped(task["init_args"]["path"]).samefile(shipped_configs() / "tasks/peregrines.csv")
    assert own_or_shipped("nowhere.csv") == Path("nowhere.csv")


def test_the_objective_and_the_lengths_must_agree_with_the_reward(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = ("fit", "--config", "quickstart", "--trainer.logger", "false")
    for more, words in (
        (("--config", "objective/tba", "--scoring.reward.prior_weight", "0.5"), "has prior_weight=1, but"),
        (("--scoring.sampling.max_new_tokens", "100"), "max_new_tokens must be the same"),
        (("--trainer.callbacks+=ProgramScoring",), "trainer.callbacks must not hold ProgramScoring"),
    ):
        code, _, errors = stopped(capsys, *fit, *more)
        lines = [line for line in errors.splitlines() if "Seed set to" not in line]
        assert code == WRONG_USAGE
        assert len(lines) == 1, errors
        assert words in lines[0]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("runs", "list", "--js"), "--json"),
        (("report", ".", "--num_prog", "3"), "--num_programs"),
        (("job", "run", "x.toml", "--print"), "--print_config"),
        (("fit", "--conf", "quickstart"), "--config"),
        (("fit", "--config", "quickstart", "--report.num_prog=3"), "--report.num_programs"),
        (("evaluate", "--polcy", "x"), "--policy"),
    ],
)
def test_the_beginning_of_an_option_is_none(capsys, arguments, meant):
    code, _, errors = stopped(capsys, *arguments)
    assert code == WRONG_USAGE
    assert errors.startswith("error: unrecognized arguments: --")
    assert f"(nearest: {meant}" in errors
    assert errors.count("\n") == 1
