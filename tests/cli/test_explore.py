"""What a user types who has a file and a question."""

from __future__ import annotations

import contextlib
import io

import pytest
import yaml

from synthstats_lightning.cli.main import main

ROWS = [(1, 2.5), (2, 3.1), (3, 4.4), (4, 4.9), (5, 6.2), (6, 7.1)]


def written(folder, rows=ROWS, header="dose,height"):
    path = folder / "plants.csv"
    path.write_text(header + "\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return str(path)


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["explore", *arguments])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert "missing.csv" in refused(capsys, str(tmp_path / "missing.csv"), "--response", "height")


def test_a_response_that_is_no_column(tmp_path, capsys):
    line = refused(capsys, written(tmp_path), "--response", "hight")
    assert "'hight'" in line
    assert "height" in line


def test_a_response_without_variation(tmp_path, capsys):
    line = refused(capsys, written(tmp_path, [(a, 3.0) for a in range(8)]), "--response", "height")
    assert "height" in line


def test_too_few_rows(tmp_path, capsys):
    line = refused(capsys, written(tmp_path, ROWS[:4]), "--response", "height")
    assert "at least 5 rows, got 4" in line


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--minutes", "0.1"], "minutes must be at least 0.5"),
        (["--minutes", "soon"], "minutes"),
        (["--steps", "0"], "steps must be at least 1, got 0"),
        (["--method", "hill"], "method must be one of evolution, model_smc, "),
        (["--method", "grpo", "--programs", "16"], "programs must be at least 32 for grpo"),
        (["--method", "evolution", "--steps", "9"], "steps must not be given for evolution"),
        (["--programs", "40", "--steps", "9"], "programs must not be given with steps, got 40"),
        (["--config", "trainer/ddq"], "nearest: trainer/ddp"),
        (["--compare", "nowhere.py"], "nowhere.py"),
    ],
)
def test_an_argument_that_is_wrong(tmp_path, capsys, given, reason):
    assert reason in refused(capsys, written(tmp_path), "--response", "height", *given)


def printed(*arguments):
    """The configuration that `fit` is given."""
    text = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(text):
        main(["explore", *arguments, "--show_config"])
    return yaml.safe_load(text.getvalue())


def test_the_run_is_one_of_fit(tmp_path):
    config = printed(
        written(tmp_path), "--response", "height", "--minutes", "3", "--output", str(tmp_path),
        "--data.units", "{dose: g}", "--config", "replay/mixed", "trainer/exploration",
    )  # fmt: skip
    (task,) = config["data"]["init_args"]["tasks"]
    assert task["init_args"]["response"] == "height"
    assert task["init_args"]["units"] == {"dose": "g"}
    assert config["budget"]["minutes"] == 3
    assert config["data"]["init_args"]["structure_fraction"] == 0.2
    assert config["scoring"]["prefix_resampling_fraction"] == 0.2
    assert config["trainer"]["logger"]["init_args"]["name"] == "plants"
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(config))
    text = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(text):
        main(["fit", "--config", str(again), "--print_config"])
    assert yaml.safe_load(text.getvalue()) == config


@pytest.mark.parametrize(
    ("given", "screen"),
    [
        ([], None),
        (["--policy", "tiny"], 3),
        (["--policy", "tiny", "--data.screen", "4"], 4),
        (["--policy", "tiny", "--data.columns", "[a, b, c, d]"], None),
        (["--policy", "writer", "--data.screen", "2"], 2),
        (["--policy", "Qwen/Qwen3-0.6B"], None),
        (["--config", "policy/qwen3"], None),
    ],
)
def test_as_many_covariates_as_the_policy_was_made_for(tmp_path, given, screen):
    rows = [
        [number, number**2 % 7, number**3 % 11, -(number % 3), number % 5, 2 * number] for number in range(9)
    ]
    path = tmp_path / "many.csv"
    path.write_text("a,b,c,d,e,y\n" + "".join(",".join(map(str, row)) + ".5\n" for row in rows))
    (task,) = printed(str(path), "--response", "y", *given)["data"]["init_args"]["tasks"]
    assert task["init_args"]["screen"] == screen


@pytest.mark.parametrize(
    ("size", "given", "transform"),
    [
        (1.0, [], None),
        (1e5, [], "scaled"),
        (1e-6, [], "scaled"),
        (1e5, ["--data.response_transform", "log"], "log"),
        (1e5, ["--policy", "tiny"], None),
        (1e5, ["--compare", "own.py"], None),
    ],
)
def test_units_that_the_policy_can_write(tmp_path, monkeypatch, size, given, transform):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("with pm.Model() as model:\n    pass\n")
    rows = [(dose, f"{size * height:.6g}") for dose, height in ROWS]
    (task,) = printed(written(tmp_path, rows), "--response", "height", *given)["data"]["init_args"]["tasks"]
    assert task["init_args"].get("response_transform") == transform


@pytest.mark.parametrize(
    ("given", "policy", "proposal"),
    [
        ([], "writer", "digest"),
        (["--policy", "tiny"], "tiny", "nothing"),
        (["--config", "policy/qwen3"], "Qwen/Qwen3-0.6B", "nothing"),
        (["--config", "policy/qwen3", "--policy", "writer"], "writer", "digest"),
        (["--method", "sample_and_weight"], "writer", "digest"),
        (["--method", "grpo"], "writer", "digest"),
    ],
)
def test_the_policy_reads_the_data_where_nothing_says_another(tmp_path, given, policy, proposal):
    config = printed(written(tmp_path), "--response", "height", *given)
    assert config["model"]["init_args"]["policy"] == policy
    assert config["data"]["init_args"]["proposal"] == proposal
    assert config["regressions"]["families"] == (3 if policy == "writer" else 0)


def test_methods_share_a_budget_of_programs(tmp_path):
    given = [written(tmp_path), "--response", "height", "--programs", "400", "--method"]
    bred, trained = printed(*given, "evolution"), printed(*given, "grpo")
    assert bred["search"]["method"]["class_path"].endswith(".Evolution")
    assert bred["scoring"]["max_programs"] == 400
    assert bred["budget"]["minutes"] is None
    assert trained["model"]["init_args"]["objective"]["class_path"].endswith(".GRPO")
    assert trained["scoring"]["max_programs"] + trained["report"]["num_programs"] == 400
    assert trained["budget"]["minutes"] is None
