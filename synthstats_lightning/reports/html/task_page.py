"""From what a run found of a task to what the page says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from synthstats_lightning.reports.comparisons import BASELINE, Comparison
from synthstats_lightning.reports.html.contents import (
    ColumnRow,
    Fact,
    FailureRow,
    FigureBlock,
    ModelRow,
    ProgramRow,
    TaskPage,
)
from synthstats_lightning.reports.html.figures import (
    bands_figure,
    calibration_figure,
    learning_figure,
    map_figure,
    rootogram_figure,
)
from synthstats_lightning.reports.html.page import number, percent
from synthstats_lightning.reports.pictures.bands import Bands, level_name
from synthstats_lightning.reports.pictures.learning_curves import LearningCurves
from synthstats_lightning.reports.pictures.task_pictures import DrawnModel, TaskPictures
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.reports.shares import by_origin
from synthstats_lightning.reports.summaries import FormSummary, PosteriorEstimate, ProgramSummary
from synthstats_lightning.tasks import Prompt, Task, task_prompt
from synthstats_lightning.tasks.table_task import TableTask

MAX_FORMS = 40
"""Forms of the leaderboard; what is beyond has hardly any share."""
MAX_PROGRAMS = 5
"""Programs of an expanded row."""


class TaskFindings(NamedTuple):
    """What the page of a task is made from.

    Attributes:
        name: Name of the task.
        records: Every distinct program, failures too.
        posterior: The run's posterior; `None` where no program has an evidence.
        task: The data; `None` where they are not there.
        comparisons: Programs from outside.
        pictures: What is drawn.
        curves: How the run learned.
        log_z: Learned log Z, in nats, if there is one.
        warnings: Those of the run, a line each.
        left_out: What the report lacks, a line each.
    """

    name: str
    records: Sequence[ProgramRecord]
    posterior: RunPosterior | None
    task: Task | None
    comparisons: Sequence[Comparison]
    pictures: TaskPictures
    curves: LearningCurves
    log_z: float | None
    warnings: Sequence[str]
    left_out: Sequence[str]


def task_page(found: TaskFindings) -> TaskPage:
    """All that the page says of one task.

    Args:
        found: What it is made from.
    """
    task, posterior = found.task, found.posterior
    inclusion = {} if posterior is None else posterior.inclusion.covariates
    prompt = "" if task is None else _both_prompts(task_prompt(task))
    return TaskPage(
        name=found.name,
        description="" if task is None else task.description,
        response="" if task is None else task.response,
        num_rows=None if task is None else task.num_rows,
        columns=() if task is None else _columns(task, inclusion),
        facts=_facts(found),
        method="" if posterior is None else f"Shares: {posterior.estimate.method}.",
        warnings=tuple(found.warnings),
        left_out=tuple(found.left_out),
        models=_models(found),
        features={} if posterior is None else posterior.inclusion.features,
        predictions=tuple(_predictions(found.pictures)),
        learning=_learning(found.curves),
        search=_search(found.pictures),
        failures=_failures(found.records),
        prompt=prompt,
        caveats=_caveats(task),
    )


def _caveats(task: Task | None) -> tuple[str, ...]:
    """What a reader should know of how a table was understood."""
    if not isinstance(task, TableTask):
        return ()
    understood = task.understood
    left_out = [
        f"{each.original} is left out: {'; '.join(each.notes)}"
        for each in understood.columns
        if not each.used
    ]
    return (*understood.warnings, *understood.notes, *left_out)


def _both_prompts(prompt: Prompt) -> str:
    shown = [prompt.rules, prompt.request]
    if prompt.data:
        shown += ["(The prior's prompt ends here; what follows is shown to the proposal alone.)", prompt.data]
    return "\n\n".join(shown)


def _columns(task: Task, inclusion: Mapping[str, float]) -> tuple[ColumnRow, ...]:
    columns = sorted(task.columns.values(), key=lambda column: column.name != task.response)
    rows = []
    for column in columns:
        role = "response" if column.name == task.response else column.role
        if column.name == task.total:
            role = f"total of {task.response}"
        share = None if role == "response" else inclusion.get(column.name, 0.0 if inclusion else None)
        ends = level_name(task, column.name, column.low), level_name(task, column.name, column.high)
        if column.name in task.censoring.values():
            role, share, ends = f"limit of {task.response}", None, ("", "")
        kind = f"{len(column.levels)} levels" if column.levels else column.kind
        rows.append(ColumnRow(column.name, kind, *ends, column.unit, role, share))
    return tuple(rows)


def _facts(found: TaskFindings) -> tuple[Fact, ...]:
    posterior = found.posterior
    samples = sum(record.count for record in found.records)
    scored = sum(record.count for record in found.records if record.score.scored)
    facts = []
    if posterior is not None:
        best, estimate = posterior.forms[0], posterior.estimate
        facts.append(Fact("Most probable form", percent(best.share), form_text(best, found.task)))
        facts.append(
            Fact(
                "Forms and programs",
                f"{len(posterior.forms)} / {len(posterior.programs)}",
                "what was not seen is not estimated"
                if math.isnan(estimate.unseen_mass)
                else f"not seen yet: {percent(estimate.unseen_mass)} of the posterior, estimated",
            )
        )
        facts.append(_log_z_fact(found, estimate))
        facts.append(
            Fact(
                "Effective sample size",
                number(estimate.effective_sample_size, 0),
                f"of {estimate.num_draws} draws behind the estimate of what is unseen",
            )
        )
    if samples:
        facts.append(Fact("Programs that score", percent(scored / samples), f"of {samples} samples"))
    for name, figures in by_origin(found.records).items():
        best = figures["best_evidence"]
        shown = f"{figures['programs']} programs, {figures['scored']} of them scored"
        note = shown if best is None else f"{shown}, best evidence {number(best)} nats"
        facts.append(Fact(f"Share from {name}", percent(figures["posterior_share"]), note))
    return tuple(facts)


def _log_z_fact(found: TaskFindings, estimate: PosteriorEstimate) -> Fact:
    """Log Z as it was learned, above the baseline's evidence, beside an estimate on the same scale."""
    baseline = next((each.score.evidence for each in found.comparisons if each.name == BASELINE), None)
    error = f" ± {number(estimate.log_z_se)}" if estimate.log_z_se > 0 else ""
    if found.log_z is None:
        return Fact("log Z", f"{number(estimate.log_z)}{error}", "nats, estimated")
    value, scale = estimate.log_z, " nats of evidence"
    if baseline is not None:
        value, scale = estimate.log_z - baseline, " nats, both above the intercept's evidence"
    return Fact("Learned log Z", f"{number(found.log_z)} nats", f"its estimate {number(value)}{error}{scale}")


