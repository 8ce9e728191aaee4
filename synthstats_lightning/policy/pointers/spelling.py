"""The spelling of a policy with pointers: requests without names, programs with tokens for columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.pointers.declared import declared_once
from synthstats_lightning.policy.pointers.naming import clear_names
from synthstats_lightning.policy.pointers.order import turned
from synthstats_lightning.policy.pointers.pieces import source_pieces
from synthstats_lightning.policy.pointers.ranges import Contexts, contexts, ranges, rules
from synthstats_lightning.policy.pointers.request import request_text
from synthstats_lightning.policy.pointers.slots import digest_positions
from synthstats_lightning.policy.pointers.table import PointerTable, pointer_table
from synthstats_lightning.policy.pointers.told import told, untold
from synthstats_lightning.policy.pointers.vocabulary import (
    COLUMNS,
    DATA,
    END,
    GROUPS,
    POINTERS,
    PROGRAM,
    RESPONSE,
    SPECIAL_TOKENS,
    TASK,
    count_of,
    index_of,
)
from synthstats_lightning.policy.pointers.words import words
from synthstats_lightning.policy.prompt_room import PromptError, UnreadableDataError
from synthstats_lightning.policy.text.adjacent import adjacency
from synthstats_lightning.policy.text.answer_tokens import ReadProgram
from synthstats_lightning.policy.text.bracket_limits import BracketRule, bracket_rule
from synthstats_lightning.policy.text.number_limits import NumberRule
from synthstats_lightning.policy.text.token_limits import SizeRule, TokenLimits, TokenRule
from synthstats_lightning.tasks.facts import Facts

KEY = "spelling"
"""Key of a tokenizer's configuration that names its spelling."""
POINTING = "pointers"
"""Value of that key."""
KEPT = 256
"""Prompts whose rules are kept."""
_FIRST = 0xE000
"""Characters from here on, which no source has, stand for pointers while a program is read."""
_PLACES = {pointer: chr(_FIRST + place) for place, pointer in enumerate(POINTERS)}
_POINTERS = {place: pointer for pointer, place in _PLACES.items()}


class _Told(NamedTuple):
    """What a request says of tokens.

    Attributes:
        rules: The parts of each rule.
        ends: Smallest and largest value of each column, NaN for other tokens.
    """

    rules: Bool[Tensor, "rules parts vocabulary"]
    ends: Float[Tensor, "2 vocabulary"]


