"""The run's posterior: every distinct program that was scored, weighted by prior times evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.forms.form import Form, form_of
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.reports.arviz_comparison import compare
from synthstats_lightning.reports.elpd_scores import WholeScore, elpd_scores, model_of
from synthstats_lightning.reports.estimates import draws_of, estimate_masses, found_alone, searched_masses
from synthstats_lightning.reports.exported.program import export_program
from synthstats_lightning.reports.forecast import QUANTILES, RowPredictions, predict_rows, predicting_programs
from synthstats_lightning.reports.journal import PROGRAMS, journals, read_records
from synthstats_lightning.reports.leaderboard import form_summaries, inclusion_of, mixture_elpd, with_programs
from synthstats_lightning.reports.new_rows import encode_rows, response_levels
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_settings import RunSettings
from synthstats_lightning.reports.search_outcome import SearchOutcome, read_outcome
from synthstats_lightning.reports.summaries import FormSummary, Inclusion, PosteriorEstimate, ProgramSummary
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

COMPARED_SHARE = 0.01
"""Smallest share of a form that has an elpd whatever the shares of its programs."""
_FOUND = (
    "every distinct program of the run by prior times evidence, and what none has met by importance weights"
)
FRESH = f"{_FOUND} of the report's fresh programs (Good and Turing)"
FEW = 20.0
"""Effective draws below which unseen mass is given to no form."""
FOUND = (
    "every distinct program of the run by prior times evidence; what none has met is in no share, because it"
    f" is estimated from fewer than {FEW:g} effective draws"
)
ALL = f"{_FOUND} of all samples (Good and Turing), roughly: training samples at other temperatures"


@dataclass(frozen=True)
class RunPosterior:
    """The posterior over programs of one task that a run has found.

    Attributes:
        task_name: Name of the task.
        programs: Every distinct program with an evidence, largest share first.
        forms: Forms of these, largest share first.
        estimate: How the shares were computed, and how far they can be trusted.
        inclusion: Posterior probabilities of covariates and features.
        baseline: The task's baseline program with its evidence; `None` if no record says.
        task: The task itself; `None` if the run's configuration does not give it.
        folder: The run's folder; `None` if the records come from elsewhere.
    """

    task_name: str
    programs: tuple[ProgramSummary, ...]
    forms: tuple[FormSummary, ...]
    estimate: PosteriorEstimate
    inclusion: Inclusion
    baseline: ProgramSummary | None = None
    task: Task | None = None
    folder: Path | None = None

    @classmethod
    def from_records(
        cls,
        task_name: str,
        records: Sequence[ProgramRecord],
        *,
        task: Task | None = None,
        folder: Path | None = None,
        searched: SearchOutcome | None = None,
    ) -> RunPosterior:
        """The posterior of records.

        Of a search whose proposals have no known probability, what none has met is not estimated, and log Z
        is the search's own, if it has one.

        Args:
            task_name: Name of the task.
            records: One entry a distinct program of this task, failures too.
            task: The task itself, if it is known.
            folder: The run's folder, if the records come from one.
            searched: How the search went that they come from, if they come from one.

        Raises:
            ValueError: If no record has an evidence.
        """
        scored = [record for record in records if record.score.evidence is not None]
        if not scored:
            raise ValueError(f"no program of task {task_name!r} has an evidence, of {len(records)}")
        prior = np.array([record.reference_log_prob for record in scored])
        evidence = np.array([record.score.evidence for record in scored], dtype=np.float64)
        fresh = any(record.fresh for record in records)
        masses = estimate_masses(prior + evidence, draws_of(records, scored, fresh=fresh))
        # training samples, drawn at other temperatures as the policy left the prior, say little of the prior
        mixed = fresh and all(record.mixture_log_prob is not None for record in records if record.fresh)
        prior_masses = estimate_masses(prior, draws_of(records, scored, fresh=mixed))
        method, log_total = FRESH if fresh else ALL, masses.log_total
        few_of_prior = prior_masses.effective_sample_size < FEW
        if searched is not None:
            method = searched.shares_from
        if searched is not None and not searched.independent:
            masses, prior_masses = found_alone(masses), found_alone(prior_masses)
            masses = searched_masses(masses, searched.tasks.get(task_name))
            log_total = float(np.logaddexp.reduce(masses.log_found))
        elif masses.effective_sample_size < FEW:
            masses, prior_masses, method = found_alone(masses), found_alone(prior_masses), FOUND
            log_total = float(np.logaddexp.reduce(masses.log_found))
        elif few_of_prior:
            prior_masses = found_alone(prior_masses)
        reader = _FormReader()
        forms = [reader.form(record) for record in scored]
        shares = np.exp(masses.log_found - log_total)
        programs = [
            _summary(record, reader.graph(record), form.key, float(share))
            for record, form, share in zip(scored, forms, shares, strict=True)
        ]
        by_key = {form.key: form for form in forms}
        given = programs, by_key, masses.log_mass, prior_masses.log_mass
        summaries = form_summaries(*given, found_alone=not mixed or few_of_prior)
        estimate = PosteriorEstimate(
            method=method,
            effective_sample_size=masses.effective_sample_size,
            unseen_mass=masses.unseen,
            log_z=masses.log_total,
            log_z_se=masses.log_total_se,
            num_draws=draws_of(records, scored, fresh=fresh).number,
        )
        programs.sort(key=lambda program: -program.log_weight)
        return cls(
            task_name,
            tuple(programs),
            summaries,
            estimate,
            inclusion_of(summaries),
            task=task,
            folder=folder,
        )

    def with_elpd(
        self,
        score: WholeScore | None = None,
        *,
        deadline: float | None = None,
        share: float = 0.99,
        most: int = 60,
    ) -> RunPosterior:
        """The same posterior with the elpd of the programs that have most of its mass.

        A run whose reward is the evidence computes no elpd as it trains. Here the same engine does, once for
        all texts of one model, from the largest share down, and for the first of each form of 1 % or more.

        Args:
            score: Starts computing every score of a program, as `ProgramScorer.whole_score` does; by default
                that of workers of its own.
            deadline: When the scores must be there, on the clock of `time.monotonic`; forms whose are not are
                without elpd.
            share: How much of the found mass is to have elpd.
            most: Most models whose elpd is computed.

        Raises:
            ValueError: If the task is not known.
        """
        task = self._known_task()
        if score is None:
            with self._scorer() as scorer:
                return self.with_elpd(scorer.whole_score, deadline=deadline, share=share, most=most)
        leading = [form.programs[0] for form in self.forms if form.share >= COMPARED_SHARE]
        found = elpd_scores(self.programs, task, score, deadline, share, most, leading)
        programs = [_with_scores(program, found.get(model_of(program))) for program in self.programs]
        return replace(self, programs=tuple(programs), forms=with_programs(self.forms, programs))

    def predict(
        self,
        new: Any,
        weights: str = "evidence",
        quantiles: Sequence[float] = QUANTILES,
        draws: int = 1000,
    ) -> RowPredictions:
        """What the programs of the run predict of new rows, weighted.

        Args:
            new: Rows without their responses: a path, a table of pandas, Polars or Arrow, or a mapping from
                names to values.
            weights: `"evidence"`, by the posterior, or `"stacking"`, by the forms' stacking weights.
            quantiles: Levels from 0 to 1.
            draws: Draws of each program and row.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the rows lack a column, a cell is missing or was not among what the task has
                learned, an argument is out of range, or no program predicts.
        """
        task = self._known_task()
        compared = self._compared() if weights == "stacking" else self
        programs = predicting_programs(compared.forms, weights)
        rows = encode_rows(task, new)
        with self._scorer() as scorer:
            return predict_rows(
                task,
                programs,
                rows,
                scorer.forecast_rows,
                quantiles=quantiles,
                draws=draws,
                levels=response_levels(task),
            )

    def compare(self) -> Any:
        """The forms as `arviz.compare` tables models, by their leave-one-out scores.

        Where the run has computed none, those of the programs that have most of the mass are computed now.

        Raises:
            ValueError: If no form has such scores.
        """
        forms = self._compared().forms
        rows = {f"{n}. {form.text}": mixture_elpd(form.programs) for n, form in enumerate(forms, start=1)}
        return compare({name: pointwise for name, pointwise in rows.items() if len(pointwise)})

    def inference_data(self, form: int | str = 1, chains: int = 4, draws: int = 1000, seed: int = 0) -> Any:
        """Posterior draws of a form's best program as ArviZ data.

        Args:
            form: Number of the form from 1, the largest share first, or its key.
            chains: Chains to arrange the draws in.
            draws: Draws of each chain.
            seed: Seed of all random numbers.

        Returns:
            `arviz.InferenceData` with ArviZ 0.x, `xarray.DataTree` with ArviZ 1.x.

        Raises:
            ValueError: If there is no such form.
        """
        found, task = self.form(form), self._known_task()
        with self._scorer() as scorer:
            return scorer.inference_data(found.best.source, task, chains, draws, seed)

    def export(self, form: int | str = 1) -> str:
        """The best program of a form as a Python script of PyMC that needs nothing of this package.

        Args:
            form: Number of the form from 1, the largest share first, or its key.

        Returns:
            The script: the data, the model, sampling, and the figures that it should give.

        Raises:
            ValueError: If there is no such form, or its model has no spelling in PyMC.
        """
        found, task = self.form(form), self._known_task()
        number = self.forms.index(found) + 1
        title = f"Form {number} of {len(self.forms)} of the run's posterior on {self.task_name}."
        notes = (f"Posterior share of the form: {100 * found.share:.1f} %.", f"Form: {found.text}")
        with self._scorer() as scorer:
            return export_program(task, found.best.source, scorer, title, notes)

    def form(self, form: int | str) -> FormSummary:
        """A form of the run.

        Args:
            form: Number of the form from 1, the largest share first, or its key.

        Raises:
            ValueError: If there is none of that number or key.
        """
        if isinstance(form, int) and 1 <= form <= len(self.forms):
            return self.forms[form - 1]
        found = next((each for each in self.forms if each.key == form), None)
        if found is None:
            raise ValueError(f"form must be from 1 to {len(self.forms)}, or a form's key, got {form!r}")
        return found

    def _compared(self) -> RunPosterior:
        """With elpd, computed now if no form has any and the data are known."""
        known = self.task is None or any(form.elpd is not None for form in self.forms)
        return self if known else self.with_elpd()

    def _known_task(self) -> Task:
        if self.task is None:
            where = "" if self.folder is None else f" in {self.folder}"
            unread = "" if self.folder is None else RunSettings(self.folder).unread
            why = f": {unread}" if unread else ""
            raise ValueError(
                f"the configuration{where} does not give the data of task {self.task_name!r}{why}"
            )
        return self.task

    def _scorer(self) -> ProgramScorer:
        return ProgramScorer() if self.folder is None else RunSettings(self.folder).scorer()


class _FormReader:
    """Graphs and forms of records, each read once for all texts of one canonical form."""

    def __init__(self) -> None:
        self._graphs: dict[str, ModelGraph] = {}
        self._forms: dict[str, Form] = {}

    def graph(self, record: ProgramRecord) -> ModelGraph | None:
        """The canonical graph that a record holds."""
        text = record.score.graph
        if text is not None and text not in self._graphs:
            self._graphs[text] = ModelGraph.from_record(text)
        return None if text is None else self._graphs[text]

    def form(self, record: ProgramRecord) -> Form:
        """The form of a record's model; without a graph its structure stands for it."""
        graph = self.graph(record)
        key = record.score.structure or record.source
        text = record.score.graph or key
        if text not in self._forms:
            first = (record.score.summary or record.source).partition("; ")[0]
            shown = first.partition(" ~ ")[2] or first
            self._forms[text] = (
                Form(key, shown, frozenset(), frozenset()) if graph is None else form_of(graph)
            )
        return self._forms[text]


