"""`synthstats-lightning data`, and tasks that are named by a file."""

import numpy as np
import pytest

from synthstats_lightning.cli.errors import WRONG_USAGE
from synthstats_lightning.cli.main import main
from synthstats_lightning.cli.pictures.terminal_picture import histogram, scatter
from synthstats_lightning.cli.task_argument import named_task
from synthstats_lightning.tasks import CSVTask, task_prompt

ROWS = "".join(
    f"tree {place};{'oak' if place % 3 else 'ash'};{place / 8:.3f};{3 * place + 200}\n".replace(".", ",")
    for place in range(30)
)
FILE = f"label;species;height (m);seeds\n{ROWS}elm 1;;1,5;300\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "trees.csv").write_text(FILE)
    return tmp_path


def test_data_says_what_it_understood_and_writes_the_task(folder, capsys):
    given = {"response": "height (m)", "output": "out/trees.yaml", "picture": "out/trees.png"}
    given["held_out"] = "2"
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    task = main(["data", "trees.csv", *options, "--description", "Heights of trees.", "--prompt"])
    text = capsys.readouterr().out
    for words in (
        "trees: 30 rows of 31; response height (continuous)",
        "another text in every row",
        "→ species_code",
        "ash, oak",
        "1 missing",
        "also for programs: species_ash, species_oak, seeds_z",
        "note: 1 of 31 rows are left out for missing cells: species (1)",
        "note: fields are separated by ';'",
        "response height: continuous, 0 to 3.375 m",
        "digest of height in 28 rows:",
    ):
        assert words in " ".join(text.split()), words
    assert (folder / "out/trees.png").read_bytes().startswith(b"\x89PNG")
    again = named_task("out/trees.yaml")
    assert isinstance(again, CSVTask)
    assert again.fingerprint == task.fingerprint
    assert task_prompt(again) == task_prompt(task)
    assert again.name == "trees"
    assert again.held_out == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv", "--response", "y"), "no CSV file at nowhere.csv"),
        (
            ("trees.csv", "--response", "y"),
            "response 'y' is not a column of trees.csv; columns: label, species",
        ),
        (("trees.csv", "--response", "label"), "response 'label' of trees.csv has 31 levels"),
        (("trees.csv",), "response"),
    ],
)
def test_wrong_usage_of_data_is_one_line(folder, capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        main(["data", *arguments])
    errors = capsys.readouterr().err
    assert stop.value.code == WRONG_USAGE
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert words in errors


def test_a_task_file_with_a_wrong_argument_says_which_in_one_line(folder):
    (folder / "gone.yaml").write_text("class_path: CSVTask\ninit_args: {path: gone.csv, response: seeds}\n")
    with pytest.raises(ValueError, match=r"^gone.yaml: no CSV file at gone.csv$"):
        named_task("gone.yaml")


def test_tasks_by_name_and_by_file(folder):
    assert named_task("dugongs").name == "dugongs"
    assert named_task("tasks/peregrines.yaml").name == "peregrines"
    bare = folder / "bare.yaml"
    bare.write_text("class_path: CSVTask\ninit_args: {path: trees.csv, response: seeds, name: seeds}\n")
    assert named_task(str(bare)).name == "seeds"
    for text, message in (
        ("data: {init_args: {tasks: [dugongs, surgical]}}", r"holds 2 tasks \(dugongs, surgical\)"),
        ("trainer: {max_steps: 3}", "must hold class_path and init_args of a task"),
        ("class_path: CSVTask\ninit_args: {path: trees.csv, respons: seeds}", "respons"),
        ("class_path: CSVTask\ninit_args: {path: trees.csv, response: leaves}", "'leaves' is not a column"),
        ("a: [", "is no YAML"),
    ):
        bare.write_text(text)
        with pytest.raises(ValueError, match=message):
            named_task(str(bare))
    with pytest.raises(FileNotFoundError, match=r"no file 'nowhere\.yaml'"):
        named_task("nowhere.yaml")


def test_pictures_of_a_few_characters():
    rising = scatter(np.arange(4.0), np.arange(4.0), width=2, height=1)
    # one dot a column, from the lowest row to the highest
    assert rising == "".join(chr(0x2800 + bits) for bits in (0x40 | 0x20, 0x02 | 0x08))
    assert histogram(np.array([1.0, 1.0, 1.0, 1.0, 9.0]), width=3) == "█ ▂"
    assert len(scatter(np.ones(3), np.ones(3), width=5, height=2).splitlines()) == 2


def test_what_is_the_same_in_every_row_stays_known_by_the_task_that_is_written(folder, capsys):
    rows = "\n".join(f"{value},7.5,{group},x" for value, group in zip("135246", "aabbcc", strict=True))
    (folder / "limits.csv").write_text(f"time,limit,group,note\n{rows}\n")
    main(["data", "limits.csv", "--response", "time", "--output", "limits.yaml"])
    text = (folder / "limits.yaml").read_text()
    assert "Left out: note." in text
    task = named_task("limits.yaml")
    assert list(task.covariates) == ["group_code"]
    assert task.views["limit"].constant == 7.5
    assert task.views["group"].levels == ("a", "b", "c")
    assert "limit" in capsys.readouterr().out
