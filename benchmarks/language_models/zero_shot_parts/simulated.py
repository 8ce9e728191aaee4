"""What a writer does on requests and data of its own grammar: gain, calibration, frequencies, names."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from synthstats_lightning.policy import Policy, SampledPrograms, SamplingSettings
from synthstats_lightning.pretraining.writer.examples import Example
from synthstats_lightning.pretraining.writer.gain import measure_gain
from synthstats_lightning.pretraining.writer.plan import OTHER, PlanClasses
from synthstats_lightning.pretraining.writer.pupil import Pupil
from synthstats_lightning.pretraining.writer.settings import Stage, WriterTraining
from synthstats_lightning.pretraining.writer.sources import drawn_example, fixed_pairs
from synthstats_lightning.programs.forms.outline import outline
from synthstats_lightning.tasks.facts import Facts

MADE_SEED = 271828
"""Of pairs that no training has seen, whose own seeds are small."""
STAGES = [Stage(grammar="wide", covariates={16: 1.0})]
NAMES = {"pm", "np", "pt", "math", "data", "model", *dir(builtins)}
"""Names that every program may use."""
PROGRAMS_A_PAIR = 16
AT_ONCE = 32
"""Requests of one pass."""
BANDS = 5
GRAMMARS = 8
"""Programs of the grammar's a request, beside which one of the policy's is put."""


class Feature(NamedTuple):
    """What a program's text tells of it.

    Attributes:
        name: What it is called.
        of: Whether a text has it, given the names of its covariates.
    """

    name: str
    of: Callable[[str, Sequence[str]], bool]


_POOLED = re.compile(r'", 0, [a-z]\w*, shape=')
CALIBRATED = (
    Feature("hierarchy", lambda source, columns: bool(_POOLED.search(source))),
    Feature(
        "nonlinear",
        lambda source, columns: any(
            part not in ("linear", "group") for part in outline(source, columns).parts.values()
        ),
    ),
    Feature(
        "overdispersion",
        lambda source, columns: outline(source, columns).family in ("NegativeBinomial", "BetaBinomial"),
    ),
    Feature(
        "heavy tails",
        lambda source, columns: outline(source, columns).family in ("StudentT", "Laplace", "Cauchy"),
    ),
    Feature("varying spread", lambda source, columns: bool(outline(source, columns).spread)),
)
"""Features whose probabilities are compared with how often they are so."""


def class_of(source: str, columns: Iterable[str]) -> str:
    """A coarse class of a program's text: family, spread, and the kinds of parts that covariates have.

    Args:
        source: The text.
        columns: Names of its covariates.
    """
    found = outline(source, list(columns))
    parts = " ".join(sorted(set(found.parts.values())))
    return f"{found.family}|{'varying' if found.spread else ''}|{parts}"


def unknown_names(source: str, facts: Facts) -> set[str]:
    """Names that a program uses and that nothing defines; none of a text that is no Python.

    Args:
        source: The text.
        facts: The request that it answers.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    known = own | NAMES | {column.name for column in (*facts.columns, facts.response)} | set(facts.views)
    return {node.id for node in names} - known


def gain(policy: Policy, pairs: int, precision: str = "fp32") -> dict[str, Any]:
    """What the proposal gains over the prior on simulated pairs of the wide grammar, always the same.

    Args:
        policy: A writer.
        pairs: How many.
        precision: Of matrix products.
    """
    nothing = PlanClasses((OTHER,), (OTHER,), (OTHER,))
    made = fixed_pairs(WriterTraining(STAGES, seed=MADE_SEED), pairs)
    found = measure_gain(Pupil(policy.language_model, nothing), policy.spelling, made, precision)
    return {
        "simulated_gain_nats": found.gain,
        "simulated_gain_se": found.error,
        "blind_nats_a_token": found.blind_token,
        "gain_by_kind": dict(found.by_kind),
    }


def frequencies(policy: Policy, requests: int, tokens: int) -> dict[str, Any]:
    """Blind programs of requests of the grammar beside the grammar's own.

    With hundreds of classes two samples of one distribution are far from equal: the distance of the samples
    is too large in expectation, by about what `form_prior_noise` says, and falls with the number of requests.

    Args:
        policy: A writer.
        requests: How many requests, a program each of the policy's.
        tokens: Most tokens of a program.

    Returns:
        `form_prior_total_variation` over classes of texts, between the policy's programs and `GRAMMARS` a
        request of the grammar; `family_prior_total_variation`, of families of the response alone; by
        `..._noise`, the same of one more program of the grammar's a request in place of the policy's;
        `wrong_columns` and `programs`.
    """
    rng = Random(f"requests:{MADE_SEED}")
    examples = [drawn_example(rng, STAGES[0], GRAMMARS + 1, 0) for _ in range(requests)]
    own: Counter[str] = Counter()
    again: Counter[str] = Counter()
    policys: Counter[str] = Counter()
    wrong = 0
    for example, sources in zip(examples, _sources(policy, examples, 1, tokens, digests=False), strict=True):
        columns = [column.name for column in example.facts.columns]
        first, *others = (class_of(program.source, columns) for program in example.programs)
        again[first] += 1
        own.update(others)
        policys[class_of(sources[0], columns)] += 1
        wrong += bool(unknown_names(sources[0], example.facts))
    return {
        "form_prior_total_variation": _total_variation(own, policys),
        "form_prior_noise": _total_variation(own, again),
        "family_prior_total_variation": _total_variation(_families(own), _families(policys)),
        "family_prior_noise": _total_variation(_families(own), _families(again)),
        "wrong_columns": wrong,
        "programs": requests,
    }


