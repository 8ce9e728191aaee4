"""What a random node follows, as a value: a distribution's name, and its components if it is composite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BOUNDED = ("Truncated", "Censored")
"""Composites of one component between bounds."""
VECTORS = {"RandomWalk": 2, "AR": 1, "Ordered": 1, "LKJCholeskyCov": 1}
"""Composites whose draws are vectors, with the number of their components."""
COMPOSITES = frozenset({"Mixture", "Hurdle", "Exponentiated", *BOUNDED, *VECTORS})
"""Distributions that have components."""
MAX_COMPONENTS = 32
"""Most components of a mixture that are given as a list."""

_BOUNDS = (("lower",), ("upper",), ("lower", "upper"))


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution by name, without its parameters.

    Attributes:
        name: A name of the table, `"DiracDelta"`, or one of `COMPOSITES`.
        components: Laws of the parts, empty unless composite. A mixture with one component has that one for
            each entry along the last axis of its parameters. Those of a random walk are its start and its
            steps, of an autoregression its first values, of `Exponentiated` what its logarithm follows, of
            `Ordered` what is put in order, of `LKJCholeskyCov` the standard deviations.
        bounds: Which of `"lower"` and `"upper"` a truncated or censored law has.
    """

    name: str
    components: tuple[Law, ...] = ()
    bounds: tuple[str, ...] = ()

    def text(self) -> str:
        """For example `Mixture(DiracDelta, Truncated[lower](Poisson))`."""
        if not self.components:
            return self.name
        bounds = f"[{', '.join(self.bounds)}]" if self.bounds else ""
        return f"{self.name}{bounds}({', '.join(part.text() for part in self.components)})"

    def attributes(self) -> dict[str, Any]:
        """The attributes of a random node that follows it, without name and shape."""
        found: dict[str, Any] = {"distribution": self.name}
        if self.components:
            found["components"] = [
                part.attributes() if part.components else part.name for part in self.components
            ]
        if self.bounds:
            found["bounds"] = list(self.bounds)
        return found


def read_law(attributes: Mapping[str, Any], depth: int = 0) -> Law:
    """A law from (hostile) attributes.

    Args:
        attributes: `distribution`, and `components` and `bounds` where the distribution has them.
        depth: Composites around it.

    Raises:
        ValueError: If the attributes do not fit the distribution, or composites nest in a way that has no
            reading: components of a mixture may be truncated or exponentiated, one between bounds may be
            exponentiated.
    """
    name = attributes["distribution"]
    if not isinstance(name, str):
        raise ValueError("a distribution's name is not a string")
    composite = name in COMPOSITES
    wanted = {"components"} if composite else set()
    wanted |= {"bounds"} if name in BOUNDED else set()
    given = set(attributes) & {"components", "bounds"}
    if given != wanted:
        raise ValueError(f"a distribution {'needs' if wanted - given else 'takes no'} components or bounds")
    if not composite:
        return Law(name)
    bounds = attributes.get("bounds", [])
    if name in BOUNDED and (not isinstance(bounds, list | tuple) or tuple(bounds) not in _BOUNDS):
        raise ValueError(f"bounds of {name} are not one of {[list(names) for names in _BOUNDS]}")
    parts = attributes["components"]
    least, most = (1, MAX_COMPONENTS) if name == "Mixture" else (VECTORS.get(name, 1),) * 2
    if not isinstance(parts, list | tuple) or not least <= len(parts) <= most:
        raise ValueError(f"components of {name} are not a list of {least} to {most}")
    return Law(name, tuple(_component(name, part, depth) for part in parts), tuple(bounds))


def _component(parent: str, part: Any, depth: int) -> Law:
    if isinstance(part, str):
        if part in COMPOSITES:
            raise ValueError(f"{part} as a component needs its own components")
        if part == "DiracDelta" and parent != "Mixture":
            raise ValueError(f"{parent} of a DiracDelta")
        return Law(part)
    if not isinstance(part, Mapping) or not {"distribution"} <= set(part) <= {
        "distribution",
        "components",
        "bounds",
    }:
        raise ValueError("a component is neither a name nor an object with distribution and components")
    own = part["distribution"]
    known = own in ("Truncated", "Exponentiated") if parent == "Mixture" else own == "Exponentiated"
    if not known or parent not in ("Mixture", *BOUNDED) or depth > 0:
        raise ValueError(
            f"{parent} takes no composite component but, in a mixture, a truncated or exponentiated one, and"
            " between bounds an exponentiated one"
        )
    return read_law(part, depth + 1)
