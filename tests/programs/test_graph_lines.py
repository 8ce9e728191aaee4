"""What graphs of a file have in common is written once, and read back to the letter."""

import json

import pytest

from synthstats_lightning.programs import canonical_model
from synthstats_lightning.programs.graph_lines import GraphLines
from synthstats_lightning.reports.journal import RecordJournal, read_records
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.scoring.score import Diagnostics, Score
from tests.programs.models import log_linear


def record(number: int, intercept: float = 2.5) -> ProgramRecord:
    model = canonical_model(log_linear(intercept).graph())
    rows = tuple(0.1 * row + number for row in range(50))
    score = Score(
        evidence=-1.0,
        canonical=model.hash,
        structure=model.structure,
        graph=model.graph.to_record(),
        diagnostics={"evidence": Diagnostics(0.1, 50.0, 0.2, "importance", 1.0, rows)},
    )
    return ProgramRecord("t", f"program {number}", score, -1.0, -3.0, -3.5)


def test_graphs_that_differ_in_constants_share_a_line():
    graphs = GraphLines()
    texts = [record(0).score.graph, record(1, 7.25).score.graph, "no graph", None]
    short = [graphs.shorten({"graph": text, "source": "s"}) for text in texts]
    assert "rest" in short[0]["graph"]
    assert "rest" not in short[1]["graph"]
    assert [each["graph"] for each in short[2:]] == ["no graph", None]
    back = GraphLines()
    lines = [back.restore(json.loads(json.dumps(each))) for each in short]
    assert [each["graph"] for each in lines] == texts
    with pytest.raises(ValueError, match="no line before holds the graph"):
        GraphLines().restore(short[1])


def test_a_file_is_a_fraction_of_what_it_was_and_reads_the_same(tmp_path):
    records = [record(number, 1.0 + number) for number in range(20)]
    journal = RecordJournal(ProgramRecords())
    journal.start(tmp_path)
    for each in records:
        journal.add(each)
    path = tmp_path / "programs.jsonl"
    found = {each.source: each for each in read_records(tmp_path)}
    assert {source: each.score.graph for source, each in found.items()} == {
        each.source: each.score.graph for each in records
    }
    whole = sum(len(json.dumps({"source": each.source, **each.score.to_dict()})) for each in records)
    assert path.stat().st_size < whole / 2
    # once it is written anew as well
    journal.add(records[3])
    journal.close()
    assert [each.score.graph for each in read_records(tmp_path)] == [each.score.graph for each in records]
    text = ProgramRecords(records).to_json_lines()
    assert [each.score.graph for each in ProgramRecords.from_json_lines(text)] == [
        each.score.graph for each in records
    ]


def test_files_of_earlier_versions_hold_whole_graphs(tmp_path):
    old = record(1)
    fields = {**old.to_dict(), **old.score.to_dict()}
    (tmp_path / "programs.jsonl").write_text(json.dumps(fields) + "\n", encoding="utf-8")
    (found,) = read_records(tmp_path)
    assert found == old
