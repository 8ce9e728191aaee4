"""The log reward of a program as a reward function of TRL's trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from synthstats_lightning.programs.answers import extract_source
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.serving.scorers import Scorer, make_scorer
from synthstats_lightning.tasks import Task, baseline_program, get_task, task_prompt

Completion = str | Sequence[dict[str, Any]]
"""What a policy wrote: text, or the messages of a conversation."""


class TrlReward:
    """What `trl_reward` returns: log rewards of completions, in nats; see there.

    Args:
        tasks: What programs are written for, by name.
        reward: From a score to a log reward, without the reference policy.
        scorer: Where programs are scored.
        own_scorer: Whether `close` ends it.

    A context manager, too, which closes it.

    Attributes:
        scores: Scores of the latest call, in its order, failures with their category.

    Raises:
        RuntimeError: If a task's baseline program has no score.
    """

    def __init__(self, tasks: dict[str, Task], reward: Reward, scorer: Scorer, own_scorer: bool) -> None:
        self.__name__ = "log_reward"  # by which TRL logs it
        self.reward = reward
        self.scores: list[Score] = []
        self._tasks = tasks
        self._scorer = scorer
        self._own_scorer = own_scorer
        pending = {name: scorer.submit(baseline_program(task), task) for name, task in tasks.items()}
        self._baselines: dict[str, float] = {}
        for name, future in pending.items():
            score = future.result()
            if reward.value(score) != reward.value(score):
                raise RuntimeError(
                    f"the baseline program of task {name!r} has no {reward.score} ({score.failure}:"
                    f" {score.message})"
                )
            self._baselines[name] = reward.value(score)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        task: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        """Log rewards `[completions]`, in nats, in the order of the completions.

        Args:
            prompts: They are not read.
            completions: What the policy wrote for each prompt; fences, prose and thoughts are taken off.
            task: Name of each one's task, the column `task` of the data set; needed where there are several.
            log_metric: By which TRL lets a reward log; it gets `valid_share`, the share of programs that have
                a score.
            **columns: Whatever else TRL hands over; it is not read.

        Raises:
            ValueError: If a task is not named, is none of those that were given, there are more or fewer than
                completions, or a completion is neither a text nor messages.
            RemoteScorerError: If a server gives no score.
        """
        if isinstance(completions, str):
            raise ValueError("completions must be a list of texts or conversations, got one text")
        names = self._names(task, len(completions))
        sources = [extract_source(text_of(completion)) for completion in completions]
        futures = [
            self._scorer.submit(source, self._tasks[name])
            for source, name in zip(sources, names, strict=True)
        ]
        self.scores = [future.result() for future in futures]
        if log_metric is not None and self.scores:
            log_metric("valid_share", sum(score.scored for score in self.scores) / len(self.scores))
        return [
            self.reward.log_reward(score, self._baselines[name])
            for score, name in zip(self.scores, names, strict=True)
        ]

    def close(self) -> None:
        """Ends the scorer, where it was made for this reward."""
        if self._own_scorer:
            self._scorer.close()

    def __enter__(self) -> TrlReward:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _names(self, task: Sequence[str] | None, count: int) -> list[str]:
        if task is None:
            if len(self._tasks) > 1:
                raise ValueError(
                    f"the data set needs a column `task` with one of {', '.join(self._tasks)} in each row"
                )
            return [*self._tasks] * count
        if isinstance(task, str):
            raise ValueError(f"task must be a list with a name for each completion, got {task!r}")
        if len(task) != count:
            raise ValueError(f"task must have a name for each of {count} completions, got {len(task)}")
        if unknown := [name for name in task if name not in self._tasks]:
            raise ValueError(f"task must be one of {', '.join(self._tasks)}, got {unknown[0]!r}")
        return list(task)


def trl_reward(
    task: str | Task | Sequence[str | Task],
    *,
    reward: Reward | None = None,
    scorer: Scorer | str | int | None = None,
) -> TrlReward:
    """A function for `reward_funcs` of TRL's `GRPOTrainer`, `RLOOTrainer` and others.

    A completion's reward is its program's log reward, in nats above the task's baseline program: with the
    defaults the log evidence less the baseline's, at least `Reward.floor`, and `Reward.log_reward_failure`
    for a program without a score. The reference policy's part of a `Reward` is the trainer's own, its `beta`
    of the KL divergence: such trainers maximise a reward and do not sample in proportion to it.

    Args:
        task: What programs are written for: a task or the name of a bundled one, or several, which the
            data set's column `task` then tells apart by their names.
        reward: From a score to a log reward; its `prior_weight` must be 0, which it is by default.
        scorer: A running scorer; the address of a `synthstats-lightning serve`; or a number of workers for a
            pool of its own, `None` for as many as go with a trainer. `close` ends what was not given running.

    Raises:
        ValueError: If a task is unknown, there is none, two have one name, or `prior_weight` is not 0.
        RuntimeError: If a task's baseline program has no score.
    """
    reward = reward or Reward(prior_weight=0.0)
    if reward.prior_weight:
        raise ValueError(f"prior_weight must be 0 for TRL's trainers, got {reward.prior_weight}")
    given = [task] if isinstance(task, str | Task) else list(task)
    tasks = {each.name: each for each in map(get_task, given)}
    if not given or len(tasks) < len(given):
        raise ValueError(f"task must be one or more tasks of different names, got {len(given)}")
    found, own = make_scorer(scorer)
    try:
        return TrlReward(tasks, reward, found, own)
    except BaseException:
        if own:
            found.close()
        raise


def trl_rows(task: str | Task, count: int = 1) -> list[dict[str, Any]]:
    """Rows of a data set for TRL: the task's prompt as a conversation, and its name.

    Args:
        task: A task or the name of a bundled one.
        count: How many equal rows; TRL draws groups of programs for each.

    Raises:
        ValueError: If the task is unknown, or `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    task = get_task(task)
    prompt = task_prompt(task)
    request = f"{prompt.request}\n{prompt.data}" if prompt.data else prompt.request
    messages = [{"role": "system", "content": prompt.rules}, {"role": "user", "content": request}]
    return [{"prompt": [dict(message) for message in messages], "task": task.name} for _ in range(count)]


def text_of(completion: Any) -> str:
    """The text of what a policy wrote.

    Args:
        completion: Text, or messages whose last one is the policy's; its content is a text, parts of which
            those of type `text` count, or nothing.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Sequence) and not isinstance(completion, bytes):
        last: Any = completion[-1] if completion else {"content": ""}
        content: Any = last.get("content") if isinstance(last, Mapping) else 0
        if content is None or isinstance(content, str):
            return content or ""
        if isinstance(content, Sequence) and all(isinstance(part, Mapping) for part in content):
            return "".join(str(part.get("text") or "") for part in content if part.get("type") == "text")
    raise ValueError(
        f"a completion must be a text, or messages with a role and a content, got {repr(completion)[:80]}"
    )
