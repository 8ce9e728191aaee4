"""No two parts of a run draw from one random stream."""

import itertools

import pytest

from synthstats_lightning.runtime.streams import Stream

# of runs whose programs are on record: another number is another run
ON_RECORD = {"TRAINING": 0, "EVALUATION": 2**40, "PREDICTION": 2**41, "REPORT": 2**42, "BENCHMARKS": 2**43}


def test_ranges_do_not_overlap():
    ranges = sorted((stream.at(0), stream.at(stream.width - 1)) for stream in Stream)
    for (_, last), (first, _) in itertools.pairwise(ranges):
        assert last < first


@pytest.mark.parametrize("stream", Stream)
def test_an_offset_beyond_the_width_is_refused(stream):
    for offset in (-1, stream.width):
        with pytest.raises(
            ValueError, match=rf"offset of stream {stream.name} must be from 0 to .*, got {offset}"
        ):
            stream.at(offset)


def test_numbers_of_runs_on_record_stay():
    assert {name: Stream[name].at() for name in ON_RECORD} == ON_RECORD
