"""Job files as a whole: all errors at once, former names, kinds, and their classes in Python."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from synthstats_lightning.cli.errors import WRONG_USAGE
from synthstats_lightning.cli.main import main
from synthstats_lightning.jobs import GraphConfig, JobError, RLConfig, SFTConfig, translate
from synthstats_lightning.jobs.translation import KEYS
from tests.docs.pages import ROOT, blocks

RL = """
[algorithm]
type = "online"
method = "gflownet"
variety = "rtb"
[policy]
base = "tiny"
label = "mine"
[training]
num_epochs = 2
iterations_per_epoch = 5
[training.lora]
r = 4
[tags]
team = "a"
"""
WRONG = """
[algorithm]
type = "online"
varety = "tb"
[training]
batch_size = "many"
group_size = 0
learning_rate = nan
[trainig]
x = 1
[compute]
gpu_count = true
[rollout]
env_name = "dugnogs"
"""


def test_all_errors_are_said_at_once_each_with_the_nearest(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "job.toml"
    path.write_text(WRONG)
    with pytest.raises(SystemExit) as ended:
        main(["job", "run", str(path)])
    assert ended.value.code == WRONG_USAGE
    lines = capsys.readouterr().err.splitlines()
    told = [line.removeprefix(f"error: {path}: ") for line in lines]
    assert "algorithm.varety is no key of an RL job; the nearest is algorithm.variety" in told
    assert "trainig is no section of an RL job; the nearest is training" in told
    assert "training.batch_size must be an integer of trajectories, at least 1, got 'many'" in told
    assert "training.group_size must be an integer of programs, at least 1, got 0" in told
    assert "training.learning_rate must be a finite number, above 0, got nan" in told
    assert "compute.gpu_count must be an integer of GPUs, at least 0, got True" in told
    assert len([line for line in told if line.startswith("rollout.env_name must be one of")]) == 1
    assert len(lines) == 7
    assert not list(tmp_path.glob("runs"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no job file at"),
        ("a = [", "is no TOML"),
        ("# cut short\n", "holds no key: a job has at least one"),
        ("[graph]\npopulation_size = 0", "graph.population_size must be an integer of programs, at least 1"),
        ("[graph]\n[compute]\ngpu_count = 2", "compute must be of one process for a search"),
        (
            '[algorithm]\ntype = "onlin"',
            "algorithm.type must be one of 'online', 'offline', 'graph', got 'onlin'; read as an RL job",
        ),
        ("[graph]\nverifier_mode = 3", "the nearest is graph.verifier_model"),
        (
            '[algorithm]\ntype="offline"\n[job]\ndata="nowhere.jsonl"',
            "job.data must name what is there, got 'nowhere.jsonl'",
        ),
        (
            '[policy]\nsource = "nowhere/adapter"',
            "policy.source must name what is there, got 'nowhere/adapter'",
        ),
        (
            '[rollout]\nenv_name = "nowhere.csv"\nenv_config = {response = "y"}',
            "rollout.env_name must name what is there, got 'nowhere.csv'",
        ),
        ("training = 3", "training must be a table, got 3"),
    ],
)
def test_what_cannot_run_is_one_line(text: str | None, message: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "job.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["job", "run", str(path)])
    assert ended.value.code == WRONG_USAGE
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ({"model": {"base": "tiny"}}, {"policy": {"base": "tiny"}}),
        ({"lora": {"r": 4}}, {"training": {"lora": {"r": 4}}}),
        ({"rubric": {"enabled": False}}, {"verifier": {"enabled": False}}),
        ({"judge": {"options": {"model": "m"}}}, {"verifier": {"options": {"model": "m"}}}),
        ({"services": {"judge_url": "http://a"}}, {"services": {"verifier_url": "http://a"}}),
    ],
)
def test_former_names_are_warned_of(former: dict[str, Any], present: dict[str, Any]) -> None:
    old, new = translate(former, "rl"), translate(present, "rl")
    assert [line for line in old.warnings if "is called" in line and line.endswith("by now")]
    assert not [line for line in new.warnings if "is called" in line]
    assert old.configuration == new.configuration
    assert old.problems == new.problems


def test_a_key_under_both_names_is_refused() -> None:
    found = translate({"policy": {"base": "tiny"}, "model": {"base": "tiny"}}, "rl")
    assert found.problems == ["policy.base is given twice, as model.base too"]
    batch = {"global_batch": 7, "batch_size": 8}
    found = translate({"job": {"data": "x"}, "hyperparameters": batch}, "sft")
    assert found.problems == [
        "hyperparameters.batch_size is given twice, as hyperparameters.global_batch too"
    ]


def test_no_former_name_is_said_of_what_is_no_key() -> None:
    found = translate({"lora": {"rank": 4}}, "rl")
    assert found.problems == ["lora.rank is no key of an RL job; the nearest is training.lora.r"]
    assert not found.warnings


@pytest.mark.parametrize("output", ["job.toml", "/proc/nowhere"])
def test_an_output_that_can_hold_no_run_is_one_line(
    output: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(RL)
    with pytest.raises(SystemExit) as ended:
        main(["job", "run", "job.toml", "--output", output])
    assert ended.value.code == WRONG_USAGE
    said = capsys.readouterr().err
    assert f"output must be a folder in which the run's folder can be made, got '{output}'" in said
    assert said.count("\n") == 1


def test_a_file_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xef\xbb\xbf" + RL.replace("\n", "\r\n").encode())
    assert RLConfig.from_path(path) == RLConfig.from_mapping(tomllib.loads(RL))


def test_a_job_keeps_what_it_was_given() -> None:
    document = {"tags": {"team": {"name": "a"}}}
    config = RLConfig.from_mapping(document)
    document["tags"]["team"]["name"] = "b"
    assert config.to_dict() == {"tags": {"team": {"name": "a"}}}


def test_configs_in_python(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(RL)
    config = RLConfig.from_path(path)
    assert config.to_dict()["training"] == {"num_epochs": 2, "iterations_per_epoch": 5, "lora": {"r": 4}}
    assert RLConfig.from_mapping(config.to_dict()) == config
    config.to_dict()["tags"]["team"] = "b"
    assert config.to_dict()["tags"] == {"team": "a"}
    with pytest.raises(JobError, match="SFTConfig must be given a job of kind 'sft', got one of kind 'rl'"):
        SFTConfig.from_path(path)
    with pytest.raises(FileNotFoundError, match="no job file at"):
        RLConfig.from_path(tmp_path / "other.toml")
    with pytest.raises(JobError) as wrong:
        RLConfig.from_mapping(
            {"training": {"batch_size": 0, "group_size": 0}, "algorithm": {"type": "online"}}
        )
    assert len(wrong.value.problems) == 2


def test_a_graph_search() -> None:
    given = {
        "policy_model": "tiny-episodes",
        "rollout_budget": 300,
        "proposer_effort": "high",
        "population_size": 10,
        "num_generations": 4,
        "verifier_model": "m",
    }
    document = {"graph": given, "services": {"verifier_url": "http://127.0.0.1:9"}}
    config = GraphConfig.from_mapping(document)
    search = config.translation.search
    assert search is not None
    assert {name: getattr(search, name) for name in given} == given
    assert config.to_dict() == document
    told = config.configuration
    method = told["search"]["method"]
    assert method["class_path"] == "Evolution"
    of_method = ("rollout_budget", "proposer_effort", "population_size", "num_generations")
    assert {name: method["init_args"][name] for name in of_method} == {
        name: given[name] for name in of_method
    }
    assert told["scoring"]["max_programs"] == 300
    assert told["model"]["init_args"]["policy"] == "tiny-episodes"
    assert told["scoring"]["reward"]["terms"][1]["init_args"]["model"] == "m"
    assert translate({"graph": {"judge_model": "m"}}).values == {"graph.verifier_model": "m"}
    (problem,) = translate({"graph": {"proposer_effort": "most"}}).problems
    assert problem == "graph.proposer_effort must be one of 'low', 'medium', 'high', got 'most'"


@pytest.mark.parametrize("text", blocks(ROOT / "docs" / "how-to" / "jobs.md", "toml"))
def test_jobs_of_the_documentation_are_right(text: str) -> None:
    found = translate(tomllib.loads(text))
    assert not found.problems
    assert not found.warnings
    assert found.configuration


def test_the_reference_has_every_key_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))
    page = import_module("job_pages").job_page()
    for keys in KEYS.values():
        assert all(f"| `{key.name}` | " in page for key in keys)
    assert "| `training.batch_size` | an integer of trajectories, at least 1 | 64 |" in page
    assert "| `training.weight_sync_interval` | an integer of steps, at least 1 | 8 |" in page
    assert "`evaluation.every_n_iters` | an integer of steps, at least 1 | 100 |" in page
    assert all(line.count(" | ") == 4 for line in page.splitlines() if line.startswith("| "))


def printed(arguments: list[str], capsys: Any) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    assert ended.value.code == 0, captured.err
    found: dict[str, Any] = yaml.safe_load(captured.out)
    return found


@pytest.mark.parametrize("variety", ["rtb", "episodes"])
def test_the_command_line_s_own_parser_takes_an_rl_job(variety: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "job.toml"
    episodes = '[rollout]\nenv_name = "death_process"\nmax_turns = 3\n[evaluation]\nseeds = [70]\n'
    path.write_text(RL if variety == "rtb" else episodes)
    told = printed(["job", "run", str(path), "--print_config", "--output", str(tmp_path)], capsys)
    if variety == "rtb":
        assert told["model"]["init_args"]["objective"]["class_path"].endswith("RelativeTrajectoryBalance")
        assert told["model"]["init_args"]["lora"]["rank"] == 4
        assert told["trainer"]["max_steps"] == 10
        events = told["trainer"]["callbacks"][-1]
        assert events["class_path"] == "synthstats_lightning.jobs.RunEvents"
        assert events["init_args"]["tags"] == {"team": "a"}
        assert told["trainer"]["logger"]["init_args"]["version"] == "version_0"
    else:
        assert told["data"]["init_args"]["tasks"][0]["class_path"].endswith("ExperimentTask")
        assert told["unseen_tasks"]["tasks"][0]["init_args"]["seed"] == 70
    assert not (tmp_path / "mine").exists()
    again = json.dumps(told)
    assert "NaN" not in again


def test_the_command_line_s_own_parser_takes_an_sft_job(tmp_path: Path, capsys: Any) -> None:
    path, examples = tmp_path / "job.toml", tmp_path / "examples.jsonl"
    examples.write_text('{"prompt": "a", "completion": "b"}\n')
    path.write_text(
        f'[algorithm]\ntype = "offline"\n[job]\ndata = "{examples}"\n[hyperparameters]\nwarmup_ratio = 0.1\n'
        "batch_size = 4\n[training.validation]\nevaluation_strategy = 'steps'\neval_steps = 2\n"
    )
    told = printed(["job", "run", str(path), "--print_config"], capsys)
    assert told["data"]["init_args"]["batch_size"] == 4
    assert told["trainer"]["val_check_interval"] == 2
    assert [each["class_path"].rpartition(".")[2] for each in told["trainer"]["callbacks"]] == [
        "WarmUp",
        "RunEvents",
    ]
