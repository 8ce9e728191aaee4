"""The page in a real browser: nothing runs but its own script; tables sort and expand, it prints."""

from __future__ import annotations

import shutil

import pytest

from synthstats_lightning.reports.html.page import write_page
from tests.support.report_page import full_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]
playwright = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The page, with all that the browser complained of or asked for."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(full_page(), path)
    said = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        yield page, said, path
        browser.close()


def wait_until(page, expression):
    """Asks from outside: the page's policy lets nothing inside wait for an expression."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{expression} did not come true in 10 seconds")


def shares(page):
    cells = page.locator("table.leaderboard tr.form td:nth-child(3)")
    return [float(value) for value in cells.evaluate_all("cells => cells.map(cell => cell.dataset.value)")]


def test_nothing_hostile_runs_and_nothing_is_fetched(opened):
    page, said, path = opened
    assert said == [path.as_uri()]
    assert page.title() == "Posterior over programs: visits"
    assert page.locator("img").count() == 0


def test_figures_are_drawn_and_folded_ones_when_they_are_opened(opened):
    page, said, _ = opened
    assert page.locator(".plot .main-svg").count() > 0
    drawn = page.locator(".plot[data-drawn]").count()
    assert drawn == page.locator(".plot").count() - 1
    page.get_by_text("Form 1, 90.0 %").click()
    wait_until(page, f"document.querySelectorAll('.plot[data-drawn]').length === {drawn + 1}")
    assert len(said) == 1


def test_the_leaderboard_sorts_and_expands(opened):
    page, said, _ = opened
    head = page.locator("table.leaderboard th", has_text="posterior share")
    button = head.locator("button")
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert shares(page) == sorted(shares(page), reverse=True)
    button.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert shares(page) == sorted(shares(page))
    classes = page.locator("table.leaderboard tbody tr:not(.detail)").evaluate_all(
        "rows => rows.map(r => r.className)"
    )
    assert classes[-2:] == ["compared"] * 2, "what has no share comes last"
    expand = page.locator("table.leaderboard button.expand").first
    row = page.locator(f"[id='{expand.get_attribute('aria-controls')}']")
    assert not row.is_visible()
    expand.click()
    assert row.is_visible()
    assert expand.get_attribute("aria-expanded") == "true"
    below = expand.evaluate("button => button.closest('tr').nextElementSibling.id")
    assert below == row.get_attribute("id"), "programs stay below their form"
    assert len(said) == 1


def test_it_prints_on_paper_and_fits_a_small_screen(opened):
    page, said, _ = opened
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert len(paper) > 50_000
    page.set_viewport_size({"width": 390, "height": 800})
    # only tables scroll sideways, once figures have taken the new width
    wait_until(page, "document.documentElement.scrollWidth <= 390")
    assert len(said) == 1
