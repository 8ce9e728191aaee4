"""What a user types: `fit` with the section `rollouts`, against a server that holds the bundled policy."""

from __future__ import annotations

import csv
import json

import pytest
import torch
import yaml
from lightning.pytorch import Trainer
from safetensors.torch import load_file

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.callbacks import ProgramScoring
from synthstats_lightning.cli.main import main
from synthstats_lightning.objectives import RLOO, TrajectoryBalance
from synthstats_lightning.policy import LoraSettings, load_policy
from synthstats_lightning.rollouts import ServerRollouts
from tests.rollouts.conftest import change
from tests.support.completion_server import BASE, serving
from tests.support.shared_scoring import sharing_scoring

pytestmark = pytest.mark.long

RUN = {
    "trainer": {"max_steps": 4, "log_every_n_steps": 1, "enable_progress_bar": False},
    "scoring": {
        "synchronous": True,
        "programs_per_step": 4,
        "every_n_steps": 1,
        "warmup_programs": 6,
        "num_workers": 1,
        "require_scored": False,
        "sampling": None,
    },
    "report": {"num_programs": None},
    "checkpoint": {"every_n_train_steps": 2, "save_top_k": -1, "save_last": None},
    "data": {"init_args": {"proposal": "nothing", "batch_size": 4, "eval_programs": 4, "eval_batch_size": 4}},
    "model": {"init_args": {"policy": "tiny", "lora": {"rank": 4}, "sampling": {"max_new_tokens": 24}}},
}

METRICS = "--metrics.every_n_steps=2", "--metrics.num_programs=2"


@pytest.fixture(scope="module")
def tiny():
    return load_policy("tiny", LoraSettings(rank=4), seed=9)


@pytest.fixture(scope="module")
def ran(tiny, tmp_path_factory):
    """A run of four steps: what the command made, its folder, and what the server was asked."""
    folder = tmp_path_factory.mktemp("run")
    with serving(tiny) as running:
        cli = fit(folder, running, *METRICS)
        assert not running.adapters
    return cli, folder, running


@pytest.fixture
def server(tiny):
    with serving(tiny) as running:
        yield running


def fit(folder, server, *more, changes=None):
    config = folder / "run.yaml"
    config.write_text(yaml.safe_dump(RUN | (changes or {})))
    arguments = ["fit", "--config=quickstart", "--config=rollouts/server", f"--config={config}"]
    arguments += [f"--rollouts.url={server.url}", "--rollouts.publish_every=2", "--rollouts.keep=1"]
    arguments += [f"--trainer.logger.init_args.save_dir={folder}"]
    with sharing_scoring():
        return main([*arguments, *more])


