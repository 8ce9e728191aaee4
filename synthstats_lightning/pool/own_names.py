"""Messages about a model in the words of its program."""

from __future__ import annotations

import difflib
import re

from synthstats_lightning.programs import parse_graph
from synthstats_lightning.programs.canonical import latent_names
from synthstats_lightning.programs.demands.censoring import censored_graph
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.scoring.process.messages import TaskMessage

_UNKNOWN = re.compile(r"name '(\w+)' is not defined")
_MOST_NAMES = 12
_CANONICAL = re.compile(r"(?<![\w.])v\d+(?!\w)")


def in_own_names(text: str, document: str, message: TaskMessage) -> str:
    """A message with a program's own names in the place of those of its canonical form.

    Scores are those of canonical forms, in which parameters are `v0`, `v1` and so on, and are shared by all
    programs of one form. A task with columns of such names keeps them.

    Args:
        text: What became of the model.
        document: The program's model graph as the sandbox wrote it.
        message: The task that it models.
    """
    if not _CANONICAL.search(text):
        return text
    try:
        graph = parse_graph(document, message.schema)
        graph = censored_graph(graph, message.censoring, message.covariates, message.response)
        names = latent_names(graph)
    except ProgramFailure:
        return text
    known = {name: own for name, own in names.items() if name not in message.schema.columns}
    return _CANONICAL.sub(lambda match: known.get(match[0], match[0]), text)


def with_known_names(text: str, message: TaskMessage) -> str:
    """A message about a name that nothing has, with the nearest column's, or those that a program may use.

    Programs as people write them form limits of a censored response from the column that says which times
    were cut short, which is none of the task's covariates: the message says who takes care of that.

    Args:
        text: What became of the program.
        message: The task that it models.
    """
    found = _UNKNOWN.search(text)
    if found is None:
        return text
    names = [*message.schema.columns, *message.schema.views, message.schema.response]
    if near := difflib.get_close_matches(found[1], names, n=1, cutoff=0.75):
        return f"{text}; the nearest column is {near[0]!r}"
    more = ", ..." if len(names) > _MOST_NAMES else ""
    told = f"{text}; the columns are {', '.join(names[:_MOST_NAMES])}{more}"
    if not message.censoring:
        return told
    limits = " or ".join(repr(name) for name in message.censoring.values())
    return (
        f"{told}. Rows whose {message.schema.response!r} is only known to be beyond {limits} are scored"
        " as such by themselves: observe it with its own distribution"
    )
