"""Every recipe of CONTRIBUTING.md, done as it stands there in a package of one's own."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from synthstats_lightning import ProgramScoring, Reward, Score, score_program
from synthstats_lightning.cli.main import main
from synthstats_lightning.objectives import Objective
from synthstats_lightning.tasks import SimulatedTask, task_prompt
from synthstats_lightning.testing.language import (
    TabularPolicy,
    every_program,
    multimodal_log_reward,
    objective_inputs,
    random_policy,
)
from synthstats_lightning.testing.tabular_training import total_variation, train
from tests.docs.pages import ROOT, blocks, files
from tests.scoring.distributions.test_recipe import DEFINITION, ENTRY
from tests.support.warm import warm_pool

PAGE = ROOT / "CONTRIBUTING.md"
LENGTH = 3


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Writes the page's files into a folder on the path, and imports one of them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = files(PAGE)
    for name, content in written.items():
        (tmp_path / name).write_text(content)
    yield importlib.import_module
    for name in written:
        sys.modules.pop(Path(name).stem, None)


def configured(capsys: pytest.CaptureFixture[str], overlay: Path) -> dict[str, Any]:
    """The quickstart with an overlay, as the command line understands it."""
    with pytest.raises(SystemExit) as stop:
        main(["fit", f"--config={ROOT / 'configs/quickstart.yaml'}", f"--config={overlay}", "--print_config"])
    assert stop.value.code == 0
    merged: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return merged


def test_every_recipe_has_at_most_five_steps() -> None:
    recipes = PAGE.read_text().split("\n### ")[1:]
    assert [text.splitlines()[0] for text in recipes] == [
        f"Add {what}" for what in ("an objective", "a task", "a simulator", "a distribution", "a reward term")
    ]
    for text in recipes:
        steps = [int(number) for number in re.findall(r"^(\d)\. ", text, re.MULTILINE)]
        assert steps == list(range(1, len(steps) + 1))
        assert 2 <= len(steps) <= 5


def test_objective(
    package: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objective: Objective = package("fourth_power").FourthPower()
    policy, reference = TabularPolicy(2, LENGTH), random_policy(2, LENGTH)
    log_reward = multimodal_log_reward(policy.programs, 2)
    log_flow = policy.set_optimum(log_reward)
    prompt, row = every_program(policy)
    inputs = objective_inputs(policy, reference, log_flow, log_reward, prompt, row)
    output = objective(
        inputs.pop("log_prob"), log_reward.flatten(), log_reward.logsumexp(1)[prompt], **inputs
    )
    assert output.loss.item() < 1e-12
    before = total_variation(TabularPolicy(2, LENGTH), log_reward)
    after = total_variation(train(objective, log_reward, LENGTH, steps=1).policy, log_reward)
    assert torch.all(after < before)
    chosen = configured(capsys, tmp_path / "fourth_power.yaml")["model"]["init_args"]["objective"]
    assert chosen == {"class_path": "fourth_power.FourthPower", "init_args": {"weight": 0.01}}


def test_task(
    package: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = package("sunflowers").Sunflowers(rows=10)
    assert "Heights of sunflowers by week" in task_prompt(task).request
    source = """
with pm.Model() as model:
    top = pm.Normal("top", 200, 50)
    rate = pm.HalfNormal("rate", 1)
    sigma = pm.HalfNormal("sigma", 10)
    pm.Normal("height", top * pm.math.sigmoid(rate * data.week - 3), sigma, observed=data.height)
"""
    scorer = warm_pool()
    score = score_program(source, task, scorer=scorer)
    flat = "with pm.Model() as model:\n    pm.Normal('y', 100, 100, observed=data.height)\n"
    assert score.scored, score.message
    assert score.evidence > score_program(flat, task, scorer=scorer).evidence
    tasks = configured(capsys, tmp_path / "sunflowers.yaml")["data"]["init_args"]["tasks"]
    assert tasks == [{"class_path": "sunflowers.Sunflowers", "init_args": {"rows": 10}}]


def test_simulator(
    package: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulator = package("coffee").Coffee(noise=2.0)
    simulator.reset(seed=3)
    points = simulator.evaluation_points(4)
    first = simulator.observe("minutes = 10")
    simulator.reset(seed=3)
    assert simulator.observe({"minutes": 10.0})["warmth"] == first["warmth"]
    np.testing.assert_array_equal(simulator.evaluation_points(4)["warmth"], points["warmth"])
    # the log-likelihood is that of the draws: mean and spread by 20,000 of them
    latents = {"rate": np.full(20_000, 0.04)}
    rows = simulator.covariates({"minutes": 10.0})
    draws = simulator.simulate(latents, rows, np.random.default_rng(0))[:, 0]
    grid = np.linspace(20, 60, 2_001)
    one = {"rate": np.full(1, 0.04)}
    density = np.exp([simulator.log_likelihood(one, rows, np.array([value])).item() for value in grid])
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
    mean = np.trapezoid(density * grid, grid)
    assert mean == pytest.approx(draws.mean(), abs=0.1)
    assert np.trapezoid(density * (grid - mean) ** 2, grid) == pytest.approx(draws.var(), rel=0.1)
    task = SimulatedTask(simulator, num_observations=12, held_out=4)
    assert (task.name, task.num_rows, task.held_out) == ("coffee", 16, 4)
    (chosen,) = configured(capsys, tmp_path / "coffee.yaml")["data"]["init_args"]["tasks"]
    assert chosen["init_args"]["simulator"]["class_path"] == "coffee.Coffee"


def test_reward_term(package: Callable[[str], ModuleType]) -> None:
    reward = package("thrift").ThriftyReward(copy_weight=0.5)
    assert isinstance(reward, Reward)
    scoring = ProgramScoring(reward=reward)
    plain, copied = Score(evidence=-3.0), Score(evidence=-3.0, literal_copies=4)
    assert scoring.reward.log_reward(plain, baseline=-5.0) == Reward().log_reward(plain, baseline=-5.0)
    lost = reward.log_reward(plain, -5.0) - reward.log_reward(copied, -5.0)
    assert lost == pytest.approx(4 * 0.5)
    assert package("thrift").ThriftyReward() == type(reward)(copy_weight=0.0)


def without_annotations(source: str) -> str:
    """A program's syntax tree, type annotations left out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def test_distribution_is_the_one_that_its_test_adds() -> None:
    shown = blocks(PAGE, "python")
    assert any(ENTRY in text for text in shown)
    classes = [text for text in shown if "(Definition):" in text]
    assert [without_annotations(text) for text in classes] == [without_annotations(DEFINITION)]