def load_posterior(run: str | Path) -> RunPosterior | dict[str, RunPosterior]:
    """The posterior over programs that a run has found, from its folder alone.

    It takes every scored program of the run into account, whether the run has ended or was killed.

    Args:
        run: Folder of the run, with its `programs.jsonl`, or a checkpoint within it.

    Returns:
        The posterior of the run's task; of a run with several tasks, posteriors by the task's name.

    Raises:
        FileNotFoundError: If there are no programs.
        ValueError: If they cannot be read, or none of them has an evidence.
    """
    found = load_posteriors(run)
    return next(iter(found.values())) if len(found) == 1 else found


def load_posteriors(run: str | Path) -> dict[str, RunPosterior]:
    """The posterior of every task of a run by the task's name; see `load_posterior`.

    Args:
        run: Folder of the run, or a checkpoint within it.

    Raises:
        FileNotFoundError: If there are no programs.
        ValueError: If they cannot be read, or none of them has an evidence.
    """
    folder = run_folder_of(run)
    by_task: dict[str, list[ProgramRecord]] = {}
    for record in read_records(folder):
        by_task.setdefault(record.task, []).append(record)
    tasks = {task.name: task for task in RunSettings(folder).tasks}
    searched = read_outcome(folder)
    posteriors = {
        name: RunPosterior.from_records(name, records, task=tasks.get(name), folder=folder, searched=searched)
        for name, records in by_task.items()
        if any(record.score.evidence is not None for record in records)
    }
    if not posteriors:
        raise ValueError(f"run must hold a program with an evidence, and {folder} holds none")
    return posteriors


