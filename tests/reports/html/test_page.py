"""The page as a strict parser of HTML reads it: one file, whole, and nothing hostile in it but text."""

from __future__ import annotations

import json
import re

import html5lib
import numpy as np
import plotly.graph_objects as go
import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.comparisons import BASELINE, Comparison
from synthstats_lightning.reports.html import page as page_module
from synthstats_lightning.reports.html.contents import Page
from synthstats_lightning.reports.html.page import number, packed_plotly, percent, render_page, script_json
from synthstats_lightning.reports.html.task_page import TaskFindings, task_page
from synthstats_lightning.reports.pictures.learning_curves import LearningCurves, Series
from synthstats_lightning.reports.pictures.task_pictures import TaskPictures
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.scoring.score import Score
from tests.support.report_page import HOSTILE, count_task, full_page, records_of

XHTML = "{http://www.w3.org/1999/xhtml}"
LARGEST = 5_000_000


@pytest.fixture(scope="module")
def page():
    return full_page()


@pytest.fixture
def tree(page, monkeypatch):
    # which takes a parser in Python seconds
    monkeypatch.setattr(page_module, "packed_plotly", lambda: "AAAA")
    return html5lib.HTMLParser(strict=True).parse(render_page(page))


def elements(tree, name):
    return list(tree.iter(f"{XHTML}{name}"))


def text(element):
    return " ".join("".join(element.itertext()).split())


