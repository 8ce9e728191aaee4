"""An episode as a text environment: Gymnasium's conventions, and the rewards of episodes."""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import Any

import pytest

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.serving.gymnasium_environment import gymnasium_environment
from synthstats_lightning.serving.text_environment import EpisodeEnvironment
from synthstats_lightning.tasks import baseline_program
from synthstats_lightning.tasks.experiments import ExperimentTask

NAME = "dugongs_simulator"


def environment(pool: Any = 1, **settings: Any) -> EpisodeEnvironment:
    return EpisodeEnvironment(NAME, scorer=pool, experiments=2, evaluation_points=3, **settings)


@pytest.mark.long
def test_an_episode(pool: ProgramScorer) -> None:
    made = environment(pool)
    first, info = made.reset(seed=5)
    task = ExperimentTask(NAME, seed=info["instance"], experiments=2, evaluation_points=3)
    assert task.written_prompt is not None
    assert first == "\n\n".join(task.written_prompt[:2])
    episode = task.begin()
    action = "<observe>2.0</observe>"
    answer, reward, terminated, truncated, info = made.step(action)
    assert (answer, reward, terminated, truncated) == (episode.answer(action), 0.0, False, False)
    assert (info["kind"], info["experiments_left"]) == ("observe", 1)
    program = baseline_program(task.given(episode))
    _, reward, terminated, truncated, info = made.step(f"<program>{program}</program>")
    expected = pool.score(program.strip("\n"), task.given(episode)).heldout_lpd
    assert info["score"]["heldout_lpd"] == expected
    assert info["baseline"] == pool.score(baseline_program(task), task).heldout_lpd
    assert reward == pytest.approx(max(expected - info["baseline"], -20.0))
    assert (terminated, truncated) == (True, False)
    assert action in made.render()
    with pytest.raises(RuntimeError, match="call reset first"):
        made.step(action)
    # the same seed begins the same instances, one after the other
    assert made.reset(seed=5)[1]["instance"] == task.seed
    second = made.reset()[1]["instance"]
    made.reset(seed=5)
    assert made.reset()[1]["instance"] == second != task.seed
    assert made.reset(options={"instance": 3})[1]["instance"] == 3
    for _ in range(5):
        _, reward, terminated, truncated, info = made.step("what?")
    assert (reward, terminated, truncated, info["score"]["status"]) == (-25.0, True, False, "turns")
    made.reset()
    made.most_characters = 10
    _, reward, terminated, truncated, info = made.step("x" * 11)
    assert (reward, terminated, truncated, info["score"]["status"]) == (-25.0, False, True, "truncated")
    made.close()
    assert pool.score(baseline_program(task), task).scored  # a pool that was given is not closed


def test_conventions_of_gymnasium() -> None:
    made = environment()
    reset = inspect.signature(made.reset).parameters
    assert {name: reset[name].kind for name in reset} == dict.fromkeys(
        ("seed", "options"), inspect.Parameter.KEYWORD_ONLY
    )
    assert list(inspect.signature(made.step).parameters) == ["action"]
    assert made.metadata["render_modes"] == ["ansi"]
    assert made.unwrapped is made
    observation, info = made.reset(seed=0)
    assert (type(observation), type(info)) == (str, dict)
    for argument, value in (("seed", 1), ("turns", 0), ("most_characters", 0)):
        with pytest.raises(ValueError, match=argument):
            environment(**{argument: value})
    for seed in (-1, "x"):
        with pytest.raises(ValueError, match=f"seed must be an integer, at least 0, got {seed!r}"):
            made.reset(seed=seed)  # type: ignore[arg-type]
    for instance in ("x", 1.5, True, None, -1):
        with pytest.raises(ValueError, match=f"instance must be an integer, at least 0, got {instance!r}"):
            made.reset(options={"instance": instance})
    with pytest.raises(ValueError, match="options may hold 'instance', got x"):
        made.reset(options={"x": 1})
    with pytest.raises(ValueError, match="score 'heldout_lpd' and prior_weight 0"):
        environment(reward=Reward())
    made.close()


@pytest.mark.skipif(find_spec("gymnasium") is None, reason="pip install gymnasium")
@pytest.mark.filterwarnings("ignore")
def test_gymnasium_s_own_checker(pool: ProgramScorer) -> None:
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    made = gymnasium_environment(environment(pool))
    assert isinstance(made, gymnasium.Env)
    check_env(made, skip_render_check=True)
    limited = gymnasium.wrappers.TimeLimit(made, 1)
    limited.reset(seed=1)
    assert limited.step("<observe>2.0</observe>")[3]
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium_environment(environment(pool))] * 2)
    told, _ = vector.reset(seed=[1, 2])
    assert len(told) == 2
    assert vector.step(("<observe>2.0</observe>", "what?"))[1].tolist() == [0.0, 0.0]
    vector.close()


@pytest.mark.skipif(find_spec("gymnasium") is not None, reason="it is installed")
def test_without_gymnasium(pool: ProgramScorer) -> None:
    with pytest.raises(ModuleNotFoundError, match="pip install gymnasium"):
        gymnasium_environment(environment(pool))