def calibration(policy: Policy, pairs: int, tokens: int) -> dict[str, Any]:
    """Features' shares among programs of simulated data sets, beside whether their own programs have them.

    Where the policy is the grammar's posterior given the digest, a data set's own program is one more draw
    like the policy's. Data sets are put into bands by the share of one half of their programs and expected by
    that of the other, so that noise which picks a band is not expected of its members.

    Args:
        policy: A writer.
        pairs: How many data sets.
        tokens: Most tokens of a program.

    Returns:
        `calibration_worst_z`: of the bands of all features, the largest size of (programs that have it minus
        expected) over its standard deviation; `calibration` by feature, a list of bands.
    """
    made = fixed_pairs(WriterTraining(STAGES, seed=MADE_SEED + 1), pairs)
    examples = [Example(pair.example.facts, (pair.program,)) for pair in made]
    drawn: dict[str, list[list[bool]]] = {feature.name: [] for feature in CALIBRATED}
    for example, sources in zip(
        examples, _sources(policy, examples, PROGRAMS_A_PAIR, tokens, digests=True), strict=True
    ):
        columns = [column.name for column in example.facts.columns]
        for feature in CALIBRATED:
            texts = [example.programs[0].source, *sources]
            drawn[feature.name].append([feature.of(text, columns) for text in texts])
    bands = {name: _bands(np.array(has)) for name, has in drawn.items()}
    sizes = [abs(band["z"]) for own in bands.values() for band in own]
    return {"calibration_worst_z": max(sizes, default=None), "calibration": bands}


def _sources(
    policy: Policy, examples: list[Example], number: int, tokens: int, digests: bool
) -> Iterator[list[str]]:
    """Programs that a policy writes for each example's request, with the digest of its program's data."""
    settings = SamplingSettings(max_new_tokens=tokens)
    for start in range(0, len(examples), AT_ONCE):
        part = examples[start : start + AT_ONCE]
        facts = [
            replace(each.facts, digest=each.programs[0].digest) if digests else each.facts for each in part
        ]
        prompts = [policy.spelling.prompt("", "", False, "digest" if digests else "", each) for each in facts]
        samples: SampledPrograms = policy.sample(
            prompts, number, settings, MADE_SEED, step=start, facts=facts
        )
        sources = samples.sources
        yield from (sources[place * number : (place + 1) * number] for place in range(len(part)))


def _total_variation(first: Counter[str], second: Counter[str]) -> float:
    totals = first.total(), second.total()
    return 0.5 * sum(abs(first[key] / totals[0] - second[key] / totals[1]) for key in {*first, *second})


def _families(classes: Counter[str]) -> Counter[str]:
    """Of classes of texts, which begin with the family of the response."""
    found: Counter[str] = Counter()
    for name, number in classes.items():
        found[name.split("|")[0]] += number
    return found


def _bands(has: Bool[np.ndarray, "sets programs"]) -> list[dict[str, float]]:
    """Data sets by the share of their programs; a data set's own program stands first."""
    own, policys = has[:, 0], has[:, 1:]
    half = policys.shape[1] // 2
    picking, expected = policys[:, :half].mean(1), policys[:, half:].mean(1)
    variance = has.var(1, ddof=1) * (1.0 + 1.0 / (policys.shape[1] - half))
    return bands(own, picking, expected, variance)


def bands(
    own: Bool[np.ndarray, " sets"],
    picking: Float[np.ndarray, " sets"],
    expected: Float[np.ndarray, " sets"],
    variance: Float[np.ndarray, " sets"],
) -> list[dict[str, float]]:
    """How often data sets' own programs have a feature, beside how often they were expected to.

    Args:
        own: Whether the program that made the data has it.
        picking: Shares that put data sets into bands, of other programs than those expected by.
        expected: Shares that it was expected with.
        variance: Of own less expected, by the expectation.

    Returns:
        By band `data_sets`, `expected` and `found`, numbers of programs, and `z`, their difference over its
        standard deviation.
    """
    found = []
    for rows in np.array_split(np.argsort(picking, kind="stable"), BANDS):
        # one more program of either kind, so that a band where nothing varies says little
        deviation = float(np.sqrt(variance[rows].sum() + 0.5))
        found.append(
            {
                "data_sets": float(len(rows)),
                "expected": float(expected[rows].sum()),
                "found": float(own[rows].sum()),
                "z": float((own[rows] - expected[rows]).sum()) / deviation,
            }
        )
    return found