def test_nothing_comes_from_elsewhere_and_no_script_is_a_programs(tree):
    scripts = elements(tree, "script")
    assert [script.get("type") for script in scripts] == ["application/json", "text/plain", None]
    (policy,) = (m.get("content") for m in elements(tree, "meta") if m.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert f"script-src 'nonce-{scripts[-1].get('nonce')}'" in policy
    for element in tree.iter():
        assert not [name for name in element.attrib if name.startswith("on")], element.tag
        for name in ("src", "href"):
            assert re.match(r"#|data:,|$", element.get(name, "")), element.attrib
    assert not elements(tree, "img")
    assert not elements(tree, "iframe")


def test_hostile_text_is_shown_as_it_is(tree):
    shown = " ".join(HOSTILE.split())
    assert sum(shown in text(element) for element in elements(tree, "pre")) >= 8
    assert any(shown in text(element) for element in elements(tree, "li"))
    assert "49" not in text(elements(tree, "h1")[0])


def test_figures_are_plotlys(page, tree):
    """Plotly's own checks of each figure, and no tag in what Plotly would read as HTML."""
    (data,) = (script for script in elements(tree, "script") if script.get("id") == "figures")
    figures = json.loads(data.text)
    places = [element.get("data-figure") for element in elements(tree, "div") if element.get("data-figure")]
    assert sorted(figures) == sorted(places)
    assert len(places) == 6
    for figure in figures.values():
        go.Figure(figure)
        texts = re.findall(
            r'"(?:text|name|ticktext|hovertemplate)":\s*(\[.*?\]|".*?[^\\]")', json.dumps(figure)
        )
        assert not any(
            "<" in each.replace("<extra></extra>", "").replace("<extra>data</extra>", "") for each in texts
        )
    for element in elements(tree, "div"):
        if element.get("data-figure"):
            assert element.get("role") == "img"
            assert len(element.get("aria-label")) > 20


def test_tables_can_be_read_by_ear(tree):
    tables = elements(tree, "table")
    assert len(tables) == 4
    for table in tables:
        assert text(next(table.iter(f"{XHTML}caption")))
        for cell in table.iter(f"{XHTML}th"):
            assert cell.get("scope") in ("col", "row")
    identifiers = {element.get("id") for element in tree.iter() if element.get("id")}
    for button in elements(tree, "button"):
        assert button.get("aria-controls") in identifiers | {None}
    for link in elements(tree, "a"):
        assert link.get("href")[1:] in identifiers
    assert len(identifiers) == len([element for element in tree.iter() if element.get("id")])


def test_the_leaderboard_has_forms_and_what_they_are_compared_with(tree):
    (board,) = (table for table in elements(tree, "table") if "leaderboard" in table.get("class", ""))
    rows = [row for row in board.iter(f"{XHTML}tr") if row.get("class") in ("form", "compared")]
    assert [row.get("class") for row in rows] == ["form"] * 3 + ["compared"] * 2
    values = [[cell.get("data-value") for cell in row] for row in rows]
    shares = [float(row[2]) for row in values[:3]]
    assert shares == sorted(shares, reverse=True)
    assert values[3][2] == "", "a program from outside has no share"
    assert "raised: NameError" in text(rows[4])
    hidden = [row for row in board.iter(f"{XHTML}tr") if row.get("class") == "detail"]
    assert len(hidden) == 5
    assert all(row.get("hidden") is not None for row in hidden)


def test_the_whole_page_is_small_and_repeats_but_for_its_number(page):
    first, second = render_page(page), render_page(page)
    assert len(first.encode()) < LARGEST
    assert packed_plotly() in first
    (nonce,) = set(re.findall(r'nonce="([^"]+)"', first))
    (other,) = set(re.findall(r'nonce="([^"]+)"', second))
    assert nonce != other
    assert first.replace(nonce, other) == second


def test_a_page_without_figures_has_no_plotly():
    bare = Page("Nothing", "today", "0", ())
    assert len(render_page(bare)) < 40_000


def test_json_in_a_script_element():
    value = {"a": "</script><!--\u2028", "b": [1.23456789, float("nan"), float("-inf")], "c": None}
    found = str(script_json(value))
    assert not re.search("[<>&\u2028]", found)
    assert json.loads(found) == {"a": "</script><!--\u2028", "b": [1.2346, None, None], "c": None}


@pytest.mark.parametrize(
    ("given", "shown"),
    [(-3.14159, "\N{MINUS SIGN}3.14"), (None, "–"), (float("nan"), "–"), (1e6, "1000000.00")],
)
def test_numbers(given, shown):
    assert number(given) == shown


@pytest.mark.parametrize(
    ("given", "shown"), [(0.5, "50.0 %"), (1e-9, "< 0.1 %"), (0.0, "0.0 %"), (None, "–")]
)
def test_shares(given, shown):
    assert percent(given) == shown


def test_where_programs_come_from():
    def scored(source, evidence, origin):
        score = Score(evidence=evidence, evidence_se=0.1, elpd=1.0, elpd_se=1.0)
        return ProgramRecord("t", source, score, 0.0, -3.0, -3.0, origin=origin)

    nothing = Series(np.zeros(0), np.zeros(0))
    failed = Score.failed(FailureCategory.SYNTAX, "no")
    records = [
        scored("a", 2.0, ""),
        scored("b", 3.0, "openai:writer"),
        ProgramRecord("t", "c", failed, -25.0, -3.0, -3.0, origin="openai:writer"),
    ]
    found = TaskFindings(
        "t", records, None, None, (), TaskPictures(), LearningCurves(*[nothing] * 5), None, (), ()
    )
    own, others = task_page(found).facts[-2:]
    # prior and evidence decide: exp(2) and exp(3) of equal priors
    assert (own.name, own.value) == ("Share from policy", percent(1 / (1 + np.e)))
    assert (others.name, others.value) == ("Share from openai:writer", percent(np.e / (1 + np.e)))
    assert others.note == "2 programs, 1 of them scored, best evidence 3.00 nats"
    alone = task_page(found._replace(records=records[:1]))
    assert not [fact for fact in alone.facts if fact.name.startswith("Share from")]


def test_learned_log_z_and_its_estimate_are_on_one_scale():
    task = count_task()
    records = records_of(task)
    posterior = RunPosterior.from_records(task.name, records, task=task)
    nothing, baseline = Series(np.zeros(0), np.zeros(0)), records[0].score
    found = TaskFindings(
        task.name, records, posterior, task, (), TaskPictures(), LearningCurves(*[nothing] * 5), 7.5, (), ()
    )

    def fact(compared):
        facts = task_page(found._replace(comparisons=compared)).facts
        return next(each for each in facts if each.name == "Learned log Z")

    total = posterior.estimate.log_z
    assert fact(()).note.startswith(f"its estimate {number(total)}")
    above = fact([Comparison(BASELINE, "", baseline)])
    assert above.note.startswith(f"its estimate {number(total - baseline.evidence)}")
    assert above.value == "7.50 nats"
