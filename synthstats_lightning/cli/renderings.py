"""Files that show a program's model: a card in Markdown, a picture in DOT."""

from __future__ import annotations

from pathlib import Path

from synthstats_lightning.confinement import Level
from synthstats_lightning.programs.rendering.graphviz import to_dot
from synthstats_lightning.programs.rendering.model_card import model_card
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task


def write_renderings(
    source: str,
    task: Task,
    score: Score,
    *,
    card: Path | None = None,
    dot: Path | None = None,
    limits: SandboxLimits | None = None,
    sandbox: Level = "strict",
) -> None:
    """Builds a program once more and writes what it is.

    Args:
        source: Python source that builds one PyMC model of the task's response.
        task: The task that the program is about.
        score: The program's score, shown on the card.
        card: Where to write the model card; `None` for nowhere.
        dot: Where to write the picture.
        limits: What the sandbox lets a program use: memory, processor time, wall time, output.
        sandbox: How strictly the kernel confines the program.

    Raises:
        ProgramFailure: If the program does not build.
        OSError: If a file cannot be written.
    """
    with Sandbox(limits, level=sandbox) as worker:
        graph = parse_graph(worker.build(source, task.schema, task.covariates), task.schema)
    if card is not None:
        _write(card, model_card(graph, task.response, score_facts(score, task)))
    if dot is not None:
        _write(dot, to_dot(graph, task.response))


def score_facts(score: Score, task: Task) -> dict[str, str]:
    """What a model card says of a score, by name."""
    facts = {"task": task.name}
    if score.evidence is not None:
        facts["log evidence"] = f"{score.evidence:.3f} ± {score.evidence_se:.3f} nats"
    if score.elpd is not None:
        facts["elpd (leave-one-out)"] = f"{score.elpd:.2f} ± {score.elpd_se:.2f} nats"
    if not score.scored:
        facts["no score"] = f"{score.failure}: {score.message}"
    if task.rounding is not None:
        facts["response recorded to"] = f"{task.rounding:g}"
    return facts


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