class PointerSpelling:
    """Columns, groups and the response as tokens of their own.

    A prompt is made from a task's facts: kinds, ranges, roles and rows, and nothing that the user has named.
    A program's names of columns are tokens that the request has; those that it lacks cannot be written.
    Statements are turned: the observed variable first, parameters last.

    Args:
        tokenizer: A tokenizer with the tokens of `vocabulary`.
        size: Tokens of the model's vocabulary.
        name: Name of the policy, for messages.
        reads_digests: Whether its model embeds the positions of a digest.

    Raises:
        ValueError: If the tokenizer lacks a pointer, being of an earlier version.
    """

    plain = False

    def __init__(self, tokenizer: Any, size: int, name: str = "", reads_digests: bool = False) -> None:
        self.tokenizer = tokenizer
        self.size = size
        self.name = name
        self.reads_digests = reads_digests
        self.ids: dict[str, int] = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
        known = tokenizer.get_vocab()
        if missing := [token for token in SPECIAL_TOKENS if token not in known]:
            raise ValueError(
                f"tokenizer of policy {name!r} must have every pointer of this version, and lacks"
                f" {len(missing)}, {missing[0]} among them: train it anew, or use the version that trained it"
            )
        self._tables: dict[tuple[int, ...], _Told] = {}
        self._pointers = {self.ids[pointer]: pointer for pointer in POINTERS}
        self._special = {token: name for name, token in self.ids.items()}

    def prompt(self, rules: str, request: str, thinking: bool, data: str, facts: Facts | None) -> list[int]:
        """The request in pointers.

        Raises:
            PromptError: If there is no task behind the prompt, or it has more columns than pointers.
            UnreadableDataError: If data are shown.
        """
        if facts is None:
            raise PromptError(
                f"policy {self.name!r} words requests of tasks itself, and this prompt is that of no task;"
                " larger language models take any prompt"
            )
        if data and (facts.digest is None or not self.reads_digests):
            allowed = "'nothing' or 'digest'" if self.reads_digests else "'nothing'"
            raise UnreadableDataError(f"proposal must be {allowed} for policy {self.name!r}")
        table, shown = pointer_table(facts), told(facts)
        return [*self.request(shown, table), *self.digest(shown, table), self.ids[PROGRAM]]

    def request(self, facts: Facts, table: PointerTable) -> list[int]:
        """Token ids of a request with given pointers.

        Args:
            facts: What there is to tell.
            table: Which pointers stand for its names.
        """
        ids = self.tokenizer(request_text(facts, table), add_special_tokens=False).input_ids
        return [self.ids[TASK], *ids]

    def digest(self, facts: Facts, table: PointerTable) -> list[int]:
        """Ids of a digest, between request and program; nothing in the prior's prompt.

        Args:
            facts: What there is to tell.
            table: Which pointers stand for its names.
        """
        if facts.digest is None:
            return []
        return [self.ids[DATA], *digest_positions(facts.digest, facts.response, table.names)]

    def program(self, source: str, facts: Facts | None) -> list[int]:
        """Columns as pointers, statements turned.

        Raises:
            PromptError: If it is not said which request the program answers.
        """
        return self.program_with(source, pointer_table(self._told(facts)))

    def program_with(self, source: str, table: PointerTable) -> list[int]:
        """Token ids of a program with given pointers.

        Args:
            source: Source text with the columns' own names.
            table: Which pointers stand for them.
        """
        pieces = source_pieces(source, table)
        texts = [piece for piece in pieces[::2] if piece]
        if not texts:
            return [self.ids[pointer] for pointer in pieces[1::2]]
        encoded = iter(self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True).input_ids)
        ids: list[int] = []
        for place, piece in enumerate(pieces):
            if place % 2:
                ids.append(self.ids[piece])
            elif piece:
                ids += next(encoded)
        return ids

    def text(self, ids: Sequence[int], facts: Facts | None) -> str:
        """What was written, in the order of the tokens."""
        return self._named(self._marked(ids), pointer_table(self._told(facts)))

    def read(self, ids: Sequence[int], facts: Facts | None, stop_strings: Sequence[str]) -> ReadProgram:
        """The program with the columns' names, its statements in the order of Python, each name once."""
        table = pointer_table(self._told(facts))
        source = declared_once(turned(self._marked(ids)))
        return ReadProgram(self._named(source, table), (0, len(ids)))

    def allowed(self, prompt_ids: Int[Tensor, "prompts tokens"]) -> Bool[Tensor, "prompts vocabulary"]:
        """Text, the stop token, and the pointers that a prompt has."""
        text, pointers = (tensor.to(prompt_ids.device) for tensor in self._kinds)
        present = torch.zeros(len(prompt_ids), self.size, dtype=torch.bool, device=prompt_ids.device)
        present.scatter_(1, torch.where(prompt_ids < self.size, prompt_ids, self.ids[TASK]), True)
        return text | (pointers & present)

    def limits(self, prompt_ids: Int[Tensor, "prompts tokens"]) -> TokenLimits:
        """What is allowed, but no place where a range leaves no value, and no size of what is not indexed.

        Nor a place far from its column's range, nor a bracket that is not open or left so, nor what cannot
        follow the token before. Columns that a
        prompt leaves out are all but ruled out: programs from elsewhere that have them can be replayed.
        """
        device = prompt_ids.device
        found = [self._rules(tuple(ids)) for ids in prompt_ids.tolist()]
        tables, ends = (torch.stack(each).to(device) for each in zip(*found, strict=True))
        every = tuple(TokenRule(*each.unbind(1)) for each in tables.unbind(1))
        sizes = SizeRule(self._sizes.opening, *(each.to(device) for each in self._sizes[1:]))
        numbers = self._numbers.between(*ends.unbind(1))
        allowed, rare = self.allowed(prompt_ids), torch.zeros(len(found), self.size, dtype=torch.bool)
        for row, ids in enumerate(prompt_ids.tolist()):
            prompt = {self._special[token] for token in ids if token in self._special}
            rare[row, [self.ids[pointer] for pointer in untold(prompt)]] = True
        rare = rare.to(device)
        brackets, pairs = self._brackets.on(device), self._adjacent.to(device)
        return TokenLimits(allowed | rare, every, sizes, numbers, brackets, rare, pairs)

    def _rules(self, prompt: tuple[int, ...]) -> _Told:
        """Rules and ranges of one prompt, of which there are few."""
        last = prompt.index(self.ids[PROGRAM]) if self.ids[PROGRAM] in prompt else len(prompt)
        asked = tuple(token for token in prompt[:last] if token < self.size)  # without a digest
        if asked not in self._tables:
            text = self.tokenizer.decode(asked, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            known = ranges(text)
            found = rules(known, self.ids, self._contexts)
            ends = torch.full((2, self.size), torch.nan, dtype=torch.float64)
            for pointer in set(known) & set(COLUMNS):
                ends[:, self.ids[pointer]] = torch.tensor(known[pointer][:2], dtype=torch.float64)
            table = torch.zeros(len(found), 3, self.size, dtype=torch.bool)
            for row, rule in enumerate(found):
                for part, tokens in enumerate(rule):
                    table[row, part, list(tokens)] = True
            if len(self._tables) >= KEPT:
                self._tables.clear()
            self._tables[asked] = _Told(table, ends)
        return self._tables[asked]

    @cached_property
    def _sizes(self) -> SizeRule:
        """Statements are turned: from the response on, what is indexed comes before what has a shape.

        A program of another form has the response last, and the rule does not touch it.
        """
        shape, equals = self._contexts.shape, self._contexts.equals
        places = [
            {self.ids[column], *([self.ids[index_of(column)]] if column in COLUMNS else [])}
            for column in (*COLUMNS, *GROUPS)
        ]
        uses = torch.zeros(self.size, len(places) + 1, dtype=torch.bool)
        for number, tokens in enumerate([*places, {self.ids[RESPONSE]}]):
            uses[list(tokens), number] = True
        before, last = torch.zeros(2, self.size, dtype=torch.bool)
        before[list(shape)] = last[list(equals)] = True
        sizes = torch.tensor([self.ids[count_of(column)] for column in (*COLUMNS, *GROUPS)])
        return SizeRule(self.ids[PROGRAM], before, last, sizes, uses)

    @cached_property
    def _numbers(self) -> NumberRule:
        """Signs and digits, without columns."""
        of = self._contexts
        marks = torch.zeros(3 + len(of.ending), self.size, dtype=torch.bool)
        for row, tokens in enumerate((of.minus, of.added, of.over, *of.ending)):
            marks[row, list(tokens)] = True
        opening = torch.zeros(self.size, dtype=torch.int64)
        for kind, tokens in enumerate(of.openings, start=1):
            opening[list(tokens)] = kind
        digit = torch.full((self.size,), -1)
        digit[list(of.digits)] = torch.arange(10)
        nothing = torch.full((1, self.size), torch.nan, dtype=torch.float64)
        digits = torch.tensor(of.digits)
        minus, added, over = marks[:3]
        ending = marks[3:]
        return NumberRule(nothing, nothing, minus, added, over, opening, ending, digit, digits, of.point)

    @cached_property
    def _brackets(self) -> BracketRule:
        return bracket_rule(self._texts, self.size, self.ids[PROGRAM], self.ids[END])

    @cached_property
    def _adjacent(self) -> Bool[Tensor, "last vocabulary"]:
        return adjacency(self._texts, self._pointers, self.size)

    @cached_property
    def _contexts(self) -> Contexts:
        return contexts(self._texts)

    @cached_property
    def _texts(self) -> dict[int, str]:
        """Tokens that text is made of."""
        special = set(self.ids.values())
        plain = (token for token in range(len(self.tokenizer)) if token not in special)
        return {token: self.tokenizer.decode([token]) for token in plain}

    @cached_property
    def _kinds(self) -> tuple[Bool[Tensor, " vocabulary"], Bool[Tensor, " vocabulary"]]:
        """Which tokens every program may have, and which are pointers."""
        text = torch.zeros(self.size, dtype=torch.bool)
        text[: min(self.size, len(self.tokenizer))] = True
        pointers = torch.zeros_like(text)
        pointers[list(self._pointers)] = True
        special = [token for name, token in self.ids.items() if name != END]
        text[special] = False
        return text, pointers

    def _told(self, facts: Facts | None) -> Facts:
        if facts is None:
            raise PromptError(
                f"programs of policy {self.name!r} have names in a task only, and no task is given"
            )
        return facts

    def _marked(self, ids: Sequence[int]) -> str:
        """Text with one character for each pointer."""
        runs: list[str] = []
        plain: list[int] = []

        def flush() -> None:
            if plain:
                text = self.tokenizer.decode(
                    plain, skip_special_tokens=False, clean_up_tokenization_spaces=False
                )
                runs.append("".join("�" if each in _POINTERS else each for each in text))
                plain.clear()

        for token in ids:
            if (pointer := self._pointers.get(int(token))) is None:
                plain.append(int(token))
            else:
                flush()
                runs.append(_PLACES[pointer])
        flush()
        return "".join(runs)

    def _named(self, marked: str, table: PointerTable) -> str:
        """Names in place of pointers, and other names for what the program calls like a column."""
        found = list(words(marked))
        other = clear_names(found, table.names)
        texts = table.texts
        pieces = []
        for word in found:
            text = word.text
            if word.kind == "name":
                text = other.get(text, text)
            elif word.kind == "text" and text[1:-1] in other:
                text = f"{text[0]}{other[text[1:-1]]}{text[-1]}"
            pieces.append(text)
        return "".join(_filled("".join(pieces), texts))


def _filled(marked: str, texts: dict[str, str]) -> Iterable[str]:
    """Characters and names; a pointer that touches a word, or that the request lacks, stays visible."""
    for place, character in enumerate(marked):
        pointer = _POINTERS.get(character)
        if pointer is None:
            yield character
            continue
        around = marked[max(0, place - 1) : place] + marked[place + 1 : place + 2]
        touches = any(each.isalnum() or each == "_" or each in _POINTERS for each in around)
        yield pointer if touches else texts.get(pointer, pointer)
