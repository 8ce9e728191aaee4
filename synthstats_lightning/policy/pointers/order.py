"""The order in which statements become tokens: what uses a parameter before the parameter."""

from __future__ import annotations

HEADER = "with pm.Model() as model:"
INDENT = "    "


def turned(source: str) -> str:
    """A program with the statements of its block in the opposite order; turned twice it is what it was.

    In tokens the observed variable comes first, then what its mean is, then the parameters, each where it is
    known what it does. A statement is a line at the block's indentation with the deeper lines behind it. Text
    of another form than a block below `HEADER` stays as it is.

    Args:
        source: Source text, or the text of tokens.
    """
    header, line_end, block = source.partition("\n")
    if header != HEADER or not line_end:
        return source
    statements: list[list[str]] = []
    for line in block.split("\n"):
        begins = line.startswith(INDENT) and line[len(INDENT) :][:1].strip()
        if begins or not statements:
            statements.append([])
        statements[-1].append(line)
    if not statements[0][0].startswith(INDENT):
        return source
    return "\n".join([header, *(line for statement in reversed(statements) for line in statement)])
