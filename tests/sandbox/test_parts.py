"""The parts that need no worker: limits, messages, protocol, outcomes, scratch folders."""

from __future__ import annotations

import dataclasses
import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytensor.link.c.op import ExternalCOp

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.sandbox.inside import interpreted
from synthstats_lightning.sandbox.inside.huge_pages import collapse_heap
from synthstats_lightning.sandbox.messages import one_line
from synthstats_lightning.sandbox.outcome import Outcome, interpret
from synthstats_lightning.sandbox.protocol import Job
from synthstats_lightning.sandbox.scratch import make_scratch, remove_tree
from tests.sandbox.conftest import COVARIATES, SCHEMA


def test_huge_pages_keep_what_is_in_them() -> None:
    size = 16 << 20
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        content = np.random.default_rng(0).bytes(size)
        memory[:] = content
        before = _huge_kilobytes()
        made = collapse_heap()
        # a kernel before 6.1, or one without huge pages, makes none
        assert made == 0 or _huge_kilobytes() >= before + 2048
        assert memory[:] == content


def _huge_kilobytes() -> int:
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return int(rollup.split("AnonHugePages:")[1].split()[0])


@pytest.mark.filterwarnings("ignore:ExternalCOp is deprecated:FutureWarning")  # what PyTensor 3 says of it
def test_sources_of_ops_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class External(ExternalCOp):
        def perform(self, *arguments: object) -> None:
            raise NotImplementedError

    class Other(External):
        pass

    first, second = tmp_path / "first.c", tmp_path / "second.c"
    first.write_text("#section support_code\nint a;\n#section code\na = 1;\n")
    second.write_text("#section code\nb = 2;\n")
    made = [(External, [first]), (External, [first, second]), (External, [second]), (Other, [second])]
    plain = [kind([str(file) for file in files]) for kind, files in made]
    monkeypatch.setattr(ExternalCOp, "load_c_code", ExternalCOp.load_c_code)  # undone after the test
    interpreted.keep_sources()
    for kind, files in made:
        kind(list(map(str, files))).code_sections.clear()
    first.unlink()
    second.unlink()
    for known, (kind, files) in zip(plain, made, strict=True):
        again = kind([str(file) for file in files])
        assert again.code_sections == known.code_sections != {}
        assert again.func_codes == known.func_codes


def test_limits_round_trip_and_refuse() -> None:
    limits = SandboxLimits(cpu_seconds=3, wall_seconds=1.5)
    assert SandboxLimits.from_dict(limits.to_dict()) == limits
    for name, value in [("cpu_seconds", 0), ("wall_seconds", float("inf")), ("processes", -1)]:
        with pytest.raises(ValueError, match=f"{name} must be .* got {value}"):
            SandboxLimits.from_dict({name: value})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\t c", "a b c"),
        ("in /usr/lib/python3/x.py: no", "in <path>: no"),
        ("'/home/a b/c'", "'<path> b/c'"),
        ("x ~/secrets/key y", "x <path> y"),
        ("1/2 and a/b/c and (x)/y/z", "1/2 and a/b/c and (x)/y/z"),
        ("<f at 0x7f00aa>", "<f>"),
        ("\x1b[31m\x07\u202e\ud800", r"\x1b[31m\x07\u202e\ud800"),
        ("x" * 999, "x" * 299 + "…"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= 300
    assert line.isprintable()


def test_jobs_round_trip() -> None:
    job = Job("x = '\ud800'", build=True, schema=SCHEMA, covariates=COVARIATES)
    again = Job.decode(job.encode())
    assert (again.source, again.build, again.schema) == (job.source, job.build, job.schema)
    for name, values in COVARIATES.items():
        np.testing.assert_array_equal(again.covariates[name], values)
        assert again.covariates[name].dtype == values.dtype


def test_what_values_the_response_has_stays_behind() -> None:
    schema = dataclasses.replace(SCHEMA, response_whole=True, response_levels=("no", "yes"))
    again = Job.decode(Job("", build=True, schema=schema, covariates=COVARIATES).encode())
    assert again.schema == dataclasses.replace(schema, response_whole=False)


@given(st.binary(max_size=200))
def test_any_result_is_a_graph_or_a_failure(document: bytes) -> None:
    outcome = Outcome(
        0, timed_out=False, result_overflow=False, log_overflow=False, cpu_seconds=0.0, wall_seconds=0.0
    )
    try:
        assert isinstance(interpret(outcome, document, SandboxLimits()), str)
    except ProgramFailure as failure:
        assert failure.category in {FailureCategory.OUTPUT, FailureCategory.KILLED}  # noqa: PT017


def test_scratch_folders_can_be_passed_but_not_listed() -> None:
    folder = make_scratch()
    assert folder.stat().st_mode & 0o777 == 0o711
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "link").symlink_to("/etc")
    (folder / "a" / "b" / "file").touch()
    (folder / "a" / "b").chmod(0)
    remove_tree(folder)
    assert not folder.exists()
    assert Path("/etc").exists()
    remove_tree(folder)
