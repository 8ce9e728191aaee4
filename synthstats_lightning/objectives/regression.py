"""How a residual is punished: square, Huber, shifted cosh or Linex, all with gradients that never vanish."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

EXPONENT_LIMIT = 10.0
"""Where exponentials continue as straight lines: e¹⁰ times the usual pull, and float32 never overflows."""


@dataclass(frozen=True)
class Regression:
    """A loss of one number whose only minimum is at zero, with δ² as its expansion there.

    Its shape decides what training prefers on the way (Hu et al. 2024, arXiv:2410.02596), not where it ends:
    the square corresponds to a reverse Kullback–Leibler divergence, Linex with a positive scale to a forward
    one, which covers modes, and the shifted cosh to both.

    Attributes:
        kind: `"square"` δ²; `"huber"` linear beyond |δ| = scale; `"shifted_cosh"` 2 s² (cosh(δ/s) − 1);
            `"linex"` 2 s² (exp(δ/s) − δ/s − 1). The last two go on as straight lines beyond |δ| = 10 s.
        scale: s, in nats. For Linex it may be negative, which mirrors it. The square ignores it.

    Raises:
        ValueError: If `kind` is unknown, or `scale` is not finite or not of an allowed sign.
    """

    kind: Literal["square", "huber", "shifted_cosh", "linex"] = "square"
    scale: float = 1.0

    def __post_init__(self) -> None:
        kinds = ("square", "huber", "shifted_cosh", "linex")
        if self.kind not in kinds:
            raise ValueError(f"kind must be one of {', '.join(kinds)}, got {self.kind!r}")
        if not math.isfinite(self.scale) or self.scale == 0 or (self.scale < 0 and self.kind != "linex"):
            allowed = "finite and not 0" if self.kind == "linex" else "finite and positive"
            raise ValueError(f"scale of {self.kind} must be {allowed}, got {self.scale}")

    def __call__(self, residual: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The loss of each residual (in nats), elementwise, in nats²."""
        if self.kind == "square":
            return residual.square()
        if self.kind == "huber":
            near = residual.clamp(-self.scale, self.scale)
            return near * (2 * residual - near)
        ratio = residual / self.scale
        if self.kind == "linex":
            return 2 * self.scale**2 * (_expm1(ratio) - ratio)
        return self.scale**2 * (_expm1(ratio) + _expm1(-ratio))


def _expm1(x: Tensor) -> Tensor:
    """exp(x) − 1, continued by its tangent beyond `EXPONENT_LIMIT`."""
    near = x.clamp(max=EXPONENT_LIMIT)
    return torch.expm1(near) + torch.exp(near) * (x - near)


SQUARE = Regression()
