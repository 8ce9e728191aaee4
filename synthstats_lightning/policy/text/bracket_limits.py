"""Brackets and quotes that are closed in their order before a line ends.

What is open is one whole number: quaternary digits, the innermost bracket last, behind them the open quote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.text.unlikely import UNLIKELY

OPENING, CLOSING, QUOTES = "([{", ")]}", "\"'"
BASE = len(OPENING) + 1
"""A digit for each kind of bracket, and 0 for none."""
DEEPEST = 24
"""Brackets within each other that are kept count of; beyond, nothing is said any more."""
NOTHING, UNKNOWN = 0, -1
"""States: nothing is open, and too much."""


class Effect(NamedTuple):
    """What a token closes and opens, by the quote that is open before it.

    Attributes:
        closed: Brackets that it closes, as the number that must be open innermost.
        closes: `BASE` to the power of how many these are.
        opened: Brackets that it leaves open, as a number.
        opens: `BASE` to the power of how many these are.
        quote: The quote that is open behind it, counted from 1; 0 for none.
        line: Whether a line ends in it, when what it closes is closed and what it opens is not open yet.
        wrong: Whether it is wrong whatever comes before: a line ends within a string or a bracket of its own.
    """

    closed: int = 0
    closes: int = 1
    opened: int = 0
    opens: int = 1
    quote: int = 0
    line: bool = False
    wrong: bool = False


class BracketRule(NamedTuple):
    """Tokens that close what is not open, or leave a line with something open.

    Attributes:
        begin: The token behind which a program begins.
        tokens: Those that do anything of the kind.
        place: Where a token is among them; their number for others.
        closed: `Effect.closed` by the quote that is open and the place of a token; nothing in the last place.
        closes: `Effect.closes` by the same two.
        opened: `Effect.opened` by the same two.
        opens: `Effect.opens` by the same two.
        quote: `Effect.quote` by the same two.
        line: `Effect.line` by the same two.
        wrong: `Effect.wrong` by the same two.
    """

    begin: int
    tokens: Int[Tensor, " tokens"]
    place: Int[Tensor, " vocabulary"]
    closed: Int[Tensor, "quotes places"]
    closes: Int[Tensor, "quotes places"]
    opened: Int[Tensor, "quotes places"]
    opens: Int[Tensor, "quotes places"]
    quote: Int[Tensor, "quotes places"]
    line: Bool[Tensor, "quotes places"]
    wrong: Bool[Tensor, "quotes places"]

    def on(self, device: torch.device) -> BracketRule:
        """The same elsewhere.

        Args:
            device: Where it is wanted.
        """
        return BracketRule(self.begin, *(each.to(device) for each in self[1:]))


def effect(text: str, quote: int) -> Effect:
    """What the text of a token closes and opens.

    Args:
        text: Any text, of a token or a whole line.
        quote: The quote that is open before it, counted from 1; 0 for none.
    """
    closing: list[int] = []
    opening: list[int] = []
    line = wrong = False
    for character in text:
        if character == "\n":
            wrong |= quote > 0 or bool(opening)
            line = True
        elif character in QUOTES:
            kind = QUOTES.index(character) + 1
            quote = 0 if quote == kind else quote or kind
        elif quote:
            continue
        elif character in OPENING:
            opening.append(OPENING.index(character) + 1)
        elif character in CLOSING:
            kind = CLOSING.index(character) + 1
            if not opening:
                wrong |= line  # of a line before
                closing.append(kind)
            else:
                wrong |= opening.pop() != kind
    closed = sum(kind * BASE**depth for depth, kind in enumerate(closing))
    opened = sum(kind * BASE**depth for depth, kind in enumerate(reversed(opening)))
    return Effect(closed, BASE ** len(closing), opened, BASE ** len(opening), quote, line, wrong)


def bracket_rule(texts: Mapping[int, str], size: int, begin: int, end: int) -> BracketRule:
    """The rule of a vocabulary.

    Args:
        texts: Id of each token that text is made of, to this text.
        size: Tokens of the vocabulary.
        begin: The token behind which a program begins.
        end: The token that ends one, and so its last line.
    """
    marks = {token for token, text in texts.items() if set(text) & set(f"{OPENING}{CLOSING}{QUOTES}\n")}
    tokens = sorted({*marks, end} - {begin})
    place = torch.full((size,), len(tokens))
    place[tokens] = torch.arange(len(tokens))
    words = ["\n" if token == end else texts[token] for token in tokens]
    effects = [[effect(text, quote) for text in [*words, ""]] for quote in range(len(QUOTES) + 1)]
    parts = range(len(Effect()))
    tables = (torch.tensor([[each[part] for each in row] for row in effects]) for part in parts)
    return BracketRule(begin, torch.tensor(tokens), place, *tables)


def advance(
    rule: BracketRule, state: Int[Tensor, "*rows"], tokens: Int[Tensor, "*rows"]
) -> Int[Tensor, "*rows"]:
    """What is open behind one token more.

    Args:
        rule: What tokens close and open.
        state: What is open before it.
        tokens: The tokens, or positions of a digest, which are none.
    """
    known = (tokens >= 0) & (tokens < len(rule.place))
    place = rule.place[tokens.where(known, 0)].where(known, len(rule.tokens))
    counted = state.clamp_min(NOTHING)
    quote, stack = counted % BASE, counted.div(BASE, rounding_mode="floor")
    closes, opens = rule.closes[quote, place], rule.opens[quote, place]
    # what closes something else counts as if it had closed what was open
    rest = stack.div(closes, rounding_mode="floor")
    after = (rest * opens + rule.opened[quote, place]) * BASE + rule.quote[quote, place]
    too_deep = (state < 0) | (rest >= BASE**DEEPEST // opens)
    return after.where(~too_deep, UNKNOWN)


def before_each(
    rule: BracketRule, prompt_ids: Int[Tensor, "batch prompt"], program_ids: Int[Tensor, "batch time"]
) -> Int[Tensor, "batch time"]:
    """What is open before each token of a program.

    Args:
        rule: What tokens close and open.
        prompt_ids: Token ids of the prompts, padded on the left, perhaps with the beginning of a program.
        program_ids: Token ids of the programs, padded on the right.
    """
    begun = (prompt_ids == rule.begin).cumsum(1) > 0
    state = prompt_ids.new_zeros(len(prompt_ids))
    for place in range(prompt_ids.shape[1] - int(begun.sum(1).max()), prompt_ids.shape[1]):
        state = advance(rule, state, prompt_ids[:, place]).where(begun[:, place], NOTHING)
    states = [state]
    for tokens in program_ids[:, :-1].unbind(1):
        states.append(advance(rule, states[-1], tokens))
    return torch.stack(states[: program_ids.shape[1]], 1)


def limited(
    rule: BracketRule, logits: Float[Tensor, "tokens vocabulary"], state: Int[Tensor, " tokens"]
) -> Float[Tensor, "tokens vocabulary"]:
    """Logits in which what closes what is not open, or leaves a line with something open, loses `UNLIKELY`.

    Args:
        rule: What tokens close and open.
        logits: What the language model gives each token.
        state: What is open before each.
    """
    states, row = torch.unique(state, return_inverse=True)
    known = states.clamp_min(NOTHING)[:, None]
    quote, stack = known % BASE, known.div(BASE, rounding_mode="floor")
    of = quote, torch.arange(len(rule.tokens), device=states.device)
    closes = rule.closes[of]
    wrong = rule.wrong[of] | (stack % closes != rule.closed[of])
    wrong |= rule.line[of] & (stack >= closes)
    wrong &= states[:, None] >= 0
    return logits.index_add(1, rule.tokens, wrong.to(logits.dtype)[row], alpha=-UNLIKELY)
