"""Python that the site shows runs, in fewer steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.docs.pages import ROOT, blocks

PROGRAM = """
with pm.Model() as model:
    top = pm.Normal("top", {top}, 20)
    gain = pm.Normal("gain", 50, 20)
    scale = pm.HalfNormal("scale", 2)
    sigma = pm.HalfNormal("sigma", 5)
    pm.Normal("height", top - gain * pm.math.exp(-data.dose / scale), sigma, observed=data.height)
"""


def snippet(page: str, beginning: str) -> str:
    """The one block of a page's Python that begins with a line.

    Args:
        page: Its path below `docs`.
        beginning: How its first line begins.
    """
    (found,) = [text for text in blocks(ROOT / "docs" / page, "python") if text.startswith(beginning)]
    return found


def run(source: str, **given: Any) -> dict[str, Any]:
    """Runs a snippet and returns its names."""
    names = dict(given)
    exec(compile(source, "snippet", "exec"), names)
    return names


def test_without_lightning() -> None:
    source = snippet("how-to/embedding.md", "import torch")
    assert "range(100)" in source
    source = source.replace("range(100)", "range(2)")
    rewarded: list[int] = []

    def my_reward(sources: list[str]) -> float:
        rewarded.append(len(sources))
        return 0.5

    found = run(source, my_reward=my_reward)
    assert rewarded == [16, 16]
    # the reward is half a nat above the reference's log-probability, which the policy still has
    assert found["log_z"].value.item() == pytest.approx(0.5, abs=0.3)
    assert bool(found["log_prob"].isfinite().all())


def test_losses_by_plain_tensors() -> None:
    found = run(snippet("how-to/serving.md", "import torch"))
    target = found["log_reward"].softmax(0)
    assert found["log_prob"].exp().tolist() == pytest.approx(target.tolist(), abs=0.01)
    assert found["log_z"].item() == pytest.approx(found["log_reward"].logsumexp(0).item(), abs=0.02)
    assert found["spread"].item() < 1e-3


NOISE = np.random.default_rng(0).normal(0.0, 2.0, 20)
PLANTS = "dose,height\n" + "".join(
    f"{place / 4},{10 + 3 * place - place * place / 9 + NOISE[place]:.2f}\n" for place in range(20)
)


def test_data_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "plants.csv").write_text(PLANTS)
    monkeypatch.chdir(tmp_path)
    found = run(snippet("how-to/own_data.md", "import pandas"))
    assert found["task"].data["height"][0] == round(10 + NOISE[0], 2)
    assert list(found["task"].views) == ["dose_z"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_readme_as_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plants.csv").write_text(PLANTS)
    monkeypatch.chdir(tmp_path)
    (source,) = blocks(ROOT / "README.md", "python")
    assert "max_steps=200" in source
    found = run(source.replace("max_steps=200", "max_steps=3"))
    assert found["task"].name == "plants"
    assert len(found["data"].buffer) > 0


def test_simulators() -> None:
    found = run(snippet("tasks.md", "from synthstats_lightning.tasks.simulators"))
    assert found["simulator"].name == "death_process"


@pytest.mark.long
def test_prediction_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    folder = tmp_path / "runs" / "plants" / "version_0"
    folder.mkdir(parents=True)
    records = [
        {"source": PROGRAM.format(top=60), "evidence": -76.0, "reference_log_prob": -30.0},
        {"source": PROGRAM.format(top=70), "evidence": -75.0, "reference_log_prob": -31.0},
        {"source": "pass", "evidence": None, "reference_log_prob": -2.0},
    ]
    (folder / "programs.jsonl").write_text("".join(json.dumps(item) + "\n" for item in records))
    monkeypatch.chdir(tmp_path)
    found = run(snippet("tutorial.md", "import json"))
    truth = found["task"].data["height"][-6:]
    assert found["weight"] == pytest.approx([0.5, 0.5])
    assert np.abs(found["mean"] - truth).max() < 8
