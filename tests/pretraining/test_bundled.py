"""The bundled weights: small, loadable offline, made by the shipped configuration, able to read a prompt."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from synthstats_lightning.pretraining.checks import problem
from synthstats_lightning.pretraining.evaluate import sample
from synthstats_lightning.pretraining.tokenizer import END, PAD, PROGRAM, TASK
from synthstats_lightning.tasks import get_task, task_prompt

FOLDER = Path(str(files("synthstats_lightning").joinpath("policy/tiny")))
CONFIG = Path(__file__).parents[2] / "configs" / "policy" / "tiny_pretraining.yaml"

INVENTED = """\
Quenz of some wugs by flumox.
rows: 48
flumox: continuous, 0.31 to 9.7 zibs
drib_3: count, 0 to 14
response quenz: continuous, -2.4 to 11.8"""

INVENTED_LINE = """\
Readings of quenzar at several flumox.
rows: 35
flumox_3: continuous, 0.98 to 39.5
response quenzar: continuous, 9.1 to 45.2"""


@pytest.fixture(scope="module")
def policy():
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, local_files_only=True).eval()
    return model, AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


def test_size(policy):
    model, tokenizer = policy
    assert model.config.model_type == "qwen3"
    assert sum(parameter.numel() for parameter in model.parameters()) <= 4_000_000
    assert (FOLDER / "model.safetensors").stat().st_size <= 8_000_000
    assert len(tokenizer) == model.config.vocab_size <= 1024


def test_special_tokens(policy):
    model, tokenizer = policy
    assert tokenizer.convert_tokens_to_ids([PAD, TASK, PROGRAM, END]) == [0, 1, 2, 3]
    assert (tokenizer.pad_token, tokenizer.eos_token) == (PAD, END)
    assert model.generation_config.eos_token_id == model.config.eos_token_id == 3


def test_made_by_the_shipped_configuration(policy):
    model, _ = policy
    shipped = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    recorded = json.loads((FOLDER / "pretraining.json").read_text(encoding="utf-8"))
    assert recorded["model"] == shipped["model"]
    assert recorded["training"] == shipped["training"]
    assert model.config.hidden_size == shipped["model"]["hidden"]
    assert model.config.num_hidden_layers == shipped["model"]["layers"]


@pytest.mark.long
def test_most_programs_for_real_and_invented_columns_pass_the_static_check(policy):
    model, tokenizer = policy
    task = get_task("dugongs")
    assert share(model, tokenizer, (task_prompt(task).request, list(task.covariates), task.response)) >= 0.9
    # the issue's own bar for invented names; names of many rare pieces are the harder ones
    invented = ((INVENTED, ["flumox", "drib_3"], "quenz"), (INVENTED_LINE, ["flumox_3"], "quenzar"))
    assert min(share(model, tokenizer, case) for case in invented) >= 0.7


def share(model, tokenizer, case):
    request, covariates, response = case
    torch.manual_seed(0)
    sources = sample(model, tokenizer, request, 80)
    assert len(set(sources)) >= 70
    return sum(problem(source, covariates, response) is None for source in sources) / len(sources)
