"""Every shipped configuration parses, and what a user gets wrong is one clear line."""

import re
from pathlib import Path

import pytest
import yaml

from synthstats_lightning.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = "configs/quickstart.yaml"
OVERLAYS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tasks", "policy", "objective", "trainer", "replay", "episodes", "searchers")
    for path in (ROOT / "configs" / folder).glob("*.yaml")
    if not path.name.endswith("pretraining.yaml")  # read by `python -m synthstats_lightning.pretraining`
)


@pytest.fixture(autouse=True)
def in_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--print_config"])
    assert stop.value.code == 0
    return yaml.safe_load(capsys.readouterr().out)


def contained(part, whole):
    """Whether every key and value of an overlay is in the merged configuration."""
    if isinstance(part, dict):
        return all(key in whole and contained(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(contained(a, b) for a, b in zip(part, whole, strict=True))
    if isinstance(part, str) and isinstance(whole, str) and whole.endswith(part):
        return True  # short class names are written out
    return part == whole


def test_there_is_an_overlay_of_every_kind():
    assert {path.split("/")[1] for path in OVERLAYS} == {
        "tasks",
        "policy",
        "objective",
        "trainer",
        "replay",
        "episodes",
        "searchers",
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlay_on_the_quickstart(capsys, overlay):
    command = "search" if "/searchers/" in overlay else "fit"
    merged = printed(capsys, command, "--config", QUICKSTART, "--config", overlay)
    written = yaml.safe_load((ROOT / overlay).read_text())
    assert contained(written, merged)


def test_six_tasks_on_the_quickstart(capsys):
    merged = printed(capsys, "fit", "--config", QUICKSTART, "--config", "configs/six_tasks.yaml")
    written = yaml.safe_load((ROOT / "configs/six_tasks.yaml").read_text())
    assert contained(written, merged)
    assert len(merged["data"]["init_args"]["tasks"]) == 6


def test_quickstart_says_what_it_means(capsys):
    merged = printed(capsys, "fit", "--config", QUICKSTART)
    written = yaml.safe_load((ROOT / QUICKSTART).read_text())
    assert contained(written, merged)
    scheduler = merged["model"]["init_args"]["lr_scheduler"]["init_args"]
    assert scheduler["T_max"] == merged["trainer"]["max_steps"]


@pytest.mark.parametrize("subcommand", ["validate", "test", "predict"])
def test_quickstart_serves_every_subcommand(capsys, subcommand):
    assert printed(capsys, subcommand, "--config", QUICKSTART)["model"]["init_args"]["policy"] == "writer"


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code not in (0, None)
    captured = capsys.readouterr()
    lines = [line for line in captured.err.strip().splitlines() if "Seed set to" not in line]
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("error: ")
    assert len(lines[0]) < 500
    return lines[0]


def test_wrong_task_name(capsys):
    line = refused(capsys, "fit", "--config", QUICKSTART, "--data.init_args.tasks", "[dugong]")
    assert "task 'dugong' is not one of: dugongs" in line


def test_csv_without_the_response_column(capsys, tmp_path):
    config = yaml.safe_load((ROOT / "configs/tasks/csv.yaml").read_text())
    config["data"]["init_args"]["tasks"][0]["init_args"] |= {"response": "eggs", "units": {}}
    path = tmp_path / "task.yaml"
    path.write_text(yaml.safe_dump(config))
    line = refused(capsys, "fit", "--config", QUICKSTART, "--config", str(path))
    assert re.search("response 'eggs' is not a column of .*peregrines.csv; columns: year, pairs", line)


def test_missing_csv(capsys, tmp_path):
    config = yaml.safe_load((ROOT / "configs/tasks/csv.yaml").read_text())
    config["data"]["init_args"]["tasks"][0]["init_args"]["path"] = "nowhere.csv"
    path = tmp_path / "task.yaml"
    path.write_text(yaml.safe_dump(config))
    assert "no CSV file at nowhere.csv" in refused(
        capsys, "fit", "--config", QUICKSTART, "--config", str(path)
    )


def test_missing_model_folder(capsys):
    line = refused(capsys, "fit", "--config", QUICKSTART, "--model.init_args.policy", "./no/model")
    assert "./no/model" in line


@pytest.mark.parametrize(
    ("where", "value", "key"),
    [
        ("model", {"class_path": "GFlowNetModule", "init_args": {"learning_rat": 1}}, "learning_rat"),
        ("data", {"class_path": "ReplayDataModule", "init_args": {"batchsize": 1}}, "batchsize"),
        ("trainer", {"max_step": 1}, "max_step"),
        ("optimizer", {"lr": 1}, "optimizer"),
    ],
)
def test_unknown_keys_are_errors(capsys, tmp_path, where, value, key):
    path = tmp_path / "extra.yaml"
    path.write_text(yaml.safe_dump({where: value}))
    line = refused(capsys, "fit", "--config", QUICKSTART, "--config", str(path))
    assert key in line


def test_wrong_flags_subcommands_and_files(capsys):
    assert "--trainer.max_stepz" in refused(capsys, "fit", "--config", QUICKSTART, "--trainer.max_stepz", "3")
    assert "nowhere.yaml" in refused(capsys, "fit", "--config", "nowhere.yaml")
    assert "fitt" in refused(capsys, "fitt")
    assert "no program at nowhere.py" in refused(capsys, "score", "nowhere.py", "--task", "dugongs")
    program = "synthstats_lightning/tasks/reference/dugongs.py"
    assert "task 'whales' is not one of" in refused(capsys, "score", program, "--task", "whales")
    assert "task" in refused(capsys, "score", program)
    assert "temperature" in refused(
        capsys, "fit", "--config", QUICKSTART, "--model.init_args.sampling.temperature", "-1"
    )


def test_help_names_every_subcommand(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for name in ("fit", "validate", "test", "predict", "score"):
        assert name in text
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    assert "--task" in capsys.readouterr().out


def test_readme_commands_are_those_that_ci_and_the_quickstart_run():
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"<!-- (main|test) command -->\n```bash\n(.+)\n```", readme)
    assert [name for name, _ in commands] == ["main", "test"]
    for path in re.findall(r"(?:configs|synthstats_lightning)/[\w/.]+\.(?:yaml|py|md)", readme):
        assert (ROOT / path).is_file(), path