def _models(found: TaskFindings) -> tuple[ModelRow, ...]:
    forms = () if found.posterior is None else found.posterior.forms[:MAX_FORMS]
    best = max((form.elpd for form in forms if form.elpd is not None), default=None)
    rows = [_form_row(index, form, found.task) for index, form in enumerate(forms, start=1)]
    reference = forms[0].evidence_mixture if forms else None
    return (*rows, *(_compared_row(each, reference, best) for each in found.comparisons))


def form_text(form: FormSummary, task: Task | None) -> str:
    """A form with the response that it is of, where that is known.

    Args:
        form: One of a posterior.
        task: The data that it is a model of.
    """
    return form.text if task is None else f"{task.response} ~ {form.text}"


def _form_row(index: int, form: FormSummary, task: Task | None) -> ModelRow:
    return ModelRow(
        name=f"form {index}",
        kind="form",
        text=form_text(form, task),
        share=form.share,
        prior_share=form.prior_share,
        log_bayes_factor=form.log_bayes_factor,
        evidence=form.evidence_best,
        evidence_mixture=form.evidence_mixture,
        elpd=form.elpd,
        elpd_difference=form.elpd_difference,
        elpd_difference_se=form.elpd_difference_se,
        stacking_weight=form.stacking_weight,
        num_programs=len(form.programs),
        num_parameters=form.num_parameters,
        programs=tuple(_program_row(program) for program in form.programs[:MAX_PROGRAMS]),
    )


def _program_row(program: ProgramSummary) -> ProgramRow:
    return ProgramRow(
        program.source,
        program.summary,
        program.share,
        program.evidence,
        program.evidence_se,
        program.elpd,
        program.elpd_se,
    )