def logged(folder, version=0):
    with (folder / "quickstart" / f"version_{version}" / "metrics.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["train/loss"]]


def test_a_run_learns_from_what_the_server_writes(ran):
    cli, folder, server = ran
    # the base is checked, at two temperatures, then each version before it is used
    loads = [body["lora_name"] for body in server.bodies("/load_lora_adapter")]
    assert [name.rpartition("-")[2] for name in loads] == ["v000000", "v000002", "v000004"]
    first = server.bodies("/completions")[:3]
    assert [body["model"] for body in first] == [BASE, BASE, loads[0]]
    assert all(len(body["prompt"]) >= 160 and body["ignore_eos"] for body in first)
    # 6 programs of warm-up, then 4 a step; the fresh ones of `metrics` the trainer writes itself
    rounds = [body for body in server.bodies("/completions") if not body["ignore_eos"]]
    assert [body["n"] for body in rounds] == [6, 4, 4, 4, 4]
    assert [loads.index(body["model"]) for body in rounds] == [0, 0, 1, 1, 2]
    run = folder / "quickstart" / "version_0"
    assert list((run / "adapters").iterdir()) == []
    rows = logged(folder)
    gaps = [float(row["rollout/server_gap"]) for row in rows if row["rollout/server_gap"]]
    assert gaps
    assert max(gaps) < 1e-4
    ages = [float(row["rollout/version_age"]) for row in rows if row["rollout/version_age"]]
    assert set(ages) <= {0.0, 1.0}
    # programs of the run are those that the server wrote
    records = [json.loads(line) for line in (run / "programs.jsonl").read_text().splitlines()]
    assert records
    assert all(abs(record["log_prob"]) < 1e4 for record in records)
    assert type(cli.model.rounds_backend).__name__ == "LocalBackend"


def test_a_run_that_goes_on_publishes_its_adapter_first(ran, tmp_path, server):
    saved = ran[1] / "quickstart" / "version_0" / "checkpoints" / "step2.ckpt"
    seen = []

    def before(path, body):
        if path == "/v1/load_lora_adapter":
            seen.append(load_file(f"{body['lora_path']}/adapter_model.safetensors"))
        return None

    server.before = before
    fit(tmp_path, server, f"--ckpt_path={saved}", "--trainer.max_steps=3", *METRICS)
    names = [body["lora_name"].rpartition("-")[2] for body in server.bodies("/load_lora_adapter")]
    assert names == ["v000002"]
    state = torch.load(saved, weights_only=True)["state_dict"]
    own = {name: value for name, value in state.items() if "lora_" in name}
    assert len(own) == len(seen[0])
    for name, value in seen[0].items():
        stem = name.removesuffix(".weight")
        assert any(key.endswith(f"{stem}.default.weight") and torch.equal(value, own[key]) for key in own)


@pytest.mark.slow
def test_a_run_whose_rounds_overlap(tmp_path, server):
    scoring = RUN["scoring"] | {"synchronous": False, "every_n_steps": 2, "warmup_programs": 4}
    fit(tmp_path, server, changes={"scoring": scoring})
    # the warm-up, two rounds, and those asked for ahead, of which the last is left
    rounds = [body for body in server.bodies("/completions") if not body["ignore_eos"]]
    assert {body["n"] for body in rounds} == {4}
    assert len(rounds) > 3
    assert not server.adapters
    ages = [float(row["rollout/version_age"]) for row in logged(tmp_path) if row["rollout/version_age"]]
    assert ages
    assert max(ages) <= 2.0
    run = tmp_path / "quickstart" / "version_0"
    steps = {json.loads(line)["step"] for line in (run / "programs.jsonl").read_text().splitlines()}
    assert steps <= {0, 2, 4}


@pytest.mark.slow
def test_a_server_with_another_base_ends_the_run(tmp_path, server, tiny, capsys, monkeypatch):
    other = load_policy("tiny", LoraSettings(rank=4), seed=9)
    change_base(other)
    server.policy = other
    with pytest.raises(SystemExit) as stop:
        fit(tmp_path, server)
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert f"{server.url}, base model 'base': log-probabilities differ from the trainer's by" in error
    assert "max_gap is 0.05: it has other weights" in error


@pytest.mark.slow
def test_a_server_that_writes_with_an_old_version_ends_the_run(tmp_path, server, capsys):
    """As a stale cache does, or a server that keeps what it had under a name."""

    def stale(path, body):
        if path == "/v1/load_lora_adapter":
            change(server.policy, 4)
            server.first = {
                name: v.detach().clone() for name, v in server.policy.adapter_state_dict().items()
            }
            server.adapters[body["lora_name"]] = {}
            return 200, "ok"
        return None

    server.before = stale
    with pytest.raises(SystemExit) as stop:
        fit(tmp_path, server)
    assert stop.value.code == 1
    assert "adapter run-" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rollouts.url=here"], "url must be that of a server, such as http://127.0.0.1:8000, got 'here'"),
        (["--scoring.sampling.epsilon=0.1"], "epsilon must be 0 where a server samples, got 0.1"),
        (["--config=policy/writer"], "policy 'writer' has tokens for columns"),
        (["--config=objective/rloo"], "publish_every must be 1 for an objective on policy, got 2"),
    ],
)
def test_what_a_server_cannot_do_is_said_before_the_run(tmp_path, server, capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        fit(tmp_path, server, *arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert server.log == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"publish_every": 0}, "publish_every must be at least 1, got 0"),
        ({"keep": -1}, "keep must be at least 0, got -1"),
        ({"max_gap": 0.0}, "max_gap must be positive and finite, got 0"),
        ({"patience_s": float("inf")}, "patience_s must be positive and finite, got inf"),
        ({"api_key_env": "NO_SUCH_KEY"}, "api_key_env must name a variable of the environment, got 'NO_S"),
    ],
)
def test_values_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        ServerRollouts("http://127.0.0.1:8000", **arguments)


@pytest.mark.parametrize(
    ("scoring", "objective", "overlap", "expected"),
    [
        ({}, TrajectoryBalance, True, True),
        ({}, TrajectoryBalance, False, False),
        ({"synchronous": True}, TrajectoryBalance, True, False),
        ({}, RLOO, True, False),
    ],
)
def test_where_rounds_overlap(tmp_path, scoring, objective, overlap, expected):
    served = ServerRollouts("http://127.0.0.1:8000", publish_every=1, overlap=overlap)
    own = [served, ProgramScoring(**scoring)]
    trainer = Trainer(logger=False, callbacks=own, default_root_dir=tmp_path, enable_checkpointing=False)
    module = GFlowNetModule(objective=objective())
    served.setup(trainer, module, "fit")
    assert served.backend.overlap is expected
    served.teardown(trainer, module, "fit")
    assert served.backend is None


def change_base(policy):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in policy.parameters():
            if not value.requires_grad:
                value.add_(0.02 * torch.randn(value.shape, generator=generator))
