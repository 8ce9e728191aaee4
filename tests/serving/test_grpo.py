"""TRL's own `GRPOTrainer` learns from the served scorer; skipped where TRL is not installed."""

from __future__ import annotations

import math
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.serving.remote_scorer import RemoteScorer
from synthstats_lightning.serving.trl import text_of, trl_reward, trl_rows
from synthstats_lightning.tasks import baseline_program, get_task
from tests.serving.conftest import QUEUE

STEPS = 20


class TableScorer:
    """Scores by a table of sources."""

    def __init__(self, scores: dict[str, Score]) -> None:
        self.scores = scores

    def submit(self, source: str, task: Any) -> Any:
        from concurrent.futures import Future

        future: Future[Score] = Future()
        future.set_result(self.score(source, task))
        return future

    def score(self, source: str, task: Any) -> Score:
        return self.scores.get(source, Score.failed(FailureCategory.SYNTAX, "no program"))

    def close(self) -> None:
        raise AssertionError("it is not the reward's to close")


def test_rewards_of_several_tasks() -> None:
    first, second = get_task("dugongs"), get_task("surgical")
    scores = {
        baseline_program(first): Score(evidence=-10.0),
        baseline_program(second): Score(evidence=-50.0),
        "a = 1": Score(evidence=-8.0),
        "b = 2": Score(evidence=-500.0),
    }
    reward = trl_reward(
        [first, "surgical"], scorer=TableScorer(scores), reward=Reward(prior_weight=0.0, floor=-9.0)
    )
    completions = ["a = 1", "```python\nb = 2\n```", [{"role": "assistant", "content": "a = 1"}], "prose"]
    names = ["dugongs", "dugongs", "surgical", "surgical"]
    assert reward([""] * 4, completions, task=names, other=[1] * 4) == [2.0, -9.0, 42.0, -25.0]
    assert [score.failure for score in reward.scores] == [None, None, None, FailureCategory.SYNTAX]
    assert reward.__name__ == "log_reward"
    reward.close()
    with pytest.raises(ValueError, match="needs a column `task` with one of dugongs, surgical"):
        reward([""], ["a = 1"])
    with pytest.raises(ValueError, match="task must be one of dugongs, surgical, got 'nile'"):
        reward([""], ["a = 1"], task=["nile"])
    with pytest.raises(ValueError, match="prior_weight must be 0"):
        trl_reward("dugongs", reward=Reward(), scorer=TableScorer(scores))
    with pytest.raises(RuntimeError, match="baseline program of task 'peregrines' has no evidence"):
        trl_reward("peregrines", scorer=TableScorer(scores))
    with pytest.raises(ValueError, match="of different names, got 2"):
        trl_reward(["dugongs", first], scorer=TableScorer(scores))
    assert text_of([]) == ""
    logged: list[tuple[str, float]] = []
    with reward as same:
        same(
            [""] * 4,
            ["a = 1", "", "a = 1", "x"],
            task=["dugongs"] * 4,
            log_metric=lambda *row: logged.append(row),
        )
    assert logged == [("valid_share", 0.5)]


def test_contents_of_messages() -> None:
    parts = [{"type": "text", "text": "a = "}, {"type": "image"}, {"type": "text", "text": "1"}]
    assert text_of([{"role": "user", "content": "?"}, {"role": "assistant", "content": parts}]) == "a = 1"
    assert text_of([{"role": "assistant", "content": None}]) == ""
    for wrong in (None, 5, b"a = 1", {"content": "a = 1"}, ["a = 1"], [{"content": 5}]):
        with pytest.raises(ValueError, match="a completion must be a text, or messages"):
            text_of(wrong)


def test_what_is_no_batch_is_told_in_one_line() -> None:
    tasks = [get_task("dugongs"), get_task("surgical")]
    reward = trl_reward(
        tasks, scorer=TableScorer({baseline_program(task): Score(evidence=-10.0) for task in tasks})
    )
    batches: dict[str, tuple[Any, Any]] = {
        "completions must be a list": ("a = 1", ["dugongs"]),
        "task must be a list with a name for each completion, got 'dugongs'": (["a = 1"], "dugongs"),
        "a name for each of 2 completions, got 1": (["a = 1", "b"], ["dugongs"]),
    }
    for said, (completions, names) in batches.items():
        with pytest.raises(ValueError, match=said):
            reward([""], completions, task=names)


def test_rows_of_a_data_set() -> None:
    rows = trl_rows("dugongs", 2)
    assert [row["task"] for row in rows] == ["dugongs", "dugongs"]
    assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
    assert "response length: continuous" in rows[0]["prompt"][1]["content"]


@pytest.mark.skipif(find_spec("trl") is None, reason="pip install trl")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(1500)
def test_twenty_steps_of_grpo(both: Any, key: str, tmp_path: Path) -> None:
    import datasets
    import trl
    from transformers import AutoModelForCausalLM, AutoTokenizer

    url, _, _ = both
    folder = str(resources.files("synthstats_lightning.policy").joinpath("tiny"))
    with RemoteScorer(url, key, requests=QUEUE) as remote:
        reward = trl_reward("dugongs", scorer=remote)
        trainer = trl.GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(folder),
            reward_funcs=reward,
            train_dataset=datasets.Dataset.from_list(trl_rows("dugongs", 4 * STEPS)),
            processing_class=AutoTokenizer.from_pretrained(folder),
            args=trl.GRPOConfig(
                output_dir=str(tmp_path),
                max_steps=STEPS,
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=120,
                learning_rate=1e-4,
                use_cpu=True,
                bf16=False,
                report_to="none",
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
            ),
        )
        trainer.train()
    assert trainer.state.global_step == STEPS
    logged = [entry["rewards/log_reward/mean"] for entry in trainer.state.log_history if "reward" in entry]
    assert len(logged) == STEPS
    assert all(math.isfinite(value) and -25.0 <= value < 60.0 for value in logged)
    assert max(logged) > -25.0  # some of them were programs with a score
