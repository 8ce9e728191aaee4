"""The bundled writer: small, made by the shipped configuration, at home in tables of any kind."""

from __future__ import annotations

import ast
import builtins
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from synthstats_lightning import CSVTask
from synthstats_lightning.cli.main import main
from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.tasks import get_task, task_prompt
from synthstats_lightning.tasks.proposal import looking

FOLDER = Path(str(files("synthstats_lightning").joinpath("policy/writer")))
CONFIG = Path(__file__).parents[2] / "configs" / "policy" / "writer_pretraining.yaml"


@pytest.fixture(scope="module")
def policy():
    return load_policy("writer", lora=None)


def drawn(policy, task, number, proposal="digest"):
    prompt = task_prompt(looking(task, proposal))
    ids, prior = policy.encode_prompt(*prompt), policy.encode_prompt(*prompt.prior)
    settings = SamplingSettings(max_new_tokens=256)
    return policy.sample([ids], number, settings, 0, prior_prompts=[prior], facts=[prompt.facts])


def is_python(source):
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def test_size(policy):
    assert sum(parameter.numel() for parameter in policy.parameters()) <= 6_000_000
    assert (FOLDER / "model.safetensors").stat().st_size <= 16_000_000
    assert policy.spelling.reads_digests
    assert not policy.spelling.plain


def test_made_by_the_shipped_configuration():
    # JSON has no keys but texts
    shipped = json.loads(json.dumps(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))))
    recorded = json.loads((FOLDER / "pretraining.json").read_text(encoding="utf-8"))
    assert recorded["size"] == shipped["size"]
    assert recorded["training"] == shipped["training"]
    assert recorded["gain"][-1]["step"] == shipped["training"]["steps"]


@pytest.mark.long
def test_most_of_its_programs_are_such_and_digests_move_it(policy):
    task = get_task("dugongs")
    samples = drawn(policy, task, 60)
    assert np.mean([is_python(source) for source in samples.sources]) >= 0.85
    assert samples.stopped.float().mean() >= 0.95
    assert len(set(samples.sources)) >= 50
    # a digest of these data speaks for curves that level off
    blind = drawn(policy, task, 60, "nothing").sources
    shares = [
        np.mean([any(sign in source for sign in ("log(", "/(", "exp(-")) for source in sources])
        for sources in (samples.sources, blind)
    ]
    assert shares[0] > shares[1] + 0.1
    assert torch.isfinite(samples.reference_log_prob).all()


@pytest.mark.long
def test_columns_of_any_name_and_script_are_never_miscopied(policy, tmp_path):
    rng = np.random.default_rng(0)
    names = [f"größe_{place}" for place in range(9)] + [f"вес_{place}" for place in range(4)]
    names += ["smoke", "amoke"]
    table = {name: rng.normal(size=40) for name in names}
    table["site"] = np.array(["north", "south", "east", "west"])[np.arange(40) % 4]
    table["y"] = 2 * table["smoke"] + rng.normal(size=40)
    path = tmp_path / "table.csv"
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    task = CSVTask(path, "y")
    known = {*task.columns, *task.views, "pm", "pt", "np", "math", "model", *dir(builtins)}
    read = set()
    for source in drawn(policy, task, 60).sources:
        if not is_python(source):
            continue
        names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
        own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        strange = {node.id for node in names} - own - known
        assert not {name for name in strange if len(name) > 5}, source
        read |= {node.id for node in names} & set(task.columns)
    assert len(read) > 3


def test_explore_takes_it_with_its_overlay(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "\n".join(f"{place},{place % 7 + 0.5}" for place in range(20)))
    with pytest.raises(SystemExit) as ended:
        main(["explore", str(path), "--response", "y", "--policy", "writer", "--show_config"])
    assert not ended.value.code
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["model"]["init_args"]["policy"] == "writer"
    assert shown["data"]["init_args"]["proposal"] == "digest"
