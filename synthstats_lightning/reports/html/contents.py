"""What the page says, as plain values: texts, tables and figures, whoever gathered them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ColumnRow:
    """A column of the data set.

    Attributes:
        name: What programs call it.
        kind: Such as `continuous`.
        low: Smallest value, as text.
        high: Largest value, as text.
        unit: Unit, or empty.
        role: `response`, or empty.
        inclusion: Posterior probability that a program reads it; `None` for the response, or unknown.
    """

    name: str
    kind: str
    low: str
    high: str
    unit: str
    role: str
    inclusion: float | None


@dataclass(frozen=True)
class ProgramRow:
    """A program below its row of the leaderboard.

    Attributes:
        source: The program's text.
        summary: The model in one line.
        share: Posterior share of this one program; `None` outside of the posterior.
        evidence: Log marginal likelihood, in nats.
        evidence_se: Its standard error, in nats.
        elpd: Leave-one-out elpd, in nats.
        elpd_se: Its standard error, in nats.
    """

    source: str
    summary: str
    share: float | None
    evidence: float | None
    evidence_se: float | None
    elpd: float | None
    elpd_se: float | None


@dataclass(frozen=True)
class ModelRow:
    """A row of the leaderboard: a form, or a program that forms are compared with.

    Attributes:
        name: `form 1`, `baseline`, `default regression` or the user's file.
        kind: `"form"`, or `"compared"` for programs from outside.
        text: The form, or why the program has no score.
        share: Posterior share; `None` outside of the posterior.
        prior_share: Share of the prior.
        log_bayes_factor: Against the first form, in nats.
        evidence: That of the best program, in nats.
        evidence_mixture: That of the form, in nats.
        elpd: Leave-one-out, in nats.
        elpd_difference: To the best elpd among forms, in nats.
        elpd_difference_se: Its standard error, in nats.
        stacking_weight: Weight among forms.
        num_programs: How many distinct programs there are.
        num_parameters: Unconstrained dimensions of the model.
        programs: The best programs, for the expanded row.
    """

    name: str
    kind: str
    text: str
    share: float | None = None
    prior_share: float | None = None
    log_bayes_factor: float | None = None
    evidence: float | None = None
    evidence_mixture: float | None = None
    elpd: float | None = None
    elpd_difference: float | None = None
    elpd_difference_se: float | None = None
    stacking_weight: float | None = None
    num_programs: int | None = None
    num_parameters: int | None = None
    programs: tuple[ProgramRow, ...] = ()


@dataclass(frozen=True)
class FigureBlock:
    """A figure with its words.

    Attributes:
        title: What stands above it.
        caption: What is to be seen.
        figure: Plotly's `data` and `layout`.
        folded: Whether it is drawn only when asked for.
    """

    title: str
    caption: str
    figure: Mapping[str, Any]
    folded: bool = False


@dataclass(frozen=True)
class FailureRow:
    """Programs that failed in one way.

    Attributes:
        category: One of `programs.failure`.
        count: How many samples failed so.
        share: Their share of all samples.
        message: What was said of the example.
        source: The text of the example.
    """

    category: str
    count: int
    share: float
    message: str
    source: str


@dataclass(frozen=True)
class Fact:
    """A figure of the headline.

    Attributes:
        name: What it is.
        value: The figure, with its unit.
        note: How far to trust it.
    """

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class TaskPage:
    """All that the page says of one task.

    Attributes:
        name: Name of the task.
        description: What the data are, in a sentence.
        response: Name of the response column; empty where the data are not there.
        num_rows: Rows of the data; `None` where they are not there.
        columns: The columns, response first.
        facts: The figures of the headline.
        method: How shares were computed, in a sentence.
        warnings: Of the run, with what to do.
        left_out: What the report lacks and why.
        models: The leaderboard, in order.
        features: Posterior probability of features of the form, by name.
        predictions: Bands and checks of the predictions.
        learning: Learning curves of the run.
        search: The map of what was tried.
        failures: By category, the commonest first.
        prompt: What the policy was asked.
        caveats: How the data were understood where they leave it open, and what was left out of them.
    """

    name: str
    description: str
    response: str
    num_rows: int | None
    columns: tuple[ColumnRow, ...]
    facts: tuple[Fact, ...]
    method: str
    warnings: tuple[str, ...]
    left_out: tuple[str, ...]
    models: tuple[ModelRow, ...]
    features: Mapping[str, float]
    predictions: tuple[FigureBlock, ...] = ()
    learning: tuple[FigureBlock, ...] = ()
    search: tuple[FigureBlock, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    prompt: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """The whole page.

    Attributes:
        title: What the page is called.
        created: When it was made, in words.
        version: Version of this package.
        tasks: The tasks in their order.
        settings: Settings of the run, by name.
        commands: What makes the run and its report again, a line each.
        configuration: The run's `config.yaml`; empty where there is none.
        versions: Those of the libraries, by name.
    """

    title: str
    created: str
    version: str
    tasks: tuple[TaskPage, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    configuration: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
