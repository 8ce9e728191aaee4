"""An episode as a text environment with Gymnasium's methods, which needs no Gymnasium."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.serving.scorers import Scorer, make_scorer
from synthstats_lightning.tasks import Prompt, baseline_program, task_prompt
from synthstats_lightning.tasks.experiments import ExperimentEpisode, ExperimentTask
from synthstats_lightning.tasks.simulators import Simulator

MOST_CHARACTERS = 100_000
"""Characters of an action; a longer one ends the episode."""
MOST_SEED = 2**31 - 1


class EpisodeEnvironment:
    """Episodes of one simulated environment as text: experiment, then submit a program.

    Has the methods and attributes of `gymnasium.Env`. An observation is what a policy is told: after `reset`
    rules and request, after a step the environment's answer. An action is the text of a turn,
    `<observe>DESIGN</observe>` or `<program>SOURCE</program>`, see `ExperimentTask`. The reward is 0 until
    the episode is over, then the log reward in nats: the log predictive density of the evaluation points
    above that of the baseline program which has observed nothing, or `Reward.log_reward_failure`. Running out
    of turns terminates an episode, since its rules say how many there are; a longer action than
    `most_characters` truncates it.

    Args:
        simulator: Name of a simulated environment, or a simulator.
        reward: From a score to a log reward; its `score` must be `"heldout_lpd"` and its `prior_weight` 0,
            which they are by default.
        scorer: A running scorer, or a number of workers for a pool of its own; `None` for as many as go with
            a trainer, and the address of a server for one elsewhere. `close` ends what was not given running.
        most_characters: Characters of an action.
        **settings: The other arguments of `ExperimentTask`, but for the seed.

    Attributes:
        task: The task of the present instance, `None` before the first `reset`.
        episode: The present episode, `None` before the first `reset`.

    Raises:
        ValueError: If a simulator is unknown, a number is out of range, or the reward is of another score.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}
    render_mode: str | None = "ansi"
    spec: Any = None
    action_space: Any = None
    observation_space: Any = None

    def __init__(
        self,
        simulator: str | Simulator,
        reward: Reward | None = None,
        scorer: Scorer | str | int | None = None,
        most_characters: int = MOST_CHARACTERS,
        **settings: Any,
    ) -> None:
        self.reward = reward or Reward(score="heldout_lpd", prior_weight=0.0)
        if self.reward.score != "heldout_lpd" or self.reward.prior_weight:
            raise ValueError(
                "reward must have score 'heldout_lpd' and prior_weight 0 for episodes, got"
                f" {self.reward.score!r} and {self.reward.prior_weight}"
            )
        if most_characters < 1:
            raise ValueError(f"most_characters must be at least 1, got {most_characters}")
        if "seed" in settings:
            raise ValueError(f"seed is an argument of reset, got {settings['seed']} before it")
        ExperimentTask(simulator, seed=0, **settings)  # refuses wrong arguments now
        self.most_characters = most_characters
        self.task: ExperimentTask | None = None
        self.episode: ExperimentEpisode | None = None
        self._simulator = simulator
        self._settings = settings
        self._scorer, self._own_scorer = make_scorer(scorer)
        self._random: np.random.Generator | None = None
        self._said: list[str] = []

    @property
    def unwrapped(self) -> EpisodeEnvironment:
        """This environment: it wraps no other."""
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """What instances are drawn from where `reset` is given no seed."""
        if self._random is None:
            self._random = np.random.default_rng()
        return self._random

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begins an episode.

        Args:
            seed: Seed of the instance, and of those that follow it without a seed; without one the next is
                drawn.
            options: With `instance`, the seed of the instance itself; nothing else.

        Returns:
            The prompt, rules and request, and what is known of the episode.

        Raises:
            ValueError: If an option is unknown, or the seed or the instance is negative or no integer.
        """
        if unknown := set(options or ()) - {"instance"}:
            raise ValueError(f"options may hold 'instance', got {', '.join(sorted(map(str, unknown)))}")
        if seed is not None:
            try:
                self._random = np.random.default_rng(seed)
            except (TypeError, ValueError):
                raise ValueError(f"seed must be an integer, at least 0, got {seed!r}") from None
        drawn = int(self.np_random.integers(MOST_SEED))
        instance = (options or {}).get("instance", drawn)
        if not isinstance(instance, int | np.integer) or isinstance(instance, bool) or instance < 0:
            raise ValueError(f"instance must be an integer, at least 0, got {instance!r}")
        self.task = ExperimentTask(self._simulator, seed=int(instance), **self._settings)
        self.episode = self.task.begin()
        observation = prompt_text(task_prompt(self.task))
        self._said = [observation]
        return observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes one turn.

        Args:
            action: What the policy wrote, without a stop token.

        Returns:
            The environment's answer (empty once the episode is over), the reward in nats, whether the rules
            ended the episode, whether it was cut short, and what is known of it; once it is over with `score`
            and `baseline`.

        Raises:
            RuntimeError: If there is no episode, or it is over.
        """
        if self.episode is None or is_over(self.episode):
            raise RuntimeError("the episode is over or has not begun: call reset first")
        if len(action) > self.most_characters:
            reason = f"an action of {len(action)} characters, at most {self.most_characters} are allowed"
            self.episode.cut(action[: self.most_characters], reason)
            answer = ""
        else:
            answer = self.episode.answer(action) or ""
        self._said += [action, answer]
        if not self.episode.over:
            return answer, 0.0, False, False, self._info()
        score, baseline = self._scores(self.episode)
        value = self.reward.log_reward(score, baseline)
        cut = self.episode.state()["cut"] is not None
        info = {**self._info(), "score": score.to_dict(), "baseline": baseline}
        return answer, value, not cut, cut, info

    def render(self) -> str:
        """The conversation so far."""
        return "\n".join(text for text in self._said if text)

    def close(self) -> None:
        """Ends the scorer, where it was made for this environment."""
        if self._own_scorer:
            self._scorer.close()

    def __enter__(self) -> EpisodeEnvironment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _scores(self, episode: ExperimentEpisode) -> tuple[Score, float]:
        """The submitted program's score, and the baseline's."""
        assert self.task is not None  # noqa: S101
        pending = self._scorer.submit(baseline_program(self.task), self.task)
        if episode.failure is not None:
            score = Score.failed(*episode.failure)
        else:
            score = self._scorer.score(episode.program, self.task.given(episode))
        baseline = pending.result()
        if baseline.heldout_lpd is None:
            raise RuntimeError(
                f"the baseline program of {self.task.name} has no score ({baseline.failure}:"
                f" {baseline.message})"
            )
        return score, baseline.heldout_lpd

    def _info(self) -> dict[str, Any]:
        assert self.task is not None  # noqa: S101
        assert self.episode is not None  # noqa: S101
        turns = self.episode.turns
        return {
            "instance": self.task.seed,
            "kind": turns[-1].kind if turns else "begin",
            "experiments_left": self.episode.experiments_left,
            "turns_left": self.episode.turns_left,
        }


def is_over(episode: ExperimentEpisode) -> bool:
    """Whether an episode has ended.

    Args:
        episode: It may go on with the next turn.
    """
    return episode.over


def prompt_text(prompt: Prompt) -> str:
    """A prompt as one text.

    Args:
        prompt: Rules and request.
    """
    return f"{prompt.rules}\n\n{prompt.request}"
