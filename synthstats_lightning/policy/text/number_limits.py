"""Numbers that stand for places of a column: which digit may come next.

A centre, a knot or a place of an index is a number behind a column and a minus sign, a scale one behind the
centre's bracket. Written digit by digit they are as easily those of another column. What was written of a
number is the beginning of a set of intervals, which must meet the one that the column leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.text.unlikely import UNLIKELY

BEYOND = 0.5
"""How far beyond a column's range, in its spans, a place may be: coarse centres are rounded so far."""
SCALES = (0.1, 1.0)
"""Smallest and largest scale, in spans: coarse ones are about a third."""
LONGEST = 10
"""Most digits that may follow before the decimal point."""
BEGINNING = 16
"""Tokens of a prompt's end that a number may have begun in."""
ROW, STAGE, OPENED, PLACE, LOW, HIGH, SPAN, VALUE, DECIMALS, COUNT, STATE = range(11)
"""Entries of the state of one place: its prompt; what was written last; which kind of opening the last token
is, and which the column stands behind; the interval that is left, and the column's span; the digits as a
whole number, how many are behind the decimal point, -1 without one, and how many there are. The last is the
number of entries."""
INDEX = 1.0
"""The kind of opening that an index stands behind."""
COLUMN, NUMBER = 1.0, 2.0
"""Stages: behind a column, and behind a sign with perhaps some digits."""


class NumberRule(NamedTuple):
    """Numbers that leave what they are written behind.

    Attributes:
        low: Smallest value of the column that a token points at, by prompt; NaN for other tokens.
        high: Its largest value.
        minus: Tokens behind which a number is taken off.
        added: Tokens behind which the number's opposite is.
        over: Tokens between a centre and its scale.
        opening: The kind of opening that a token is: 0 for none in particular, 1 of an index.
        ending: Tokens that end a number behind a column, by the kind of opening that stands before that.
        digit: The digit that a token is; -1 for none.
        digits: The tokens of the ten digits.
        point: The token of the decimal point.
    """

    low: Float[Tensor, "prompts vocabulary"]
    high: Float[Tensor, "prompts vocabulary"]
    minus: Bool[Tensor, " vocabulary"]
    added: Bool[Tensor, " vocabulary"]
    over: Bool[Tensor, " vocabulary"]
    opening: Int[Tensor, " vocabulary"]
    ending: Bool[Tensor, "kinds vocabulary"]
    digit: Int[Tensor, " vocabulary"]
    digits: Int[Tensor, 10]
    point: int

    def between(
        self, low: Float[Tensor, "prompts vocabulary"], high: Float[Tensor, "prompts vocabulary"]
    ) -> NumberRule:
        """The same for other columns, on their device.

        Args:
            low: Smallest value of the column that a token points at, by prompt; NaN for other tokens.
            high: Its largest value.
        """
        marks = (self.minus, self.added, self.over, self.opening, self.ending)
        minus, added, over, opening, ending = (each.to(low.device) for each in marks)
        digit, digits = self.digit.to(low.device), self.digits.to(low.device)
        return NumberRule(low, high, minus, added, over, opening, ending, digit, digits, self.point)


def start(prompts: int, device: torch.device) -> Float[Tensor, "prompts entries"]:
    """States before anything was written.

    Args:
        prompts: How many prompts there are.
        device: Where their tokens are.
    """
    state = torch.zeros(prompts, STATE, dtype=torch.float64, device=device)
    state[:, ROW] = torch.arange(prompts, device=device)
    return state


