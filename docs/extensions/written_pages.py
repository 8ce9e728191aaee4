"""Writes the pages that are made of code and figures into `docs/generated` before Sphinx reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from configuration_pages import configuration_page, shipped_page
from job_pages import job_page
from make_figures import page
from reference_pages import index_page, room_pages, rooms_list

from synthstats_lightning.pretraining.wide.frequencies import prior_page

HERE = Path(__file__).resolve().parents[1]


def write_pages(_: Any = None) -> None:
    """Writes every page whose text has changed."""
    rooms = room_pages()
    pages = {
        "measured": page(),
        "configuration": configuration_page(),
        "shipped": shipped_page(),
        "job_keys": job_page(),
        "rooms": rooms_list(),
        "prior_over_forms": prior_page(),
        "modules/index": index_page(rooms),
        **{f"modules/{name}": text for name, text in rooms.items()},
    }
    for name, text in pages.items():
        path = HERE / "generated" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Writes the pages when a build starts."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
