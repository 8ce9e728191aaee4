import json

import pytest

from synthstats_lightning import ReplayDataModule
from synthstats_lightning.replay import Demonstration, read_demonstrations


def written(tmp_path, *lines):
    path = tmp_path / "given.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_lines_of_tasks_and_of_the_only_task(tmp_path):
    path = written(tmp_path, {"task": "a", "source": "x = 1\n", "evidence": 3}, "", {"source": "\u2028"})
    assert read_demonstrations(path, ["a"]) == [
        Demonstration("a", "x = 1\n", 1),
        Demonstration("a", "\u2028", 3),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 of .* is no JSON"),
        ({"task": "a"}, "must be an object with the text key 'source'"),
        ({"task": "c", "source": ""}, "task 'c' is not one of this run's: a, b"),
        ({"source": ""}, "task None is not one of this run's: a, b"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        read_demonstrations(written(tmp_path, line), ["a", "b"])


def test_the_data_module_reads_them(tmp_path):
    path = written(tmp_path, {"task": "dugongs", "source": "y = 2"})
    assert ReplayDataModule(demonstrations=str(path)).demonstrations == [Demonstration("dugongs", "y = 2", 1)]
    assert ReplayDataModule().demonstrations == []
    with pytest.raises(FileNotFoundError, match="no JSONL file of demonstrations at nowhere"):
        ReplayDataModule(demonstrations="nowhere")