def advance(
    rule: NumberRule, state: Float[Tensor, "*rows entries"], tokens: Int[Tensor, "*rows"]
) -> Float[Tensor, "*rows entries"]:
    """States behind one token more.

    Args:
        rule: What numbers leave.
        state: States before it.
        tokens: The tokens, or positions of a digest, which are none.
    """
    known = (tokens >= 0) & (tokens < len(rule.digit))
    token = tokens.where(known, 0)
    row, stage, opened, place, low, high, span, value, decimals, count = state.unbind(-1)
    least, most = (table[row.long(), token].where(known, torch.nan) for table in (rule.low, rule.high))
    column, index = ~least.isnan(), opened == INDEX
    # an index is counted from the smallest place on
    reach = torch.where(index, 0.0, BEYOND * (most - least))
    most = torch.where(index, least, most)
    behind, inside = stage == COLUMN, stage == NUMBER
    added = known & rule.added[token]
    left, right = torch.where(added, -high, low), torch.where(added, -low, high)
    begins = behind & known & (rule.minus[token] | added) & (right >= 0.0)
    scaled = inside & (count > 0) & known & rule.over[token] & (span > 0)
    digit = rule.digit[token].to(value.dtype).where(known, -1.0)
    longer = inside & (digit >= 0)
    pointed = inside & known & (token == rule.point) & (decimals < 0)
    number = begins | scaled | longer | pointed
    fresh = begins | scaled | column
    stage = torch.where(column, COLUMN, torch.where(number, NUMBER, 0.0))
    # a scale's bracket is any
    place = torch.where(column, opened, torch.where(scaled, 0.0, place))
    opened = rule.opening[token].to(value.dtype).where(known, 0.0)
    low = torch.where(column, least - reach, torch.where(scaled, SCALES[0] * span, low))
    high = torch.where(column, most + reach, torch.where(scaled, SCALES[1] * span, high))
    low, high = torch.where(begins, left, low), torch.where(begins, right, high)
    span = torch.where(column, most - least, torch.where(scaled, 0.0, span))
    value = torch.where(fresh, 0.0, torch.where(longer, 10.0 * value + digit, value))
    counted = torch.where(pointed, 0.0, decimals + (longer & (decimals >= 0)).to(value.dtype))
    decimals = torch.where(fresh, -1.0, counted)
    count = torch.where(fresh, 0.0, count + longer.to(value.dtype))
    return torch.stack([row, stage, opened, place, low, high, span, value, decimals, count], -1)


def before_each(
    rule: NumberRule, prompt_ids: Int[Tensor, "batch prompt"], program_ids: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time entries"]:
    """States before each token of a program.

    Args:
        rule: What numbers leave.
        prompt_ids: Token ids of the prompts, padded on the left, perhaps with the beginning of a program.
        program_ids: Token ids of the programs, padded on the right.
    """
    state = start(len(prompt_ids), prompt_ids.device)
    for tokens in prompt_ids[:, -BEGINNING:].unbind(1):
        state = advance(rule, state, tokens)
    states = [state]
    for tokens in program_ids[:, :-1].unbind(1):
        states.append(advance(rule, states[-1], tokens))
    return torch.stack(states[: program_ids.shape[1]], 1)


def limited(
    rule: NumberRule, logits: Float[Tensor, "tokens vocabulary"], state: Float[Tensor, "tokens entries"]
) -> Float[Tensor, "tokens vocabulary"]:
    """Logits in which what leads a number out of its interval loses `UNLIKELY`.

    Args:
        rule: What numbers leave.
        logits: What the language model gives each token.
        state: The states before them.
    """
    some = (state[:, STAGE] == NUMBER).nonzero()[:, 0]
    if len(some) == 0:
        return logits
    state = state[some]
    low, high, value, decimals, count = state[:, [LOW, HIGH, VALUE, DECIMALS, COUNT]].unbind(1)
    # an interval's ends are those of texts of six digits, but for one whole number that an index begins at
    rounding = 1e-6 * torch.maximum(low.abs(), high.abs()).where(low < high, 0.0)
    low, high = low - rounding, high + rounding
    whole, empty = decimals < 0, count == 0
    parts = 10.0 ** decimals.clamp_min(0.0)  # of 1
    next_value = 10.0 * value[:, None] + torch.arange(10, dtype=value.dtype, device=value.device)
    factors = 10.0 ** torch.arange(LONGEST, dtype=value.dtype, device=value.device)
    begins = next_value[:, :, None] * factors
    meets = (begins + factors > low[:, None, None]) & (begins <= high[:, None, None])
    # what begins with a 0 is below 1
    leading = (next_value == 0) | (~empty & (value == 0))[:, None]
    meets = torch.where(leading, meets[:, :, 0] & empty[:, None], meets.any(2))
    finer = 10.0 * parts[:, None]
    behind = ((next_value + 1.0) / finer > low[:, None]) & (next_value / finer <= high[:, None])
    digits = torch.where(whole[:, None], meets, behind)
    point = whole & ~empty & (value + 1.0 > low) & (value <= high)
    ends = empty | ((value / parts >= low) & (value / parts <= high))
    # a policy that is sure of a digit that it may not write knows little of what else to write
    bad = ~ends[:, None] | (~empty[:, None] & ~rule.ending[state[:, PLACE].long()])
    bad[:, rule.digits] = ~digits
    bad[:, rule.point] = ~point & ~empty
    return logits.index_add(0, some, bad.to(logits.dtype), alpha=-UNLIKELY)
