"""Which digits may follow a column against every number of few digits that there is."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch

from synthstats_lightning.policy import SamplingSettings, load_policy
from synthstats_lightning.policy.text.number_limits import BEYOND, SCALES, NumberRule
from synthstats_lightning.policy.text.token_limits import TokenLimits
from synthstats_lightning.policy.text.unlikely import UNLIKELY
from synthstats_lightning.tasks import Task, task_prompt

TEXTS = [*map(str, range(10)), ".", "<c>", "<d>", " - ", " - -", ")/", "[", "((", "x", ")", "]"]
ID = {text: token for token, text in enumerate(TEXTS)}
RANGES = {"<c>": (3.0, 17.0123456), "<d>": (-40.0, -8.0123456)}
WIDE = 14.0123456
ENDS = ({")", ")/"}, {"]"}, {")/"})
"""What ends a number where nothing, an index or a scaled centre was opened."""


def rule(ranges=RANGES, prompts=1):
    ends = torch.full((2, prompts, len(TEXTS)), torch.nan, dtype=torch.float64)
    for column, values in ranges.items():
        ends[:, :, ID[column]] = torch.tensor(values, dtype=torch.float64)[:, None]
    marks = [torch.tensor([text == mark for text in TEXTS]) for mark in (" - ", " - -", ")/")]
    opening = torch.tensor([{"[": 1, "((": 2}.get(text, 0) for text in TEXTS])
    ending = torch.tensor([[text in ends for text in TEXTS] for ends in ENDS])
    digit = torch.tensor([int(text) if text.isdigit() else -1 for text in TEXTS])
    return NumberRule(*ends, *marks, opening, ending, digit, torch.arange(10), ID["."])


def unlikely(texts, ranges=RANGES):
    """Texts that lose behind some others."""
    limits = TokenLimits(torch.ones(1, len(TEXTS), dtype=torch.bool), numbers=rule(ranges))
    prompt = torch.tensor([[ID[text] for text in texts]])
    before = limits.before(prompt, torch.zeros(1, 1, dtype=torch.int64))
    logits = torch.zeros(1, len(TEXTS))
    masked = limits.masked(logits, torch.tensor([0]), before.of((torch.tensor([0]), torch.tensor([0]))))
    assert set(masked.flatten().tolist()) <= {0.0, -UNLIKELY}
    return {TEXTS[token] for token in (masked[0] < 0).nonzero()[:, 0].tolist()}


def numbers():
    """Texts of all numbers below 1,000 with at most two decimals, without needless zeros in front."""
    whole = [str(n) for n in range(1000)]
    behind = ["", *(f".{n}" for n in range(10)), *(f".{n:02d}" for n in range(100))]
    return [one + other for one, other in itertools.product(whole, behind)]


EVERY = numbers()


@pytest.mark.parametrize(
    ("texts", "low", "high", "ends"),
    [
        (["<c>", " - "], 3.0 - WIDE * BEYOND, 17.0123456 + WIDE * BEYOND, ENDS[0]),
        (["<d>", " - -"], 8.0123456 - 31.9876544 * BEYOND, 40.0 + 31.9876544 * BEYOND, ENDS[0]),
        (["[", "<c>", " - "], 3.0, 3.0, ENDS[1]),
        (["((", "<c>", " - "], 3.0 - WIDE * BEYOND, 17.0123456 + WIDE * BEYOND, ENDS[2]),
        (["((", "<c>", " - ", "9", ")/"], SCALES[0] * WIDE, SCALES[1] * WIDE, ENDS[0]),
    ],
    ids=["place", "negative", "index", "centre", "scale"],
)
def test_numbers_stay_in_their_interval(texts, low, high, ends):
    inside = [text for text in EVERY if low <= float(text) <= high]
    beginnings = {text[:length] for text in inside for length in range(len(text) + 1)}
    rng = np.random.default_rng(3)
    tried = {text[:length] for text in rng.choice(EVERY, 60) for length in range(4)} | {""}
    tried |= {text[:length] for text in rng.choice(inside, 40) for length in range(4)}
    for written in sorted(tried):
        found = unlikely([*texts, *written])
        if written and written not in beginnings:
            continue  # what is beyond is told where it began to be
        if len(written.partition(".")[2]) == 0:  # of more decimals there are numbers that are not tried
            expected = {d for d in "0123456789" if written + d not in beginnings}
            assert {text for text in found if text.isdigit()} == expected, written
        # a number ends where it is inside, as what was opened before it does
        others = set(TEXTS) - set("0123456789.")
        never = others - ends if written else set()
        ended = not written or (not written.endswith(".") and low <= float(written) <= high)
        if not written.endswith("."):
            assert found & others == (never if ended else others), written


def test_what_is_no_place_of_a_column_is_free():
    assert not unlikely(["<c>", "x"])
    assert not unlikely(["x", " - "])
    assert not unlikely(["<c>", " - ", "x", "9"])
    # all of whose places are negative: no number behind a minus sign is one
    assert not unlikely(["<d>", " - "], {"<c>": (0.0, 1.0), "<d>": (-40.0, -30.0)})
    # an index has no scale
    assert not unlikely(["[", "<c>", " - ", "3", ")/"])


def test_states_are_the_same_step_by_step_and_at_once():
    rng = np.random.default_rng(4)
    likely = np.array([1.0] * 10 + [4.0, 8.0, 8.0, 16.0, 8.0, 6.0, 3.0, 3.0, 1.0, 1.0, 1.0])
    programs = torch.tensor(rng.choice(len(TEXTS), (6, 60), p=likely / likely.sum()))
    other = {"<c>": (100.0, 900.0)}
    both = [torch.stack([one[0], two[0]]) for one, two in zip(rule()[:2], rule(other)[:2], strict=True)]
    limits = TokenLimits(
        torch.ones(6, len(TEXTS), dtype=torch.bool), numbers=rule().between(*(x.repeat(3, 1) for x in both))
    )
    prompts = torch.full((6, 3), ID["x"])
    prompts[1] = 1 << 62  # positions of a digest
    whole = limits.before(prompts, programs)
    row = torch.arange(6)
    step = limits.before(prompts, programs[:, :1]).of((row, torch.zeros_like(row)))
    lost = 0
    for place in range(programs.shape[1]):
        here = limits.masked(torch.zeros(6, len(TEXTS)), row, whole.of((row, torch.full_like(row, place))))
        torch.testing.assert_close(limits.masked(torch.zeros(6, len(TEXTS)), row, step), here)
        lost += int((here < 0).sum())
        step = limits.after(step, programs[:, place])
    assert lost > 10


def test_the_writer_does_not_mix_up_places_of_columns():
    """Years and a share: centres of the one are never those of the other."""
    rng = np.random.default_rng(0)
    year = np.arange(1964.0, 2004.0)
    share = rng.uniform(0.0, 1.0, 40).round(3)
    task = Task("t", "T.", {"year": year, "share": share, "y": rng.poisson(20.0, 40).astype(float)}, "y")
    prompt = task_prompt(task)
    writer = load_policy("writer")
    drawn = writer.sample(
        [writer.encode_prompt(*prompt)], 100, SamplingSettings(256), 1, facts=[prompt.facts]
    )
    text = "\n".join(drawn.sources)
    years = [float(found) for found in re.findall(r"\byear - ([\d.]+)", text)]
    shares = [float(found) for found in re.findall(r"\bshare - ([\d.]+)", text)]
    assert len(years) > 10
    assert len(shares) > 3
    assert np.mean([1940 <= value <= 2030 for value in years]) > 0.8
    assert np.mean([value <= 1.5 for value in shares]) > 0.95
