"""An episode as a `gymnasium.Env` proper, for Gymnasium's wrappers, vectors and checks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from synthstats_lightning.serving.text_environment import MOST_CHARACTERS, EpisodeEnvironment


def gymnasium_environment(environment: EpisodeEnvironment) -> Any:
    """A `gymnasium.Env` of a text environment, with spaces.

    Both spaces are `gymnasium.spaces.Text` that hold any text: actions of at most `most_characters`,
    observations of at most `MOST_CHARACTERS`. What they sample are letters and digits, which no episode takes
    for an action.

    Args:
        environment: What it passes everything on to; `close` closes it.

    Returns:
        The environment, of `gymnasium.Env[str, str]`.

    Raises:
        ModuleNotFoundError: If Gymnasium is not installed.
    """
    if find_spec("gymnasium") is None:
        raise ModuleNotFoundError("gymnasium_environment needs Gymnasium: pip install gymnasium")
    import gymnasium

    class AnyText(gymnasium.spaces.Text):
        """Texts of any characters."""

        def contains(self, x: Any) -> bool:
            """Whether it is a text that is short enough."""
            return isinstance(x, str) and self.min_length <= len(x) <= self.max_length

    class Episodes(gymnasium.Env):
        """Passes everything on."""

        metadata = EpisodeEnvironment.metadata

        def __init__(self) -> None:
            self.render_mode = environment.render_mode
            self.action_space = AnyText(environment.most_characters, min_length=0)
            self.observation_space = AnyText(MOST_CHARACTERS, min_length=0)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            """Begins an episode."""
            super().reset(seed=seed)
            return environment.reset(seed=seed, options=options)

        def step(self, action: str) -> Any:
            """Takes one turn."""
            return environment.step(action)

        def render(self) -> Any:
            """The conversation so far."""
            return environment.render()

        def close(self) -> None:
            """Ends the scorer, where it was made for this environment."""
            environment.close()

    return Episodes()
