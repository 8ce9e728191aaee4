"""A page with everything on it, made by hand, for tests of the report's HTML."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.comparisons import Comparison
from synthstats_lightning.reports.html.contents import Page
from synthstats_lightning.reports.html.task_page import TaskFindings, task_page
from synthstats_lightning.reports.pictures.bands import draw_bands, panel_design
from synthstats_lightning.reports.pictures.calibration import calibration
from synthstats_lightning.reports.pictures.learning_curves import LearningCurves, Series
from synthstats_lightning.reports.pictures.predictive_draws import ResponseDraws
from synthstats_lightning.reports.pictures.program_map import place
from synthstats_lightning.reports.pictures.rootogram import rootogram
from synthstats_lightning.reports.pictures.task_pictures import DrawnMap, DrawnModel, TaskPictures
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

HOSTILE = (
    "</script></pre></textarea><script>document.title='taken'</script>"
    "<img src=x onerror=\"document.title='taken'\"> {{ 7*7 }} {% raw %} <!--<script> &amp; ${1} $x$ \u2028"
    "<a href=\"javascript:document.title='taken'\">x</a>"
)
"""What a program, a message and a form may hold."""
ROWS = 40


def count_task() -> Task:
    """Counts with a covariate and a group."""
    random = np.random.default_rng(0)
    group = np.arange(ROWS) % 3
    x = np.linspace(0.0, 4.0, ROWS)
    y = random.poisson(np.exp(0.3 * x + 0.5 * group))
    return Task(
        "visits", "Visits by age.", {"age": x, "clinic": group, "visits": y}, "visits", {"age": "years"}
    )


def records_of(task: Task) -> list[ProgramRecord]:
    """Scored programs of four forms, and failures."""
    forms = [f"visits ~ Poisson(exp(v0 + v1*age)) {HOSTILE}", "visits ~ Poisson(v0)", "visits ~ Poisson(age)"]
    records = []
    for number in range(6):
        text = f"{forms[number % 3]}; v0 ~ Normal(0, {number})"
        score = Score(
            evidence=-80.0 - 3 * number,
            evidence_se=0.01,
            elpd=-75.0 - 2 * number,
            elpd_se=4.0,
            num_parameters=2,
            structure=f"structure {number % 3}",
            canonical=str(number),
            summary=text,
        )
        source = f"# {number}\n{HOSTILE}"
        records.append(
            ProgramRecord(task.name, source, score, -5.0 - number, -9.0, -8.0, 1 + number, 0, number)
        )
    failure = Score.failed(FailureCategory.RAISED, f"NameError: {HOSTILE}")
    records.append(ProgramRecord(task.name, f"1 {HOSTILE}", failure, -20.0, -9.0, -8.0, 3, 0, 2))
    return records


def full_page() -> Page:
    """A page with every section, all of whose texts from programs are hostile."""
    task = count_task()
    random = np.random.default_rng(1)
    design = panel_design(task, ["age", "clinic"])

    def draws(columns: dict[str, np.ndarray]) -> np.ndarray:
        return random.poisson(
            np.exp(0.3 * columns["age"] + 0.5 * columns["clinic"]), (200, len(columns["age"]))
        )

    found = ResponseDraws(
        draws(task.covariates).astype(float), np.zeros((200, ROWS)), draws(design.columns).astype(float)
    )
    models = tuple(
        DrawnModel(
            name,
            HOSTILE,
            share,
            draw_bands(task, design, found),
            calibration(task, found),
            rootogram(task, found),
        )
        for name, share in (("weighted set", 0.97), ("form 1", 0.9))
    )
    places = place(np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 5.0], [4.0, 5.0, 0.0]]))
    search = DrawnMap(places, (0.9, 0.06, 0.01), (HOSTILE,) * 3, (1, 5, 9))
    steps = np.arange(20.0)
    curves = LearningCurves(
        Series(steps, np.tanh(steps / 5)),
        Series(steps[::5], np.ones(4)),
        Series(steps[::5], np.full(4, 0.1)),
        Series(steps, 9 * np.exp(-steps / 9)),
        Series(steps, 0.9 + 0 * steps),
    )
    records = records_of(task)
    compared = Comparison(f"mine{HOSTILE}.py", HOSTILE, records[0].score)
    broken = Comparison("broken.py", HOSTILE, records[-1].score)
    findings = TaskFindings(
        task.name,
        records,
        RunPosterior.from_records(task.name, records, task=task),
        task,
        [compared, broken],
        TaskPictures(models, search),
        curves,
        -78.0,
        [f"Step 9: {HOSTILE}"],
        [f"a program's predictions: {HOSTILE}"],
    )
    return Page(
        title="Posterior over programs: visits",
        created="today",
        version="0",
        tasks=(task_page(findings),),
        settings={"policy": HOSTILE},
        commands=(f"fit {HOSTILE}",),
        configuration=HOSTILE,
        versions={"Python": "3"},
    )