def run_folder_of(run: str | Path) -> Path:
    """The folder of a run that a path is, or lies in.

    Args:
        run: Folder of the run, or anything within it, such as a checkpoint.

    Raises:
        FileNotFoundError: If neither it nor a folder around it holds programs.
    """
    path = Path(run)
    for folder in (path, *path.absolute().parents):
        if folder.is_dir() and journals(folder):
            return folder
    raise FileNotFoundError(f"run must be the folder of a run or a checkpoint in it: no {PROGRAMS} in {run}")


def _summary(record: ProgramRecord, graph: ModelGraph | None, form: str, share: float) -> ProgramSummary:
    score = record.score
    evidence = 0.0 if score.evidence is None else score.evidence
    elpd = score.diagnostics.get("elpd")
    return ProgramSummary(
        source=record.source,
        graph=graph,
        evidence=evidence,
        evidence_se=score.evidence_se,
        elpd=score.elpd,
        elpd_se=score.elpd_se,
        pointwise_elpd=() if elpd is None else elpd.pointwise,
        reference_log_prob=record.reference_log_prob,
        log_weight=record.reference_log_prob + evidence,
        share=share,
        form=form,
        num_parameters=score.num_parameters,
        summary=score.summary or "",
        canonical=score.canonical,
        structure=score.structure,
        step=record.step,
        count=record.count,
    )


def _with_scores(program: ProgramSummary, score: Score | None) -> ProgramSummary:
    """A program with the elpd of a score, if it has one."""
    if score is None:
        return program
    pointwise = score.diagnostics["elpd"].pointwise
    return replace(program, elpd=score.elpd, elpd_se=score.elpd_se, pointwise_elpd=pointwise)