def _compared_row(found: Comparison, reference: float | None, best_elpd: float | None) -> ModelRow:
    """A program from outside: one model with its own priors, and no share."""
    score = found.score
    program = ProgramRow(
        found.source, score.summary or "", None, score.evidence, score.evidence_se, score.elpd, score.elpd_se
    )
    text = (score.summary or "").partition("; ")[0] if score.scored else f"{score.failure}: {score.message}"
    known = score.evidence is not None and reference is not None
    return ModelRow(
        name=found.name,
        kind="compared",
        text=text,
        log_bayes_factor=(score.evidence or 0.0) - (reference or 0.0) if known else None,
        evidence=score.evidence,
        elpd=score.elpd,
        elpd_difference=None if score.elpd is None or best_elpd is None else score.elpd - best_elpd,
        num_parameters=score.num_parameters,
        programs=(program,),
    )


def _predictions(pictures: TaskPictures) -> list[FigureBlock]:
    blocks = []
    for model in pictures.models:
        whole = model.name == "weighted set"
        share = "" if whole else f", {percent(model.share)}"
        title = f"{model.name.capitalize()}{share}: {model.text}"
        blocks.append(
            FigureBlock(title, bands_caption(model.bands), bands_figure(model.bands), folded=not whole)
        )
        if model.rootogram is not None and whole:
            caption = (
                "Bars hang from the predicted frequencies, on a scale of square roots: a bar that does not"
                " reach the ground stands for counts that are rarer than predicted, one that goes below it"
                " for counts that are commoner."
            )
            blocks.append(FigureBlock("Rootogram", caption, rootogram_figure(model.rootogram)))
    if pictures.models:
        blocks.append(_calibration(pictures.models[0]))
    return blocks


def bands_caption(bands: Bands) -> str:
    """What a picture of bands shows, in words.

    Args:
        bands: Bands of a program or a set.
    """
    caption = "Median and 90 % predictive band with the data."
    if bands.response.startswith("probability of "):
        caption = "Mean and 90 % band of the probability, with the data at 0 and 1, moved a little apart."
    if bands.group:
        caption += f" Colours: {bands.group}."
    if bands.held:
        caption += f" Where a column is not the axis it is held at {bands.held}."
    return caption


def _calibration(model: DrawnModel) -> FigureBlock:
    low, high = model.calibration.expected
    counts = model.calibration.counts
    outside = int(((counts < low) | (counts > high)).sum())
    caption = (
        f"Leave-one-out predictions of the {model.name}. Left: where each response lies within its"
        f" prediction; flat if predictions are calibrated, and {outside} of {len(counts)} bars lie outside of"
        " the band."
        " Right: the same as normal residuals, which should show no pattern."
    )
    return FigureBlock("Calibration and residuals", caption, calibration_figure(model.calibration))


def _learning(curves: LearningCurves) -> tuple[FigureBlock, ...]:
    if not curves:
        return ()
    caption = (
        "Learned log Z should come to its importance estimate, and the residual, the difference of the two"
        " sides of the balance, to near 0."
    )
    return (FigureBlock("Learning curves", caption, learning_figure(curves)),)


def _search(pictures: TaskPictures) -> tuple[FigureBlock, ...]:
    found = pictures.search
    if found is None:
        return ()
    caption = (
        f"The {len(found.shares)} structures of largest share. Near each other: few edits of the model's tree"
        f" apart; the plane keeps {found.places.kept:.0%} of the squared distances. Area: posterior share."
    )
    figure = map_figure(found.places, found.shares, found.labels, found.steps)
    return (FigureBlock("What the search tried", caption, figure),)


def _failures(records: Sequence[ProgramRecord]) -> tuple[FailureRow, ...]:
    samples = sum(record.count for record in records)
    counts: dict[str, int] = {}
    examples: dict[str, ProgramRecord] = {}
    for record in records:
        if record.score.failure is None:
            continue
        category = str(record.score.failure)
        counts[category] = counts.get(category, 0) + record.count
        if category not in examples or record.count > examples[category].count:
            examples[category] = record
    return tuple(
        FailureRow(
            name,
            count,
            count / samples if samples else 0.0,
            examples[name].score.message,
            examples[name].source,
        )
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
    )
