"""A model on one page, for reports."""

from __future__ import annotations

from collections.abc import Mapping

from synthstats_lightning.programs.canonical import RESPONSE_NAME, canonical_model
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.rendering.latex import latex_statements
from synthstats_lightning.programs.rendering.render import statements
from synthstats_lightning.programs.shapes import size


def model_card(
    graph: ModelGraph, response_name: str = RESPONSE_NAME, facts: Mapping[str, str] | None = None
) -> str:
    """A model in Markdown: its statements as text and as LaTeX mathematics, and what it is made of.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned, canonical or not.
        response_name: What to call the response.
        facts: Further lines of the table, such as scores, by name.

    Returns:
        Text that ends in a line break. Models of equal canonical form have equal cards.
    """
    model = canonical_model(graph)
    nodes = list(enumerate(model.graph.nodes))
    latents = [i for i, node in nodes if node.op == "random" and i != model.graph.response]
    columns = sorted({node.attributes["name"] for _, node in nodes if node.op == "covariate"})
    table = {
        "rows": str(size(model.graph.shapes[model.graph.response])),
        "columns": ", ".join(columns) or "none",
        "parameters": f"{sum(size(model.graph.shapes[i]) for i in latents)} numbers in {len(latents)}",
        "canonical form": model.hash,
        "structure": model.structure,
        **(facts or {}),
    }
    return "\n".join(
        [
            f"# Model of {_cell(response_name)}",
            "",
            *(f"    {line}" for line in statements(model.graph, response_name)),
            "",
            "| | |",
            "|---|---|",
            *(f"| {_cell(name)} | {_cell(value)} |" for name, value in table.items()),
            "",
            "$$",
            "\\begin{aligned}",
            " \\\\\n".join(
                line.replace(r" \sim ", r" &\sim ", 1)
                for line in latex_statements(model.graph, response_name)
            ),
            "\\end{aligned}",
            "$$",
            "",
        ]
    )


def _cell(text: str) -> str:
    """Text that cannot leave its cell, whoever wrote it."""
    shown = text if text.isprintable() else ascii(text)
    return shown.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
