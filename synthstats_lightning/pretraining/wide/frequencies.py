"""How often the grammar writes each class, from drawn programs: the prior over forms in figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from random import Random

from synthstats_lightning.pretraining.wide.locations import FORMS
from synthstats_lightning.pretraining.wide.program import Program, draw_program
from synthstats_lightning.pretraining.wide.requests import draw_request
from synthstats_lightning.pretraining.wide.weights import WEIGHTS, Weights


@dataclass
class Frequencies:
    """Counts of drawn programs.

    Attributes:
        programs: How many were drawn.
        simple: How many were drawn as simple ones.
        forms: Form to how many have it.
        families: Family to how many have it.
        features: Feature to how many have it.
    """

    programs: int = 0
    simple: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)

    def add(self, program: Program) -> None:
        """Counts a program.

        Args:
            program: One that was drawn.
        """
        self.programs += 1
        self.simple += program.simple
        self.forms[program.form] += 1
        self.families[program.family] += 1
        self.features.update(program.features)


def frequencies(rng: Random, programs: int, weights: Weights = WEIGHTS) -> Frequencies:
    """Counts programs, each of a request of its own.

    Args:
        rng: Source of all randomness.
        programs: How many are drawn.
        weights: How often each choice is made.
    """
    found = Frequencies()
    for _ in range(programs):
        found.add(draw_program(rng, draw_request(rng, weights), weights))
    return found


def prior_page(programs: int = 4000, seed: int = 0, weights: Weights = WEIGHTS) -> str:
    """The page `Prior over forms` of the documentation, as Markdown.

    Args:
        programs: How many are drawn for its shares.
        seed: What the draws start from.
        weights: How often each choice is made.
    """
    found = frequencies(Random(seed), programs, weights)  # noqa: S311
    lines = [
        "# Prior over forms",
        "",
        "The wide grammar (`synthstats_lightning.pretraining.wide`) is a prior over programs given the",
        "request: names, kinds, ranges, roles and levels of columns, and the number of rows. What it",
        "writes how often is what a policy that learns from it believes before it has seen data. Its",
        "choices are the weights of `pretraining.wide.weights.Weights`: another table is another prior,",
        "for `draw_request` and `draw_program` alike. By weight a share of",
        f"{100 * weights.simple:g} % of programs is simple; a class that a request does not allow leaves",
        "its share to the others.",
        "",
        f"Shares of {programs:,} programs, each for a made-up request of its own, of which",
        f"{100 * found.simple / programs:.0f} % are simple:",
        "",
        "| form | location | weight among simple | weight among others | share |",
        "|---|---|---|---|---|",
    ]
    for name, form in sorted(FORMS.items(), key=lambda each: -found.forms[each[0]]):
        simple, other = weights.simple_forms.get(name, 0), weights.forms.get(name, 0)
        lines.append(
            f"| {name} | {form.meaning} | {simple:g} | {other:g} | {_share(found.forms[name], programs)} |"
        )
    lines += ["", "| family | weight | share |", "|---|---|---|"]
    own = _family_tables(weights)
    for name, count in found.families.most_common():
        lines.append(f"| {name} | {own.get(name, weights.other_families):g} | {_share(count, programs)} |")
    lines += ["", "| feature | share |", "|---|---|"]
    lines += [f"| {name} | {_share(count, programs)} |" for name, count in found.features.most_common()]
    lines += ["", "All weights:", "", "| table | weights |", "|---|---|"]
    for each in fields(weights):
        value = getattr(weights, each.name)
        if isinstance(value, float):
            text = f"{value:g}"
        elif isinstance(value, frozenset):
            text = ", ".join(sorted(value))
        else:
            text = ", ".join(f"{name} {weight:g}" for name, weight in value.items())
        lines.append(f"| `{each.name}` | {text} |")
    return "\n".join(lines) + "\n"


def _share(count: int, programs: int) -> str:
    return f"{100 * count / programs:.1f} %"


def _family_tables(weights: Weights) -> dict[str, float]:
    return {
        **weights.real,
        **weights.positive,
        **weights.semicontinuous,
        **weights.proportion,
        **weights.count,
        **weights.total,
        **weights.binary,
        **weights.ordinal,
    }
