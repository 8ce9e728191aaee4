"""What the proposal gains by looking: nats a program over the prior, on simulated pairs, always the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.policy.pointers.spelling import PointerSpelling
from synthstats_lightning.pretraining.writer.pupil import Pupil
from synthstats_lightning.pretraining.writer.rows import pair_row, writer_batch
from synthstats_lightning.pretraining.writer.sources import Pair


@dataclass(frozen=True)
class Gain:
    """Means over pairs, in nats.

    Attributes:
        gain: Of log q(program | request, digest) − log p0(program | request).
        error: Standard error of that mean.
        blind: Mean of −log p0 over programs.
        blind_token: The same a token.
        form: Cross-entropy of the program's form that the plan head gains by the digest.
        family: The same of its family.
        by_kind: Kind of the response to the gain.
    """

    gain: float
    error: float
    blind: float
    blind_token: float
    form: float
    family: float
    by_kind: Mapping[str, float]

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {value:+.2f}" for kind, value in self.by_kind.items())
        return (
            f"gain {self.gain:+.3f} ± {self.error:.3f} nats a program ({kinds}); plan: form {self.form:+.3f},"
            f" family {self.family:+.3f}; blind {self.blind:.2f} nats a program,"
            f" {self.blind_token:.4f} a token"
        )


@torch.no_grad()
def measure_gain(
    pupil: Pupil, spelling: PointerSpelling, pairs: Sequence[Pair], precision: str, rows: int = 16
) -> Gain:
    """Measures a network on pairs.

    Args:
        pupil: The network with its plan head.
        spelling: How requests and programs are worded.
        pairs: What it is measured on, always the same ones.
        precision: As in training.
        rows: Pairs a pass.
    """
    ordered = [pair_row(spelling, *pair) for pair in pairs]
    found: list[Float[Tensor, "pairs two"]] = []
    forms: list[Tensor] = []
    families: list[Tensor] = []
    tokens = 0
    for start in range(0, len(ordered), rows):
        batch = writer_batch(ordered[start : start + rows], spelling, pupil.classes)
        log_probs, plan = pupil(batch, precision)
        sums = torch.zeros(len(batch.starts)).index_add(0, batch.segment, log_probs)
        tokens += int((~batch.informed)[batch.segment].sum())
        found.append(sums.view(-1, 2))
        forms.append(plan.form.view(-1, 2))
        families.append(plan.family.view(-1, 2))
    both = torch.cat(found)
    gains = both[:, 1] - both[:, 0]
    kinds = [row.kind for row in ordered]
    by_kind = {
        kind: float(gains[[place for place, each in enumerate(kinds) if each == kind]].mean())
        for kind in sorted(set(kinds))
    }
    form, family = (-torch.cat(each).diff(dim=1).mean() for each in (forms, families))
    return Gain(
        float(gains.mean()),
        float(gains.std() / len(gains) ** 0.5),
        -float(both[:, 0].mean()),
        -float(both[:, 0].sum()) / tokens,
        float(form),
        float(family),
        by_kind,
    )
