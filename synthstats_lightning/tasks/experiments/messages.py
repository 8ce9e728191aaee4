"""What an environment says: the rules and the request of an episode, and its answers to turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from synthstats_lightning.tasks.columns import Array, Column, number
from synthstats_lightning.tasks.prompt import column_line
from synthstats_lightning.tasks.simulators import DesignField

RULES = """\
Learn about a data source by experiments, then submit one PyMC program that predicts its response.
In every turn write one action and nothing else:
<observe>DESIGN</observe> performs an experiment. DESIGN is a number, pairs such as `name = value`, or JSON.
<program>SOURCE</program> submits the program and ends the episode.
JSON does as well: {"tool": "observe", "arguments": DESIGN}
or {"tool": "submit", "arguments": {"program": SOURCE}}.
The program is a single `with pm.Model() as model:` block. It is conditioned on the rows that you observed and
judged by how well it predicts others of the same source.
In scope: pm, np, pt (pytensor.tensor), math and every column by its own name, a NumPy array.
The response may be used only as `observed=`. Give every parameter a proper prior. Do not sample."""

EXPERIMENTS_LEFT = "experiments left: "
TURNS_LEFT = "turns left: "
ERROR = "error: "
NONE_LEFT = "no experiments are left; submit a program"

Observed = Mapping[str, Array]


def render_episode_request(
    description: str,
    columns: Sequence[Column],
    response: Column,
    fields: Sequence[DesignField],
    experiments: int,
    turns: int,
) -> str:
    """The part of a prompt that describes a data source.

    Args:
        description: One sentence that says what the environment is.
        columns: The covariates of an observed row.
        response: The response column.
        fields: What a design consists of.
        experiments: How many may be performed.
        turns: How many turns there are, the submission included.
    """
    lines = [description.strip()]
    lines += [column_line(column) for column in columns]
    lines += [f"response {column_line(response)}"]
    lines += [f"design {field.line}" for field in fields]
    lines += [f"experiments: {experiments}, turns: {turns}"]
    return "\n".join(lines)


def observation(rows: Observed, experiments_left: int) -> str:
    """The answer to an experiment: its rows, and how many experiments are left.

    Args:
        rows: Column name to values `[rows]`.
        experiments_left: Experiments that the budget still allows.
    """
    count = len(next(iter(rows.values())))
    lines = [
        ", ".join(f"{name} = {number(float(values[row]))}" for name, values in rows.items())
        for row in range(count)
    ]
    return "\n".join([*lines, f"{EXPERIMENTS_LEFT}{experiments_left}"])


def refusal(message: str, turns_left: int) -> str:
    """The answer to an action that cannot be done.

    Args:
        message: Why, in one line; see `plain` for what repeats the policy's own text.
        turns_left: Turns that the budget still allows.
    """
    return f"{ERROR}{message}\n{TURNS_LEFT}{turns_left}"


def plain(message: str, limit: int = 200) -> str:
    """A message in one printable line without angle brackets, so that it can hold no tag of its own.

    Args:
        message: Any text of the environment.
        limit: Characters that are kept.
    """
    words = " ".join(message.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in words)
    shown = shown if len(shown) <= limit else shown[: limit - 3] + "..."
    return shown.replace("<", "&lt;").replace(">", "&gt;")


def stacked(blocks: Sequence[Observed], columns: Sequence[str]) -> dict[str, Array]:
    """Rows of several observations, one after the other.

    Args:
        blocks: At least one.
        columns: Names, in order.
    """
    return {name: np.concatenate([block[name] for block in blocks]) for name in columns}
