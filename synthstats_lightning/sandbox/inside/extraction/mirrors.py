"""What the negative of a draw follows."""

from __future__ import annotations

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder

_KEPT, _TURNED, _INVERTED = "kept", "turned", "inverted"
_OF_PARAMETERS: dict[str, dict[str, str]] = {
    **{
        key: {"mu": _TURNED}
        for key in ("Normal", "StudentT", "Laplace", "Logistic", "MvNormal", "MvStudentT")
    },
    "Cauchy": {"alpha": _TURNED},
    "SkewNormal": {"mu": _TURNED, "alpha": _TURNED},
    "AsymmetricLaplace": {"mu": _TURNED, "kappa": _INVERTED},
    "SkewStudentT": {"mu": _TURNED},
    "Uniform": dict.fromkeys(("lower", "upper"), _TURNED),
    "Triangular": dict.fromkeys(("lower", "c", "upper"), _TURNED),
}
"""What becomes of the parameters of laws whose mirror images are of their kind."""
_SWAPPED = {"SkewStudentT": ("a", "b"), "Uniform": ("lower", "upper"), "Triangular": ("lower", "upper")}
"""Parameters that change places besides."""
_OTHER_END = {"lower": "upper", "upper": "lower"}


def mirrored(builder: GraphBuilder, law: Law, inputs: list[Entry]) -> tuple[Law, list[Entry]] | None:
    """The law and parameters of the negative of a draw; `None` where no law is that.

    Args:
        builder: Makes the nodes of the model graph.
        law: What a draw follows.
        inputs: Entries of the law's parameters.
    """
    if law.name == "Mixture":
        return _mixture(builder, law, inputs)
    if law.name == "Truncated":
        count = len(law.bounds)
        part = mirrored(builder, law.components[0], inputs[count:])
        if part is None:
            return None
        ends = {
            _OTHER_END[name]: builder.apply("neg", end)
            for name, end in zip(law.bounds, inputs[:count], strict=True)
        }
        names = tuple(name for name in ("lower", "upper") if name in ends)
        return Law(law.name, (part[0],), names), [*(ends[name] for name in names), *part[1]]
    turns = _OF_PARAMETERS.get(law.name)
    if turns is None:
        return None
    given = dict(zip(entry_of(law).parameters, inputs, strict=True))
    found = {name: _turned(builder, entry, turns.get(name, _KEPT)) for name, entry in given.items()}
    if law.name in _SWAPPED:
        first, second = _SWAPPED[law.name]
        found[first], found[second] = found[second], found[first]
    return law, [found[name] for name in given]


def _mixture(builder: GraphBuilder, law: Law, inputs: list[Entry]) -> tuple[Law, list[Entry]] | None:
    """A mixture of mirror images, whose weights stay."""
    parts, entries, rest = [], [inputs[0]], inputs[1:]
    for component in law.components:
        count = len(entry_of(component).parameters)
        found = mirrored(builder, component, rest[:count])
        if found is None:
            return None
        parts.append(found[0])
        entries += found[1]
        rest = rest[count:]
    return Law(law.name, tuple(parts)), entries


def _turned(builder: GraphBuilder, entry: Entry, how: str) -> Entry:
    if how == _KEPT:
        return entry
    return builder.apply("neg" if how == _TURNED else "reciprocal", entry)
