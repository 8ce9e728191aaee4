"""Model graphs of programs whose template is known, without another build of each."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from synthstats_lightning.pool.templates.documents import Document, learn, probes
from synthstats_lightning.pool.templates.text import ROOTS, Template, template_of
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import DataSchema

BUILDS = 2
"""Programs of a template that are built before it is learned: most come once, and three more builds would be
for nothing."""
MOST_TEMPLATES = 2_000
"""Templates that are kept, those that were used last."""

Build = Callable[[str], str]
"""From a program's source to the JSON text of its model graph, in the sandbox."""


@dataclass
class _Entry:
    """What is known of one template.

    Attributes:
        builds: Constants and document of its first programs, until it is learned.
        document: What it builds, once it is learned.
        hopeless: Whether it is not to be learned.
    """

    builds: dict[tuple[str, ...], str] = field(default_factory=dict)
    document: Document | None = None
    hopeless: bool = False


class KnownTemplates:
    """Model graphs of programs that differ from earlier ones in their priors' constants only.

    The sandbox builds the first programs of a template, and the same with constants that are made up. Where
    each document holds each constant as it is written, or one over it, and is otherwise the same, further
    programs of the template are filled in. The document is, to the character, what a build would give: scores
    do not depend on which programs came before.

    Attributes:
        filled: How many documents were filled in.
    """

    def __init__(self) -> None:
        self.filled = 0
        self._entries: OrderedDict[tuple[str, tuple[str, ...]], _Entry] = OrderedDict()

    def build(self, source: str, schema: DataSchema, fingerprint: str, build: Build) -> str:
        """The document of a program's model graph.

        Args:
            source: Source text of the program.
            schema: What the program may refer to.
            fingerprint: Hash of the data.
            build: Builds a program in the sandbox.

        Raises:
            ProgramFailure: If the program does not build.
        """
        template = None if _hides(schema) else template_of(source)
        if template is None:
            return build(source)
        entry = self._entry((f"{fingerprint} {schema}", template.parts))
        if entry.document is None and not entry.hopeless and len(entry.builds) >= BUILDS:
            self._learn(entry, template, build)
        if entry.document is not None:
            self.filled += 1
            return entry.document.filled(template.constants)
        document = build(source)
        if not entry.hopeless:
            entry.builds[template.constants] = document
        return document

    def _entry(self, key: tuple[str, tuple[str, ...]]) -> _Entry:
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        if len(self._entries) > MOST_TEMPLATES:
            self._entries.popitem(last=False)
        return entry

    def _learn(self, entry: _Entry, template: Template, build: Build) -> None:
        digest = hashlib.sha256("\0".join(template.parts).encode()).digest()
        try:
            for constants in probes(len(template.constants), int.from_bytes(digest[:8], "big")):
                entry.builds[constants] = build(template.filled(constants))
            entry.document = learn(list(entry.builds.items()))
        except (ProgramFailure, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # what comes from the sandbox may be anything
            entry.document = None
        entry.hopeless = entry.document is None
        entry.builds = {}


def _hides(schema: DataSchema) -> bool:
    """Whether a column takes a library's name."""
    names = {*schema.columns, *schema.views, *schema.events, *schema.censoring.values(), schema.response}
    return bool(names & ROOTS)
