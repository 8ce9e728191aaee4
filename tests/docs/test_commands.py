"""Every command that README and the site show parses, and every path that they name exists."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from synthstats_lightning.cli.main import main
from synthstats_lightning.cli.parser import TRAINER_COMMANDS, command_line
from tests.docs.pages import ROOT, commands, files, pages

SHOWN = [(page.relative_to(ROOT).as_posix(), words) for page in pages() for words in commands(page)]
LINKED = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")
NAMED = re.compile(r"\b(?:configs|synthstats_lightning|docs|tests|benchmarks)/[\w/.*-]*[\w*]")
MADE = ("docs/_build", "docs/generated", "docs/figures/values")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a clone in which a user has written the files that the pages show."""
    for name in ("configs", "docs", "synthstats_lightning"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "plants.csv").write_text("dose,height\n0,1.5\n1,2.5\n2,3.0\n3,4.5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_there_are_commands_of_every_kind() -> None:
    assert len(SHOWN) > 20
    assert {words[0] for _, words in SHOWN} >= {"fit", "test", "predict", "score", "sandbox"}


@pytest.mark.parametrize(
    ("page", "words"), SHOWN, ids=[" ".join((page, *words)).replace("/", "|") for page, words in SHOWN]
)
def test_command(page: str, words: list[str], clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = {**files(ROOT / "CONTRIBUTING.md"), **files(ROOT / page)}
    for name, content in shown.items():
        (clone / name).write_text(content)
    try:
        if words[0] in TRAINER_COMMANDS:
            with pytest.raises(SystemExit) as stop:
                main([*words, "--print_config"])
            assert stop.value.code == 0, capsys.readouterr().err
        else:
            command = import_module(f"synthstats_lightning.cli.{words[0]}")
            parsed = command_line(words[0], command.add_arguments).parse_args(words)
            assert parsed.subcommand == words[0]
    finally:
        for name in shown:
            sys.modules.pop(Path(name).stem, None)


@pytest.mark.parametrize(
    "page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix().replace("/", "|")
)
def test_paths(page: Path) -> None:
    text = page.read_text()
    for link in LINKED.findall(text):
        target = (page.parent / link).resolve()
        made = target.relative_to(ROOT).as_posix().startswith(MADE)
        assert made or target.exists(), f"{page.name} links to {link}"
    for path in NAMED.findall(text):
        assert path.startswith(MADE) or list(ROOT.glob(path)), f"{page.name} names {path}"
