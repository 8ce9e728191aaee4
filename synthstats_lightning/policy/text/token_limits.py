"""What may follow a prompt and what was written so far."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.text import adjacent, bracket_limits, number_limits
from synthstats_lightning.policy.text.bracket_limits import BracketRule
from synthstats_lightning.policy.text.number_limits import NumberRule
from synthstats_lightning.policy.text.unlikely import UNLIKELY


class TokenRule(NamedTuple):
    """Tokens that are all but ruled out after certain two.

    Attributes:
        before: Which tokens the last but one is of, by prompt.
        last: Which tokens the last is of, by prompt.
        unlikely: Which tokens lose `UNLIKELY` nats then, by prompt.
    """

    before: Bool[Tensor, "prompts vocabulary"]
    last: Bool[Tensor, "prompts vocabulary"]
    unlikely: Bool[Tensor, "prompts vocabulary"]


class SizeRule(NamedTuple):
    """Sizes of what a program does not use, which are all but ruled out after certain two tokens.

    Attributes:
        opening: The token behind which a program begins.
        before: Which tokens the last but one is of.
        last: Which tokens the last is of.
        sizes: The tokens of sizes.
        uses: Which tokens use what each size is of; in the last column, those from which on the rule holds.
    """

    opening: int
    before: Bool[Tensor, " vocabulary"]
    last: Bool[Tensor, " vocabulary"]
    sizes: Int[Tensor, " sizes"]
    uses: Bool[Tensor, "vocabulary used"]

    def used(self, ids: Int[Tensor, "*tokens"]) -> Bool[Tensor, "*tokens used"]:
        """What each token uses.

        Args:
            ids: Token ids, or positions of a digest, which use nothing.
        """
        return self.uses[ids.where(ids < len(self.uses), self.opening)]


class Before(NamedTuple):
    """What stands before tokens.

    Attributes:
        last_two: The two tokens before each, the nearer last; -1 where there is none.
        used: Which columns of `SizeRule.uses` a program has had; none without such a rule.
        number: The state of a number that is being written; no entries without a `NumberRule`.
        open: Brackets and quotes that are open; `bracket_limits.NOTHING` without a `BracketRule`.
    """

    last_two: Int[Tensor, "*tokens 2"]
    used: Bool[Tensor, "*tokens used"]
    number: Float[Tensor, "*tokens entries"]
    open: Int[Tensor, "*tokens"]

    def of(self, index: Tensor | tuple[Tensor, ...]) -> Before:
        """The same of some of the tokens.

        Args:
            index: Which of the tokens are meant, as a tensor is indexed.
        """
        return Before(*(each[index] for each in self))


class TokenLimits(NamedTuple):
    """Which tokens can be written after which, the same for a policy and its reference.

    Attributes:
        allowed: True on the tokens that may follow a prompt; all others have probability 0.
        rules: What else is all but ruled out, which depends on the last two tokens.
        sizes: What is all but ruled out by all that was written.
        numbers: Numbers that are all but ruled out behind a column.
        brackets: Brackets and ends of lines that are all but ruled out by what is open.
        rare: True on the tokens that are all but ruled out wherever they stand.
        adjacent: True on the tokens that are all but ruled out behind each.
    """

    allowed: Bool[Tensor, "prompts vocabulary"]
    rules: tuple[TokenRule, ...] = ()
    sizes: SizeRule | None = None
    numbers: NumberRule | None = None
    brackets: BracketRule | None = None
    rare: Bool[Tensor, "prompts vocabulary"] | None = None
    adjacent: Bool[Tensor, "last vocabulary"] | None = None

    def masked(
        self, logits: Float[Tensor, "tokens vocabulary"], row: Int[Tensor, " tokens"], before: Before
    ) -> Float[Tensor, "tokens vocabulary"]:
        """Logits with what is limited.

        Args:
            logits: What the language model gives each token.
            row: Which prompt each token follows.
            before: What stands before each.
        """
        last_two = before.last_two
        known = (last_two >= 0) & (last_two < logits.shape[-1])  # positions of a digest are no tokens
        first, second = last_two.where(known, 0).unbind(-1)
        for one, other, unlikely in self.rules:
            # before a program there may be a digest, whose positions count as the padding that is token 0
            applies = known[:, 1] & one[row, first] & other[row, second]
            logits = logits - UNLIKELY * (applies[:, None] & unlikely[row]).to(logits.dtype)
        if self.sizes is not None:
            applies = known.all(-1) & self.sizes.before[first] & self.sizes.last[second]
            unused = (applies & before.used[:, -1])[:, None] & ~before.used[:, :-1]
            logits = logits.index_add(-1, self.sizes.sizes, unused.to(logits.dtype), alpha=-UNLIKELY)
        if self.numbers is not None:
            logits = number_limits.limited(self.numbers, logits, before.number)
        if self.brackets is not None:
            logits = bracket_limits.limited(self.brackets, logits, before.open)
        if self.adjacent is not None:
            logits = adjacent.limited(self.adjacent, logits, second, known[:, 1])
        if self.rare is not None:
            logits = logits - UNLIKELY * self.rare[row].to(logits.dtype)
        return logits.masked_fill(~self.allowed[row], -torch.inf)

    def before(
        self, prompt_ids: Int[Tensor, "batch prompt"], program_ids: Int[Tensor, "batch time"]
    ) -> Before:
        """What stands before each token of a program.

        Args:
            prompt_ids: Token ids of the prompts, padded on the left, perhaps with the beginning of a program.
            program_ids: Token ids of the programs, padded on the right.
        """
        last_two = preceding_two(prompt_ids, program_ids)
        number = last_two.new_zeros((*program_ids.shape, 0), dtype=torch.float64)
        if self.numbers is not None:
            number = number_limits.before_each(self.numbers, prompt_ids, program_ids)
        opened = torch.full_like(program_ids, bracket_limits.NOTHING)
        if self.brackets is not None:
            opened = bracket_limits.before_each(self.brackets, prompt_ids, program_ids)
        if self.sizes is None:
            used = program_ids.new_zeros((*program_ids.shape, 0), dtype=torch.bool)
            return Before(last_two, used, number, opened)
        begun = (prompt_ids == self.sizes.opening).cumsum(1) > 0
        at_first = (self.sizes.used(prompt_ids) & begun[..., None]).any(1, keepdim=True)
        earlier = self.sizes.used(program_ids[:, :-1]).cumsum(1, dtype=torch.int32) > 0
        used = torch.cat([at_first, at_first | earlier], 1)[:, : program_ids.shape[1]]
        return Before(last_two, used, number, opened)

    def after(self, before: Before, tokens: Int[Tensor, " rows"]) -> Before:
        """What stands before the next tokens.

        Args:
            before: What stood before these.
            tokens: What was written.
        """
        last_two = torch.stack([before.last_two[:, 1], tokens], 1)
        used = before.used if self.sizes is None else before.used | self.sizes.used(tokens)
        number, opened = before.number, before.open
        if self.numbers is not None:
            number = number_limits.advance(self.numbers, number, tokens)
        if self.brackets is not None:
            opened = bracket_limits.advance(self.brackets, opened, tokens)
        return Before(last_two, used, number, opened)


def preceding_two(
    prompt_ids: Int[Tensor, "batch prompt"], program_ids: Int[Tensor, "batch time"]
) -> Int[Tensor, "batch time 2"]:
    """The two tokens before each of a program, the nearer last.

    Args:
        prompt_ids: Token ids of the prompts, padded on the left.
        program_ids: Token ids of the programs, padded on the right.
    """
    first = prompt_ids.new_full((len(prompt_ids), 2), -1)
    whole = torch.cat([first, prompt_ids, program_ids], 1)[:, -program_ids.shape[1] - 2 : -1]
    return torch.stack([whole[:, :-1], whole[:, 1:]], -1)
