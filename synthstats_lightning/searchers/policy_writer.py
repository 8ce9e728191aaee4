"""The policy of a module as the writer of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.policy import SampledPrograms
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.policy.sampling import on_policy
from synthstats_lightning.policy.suffixes import given_log_probs
from synthstats_lightning.runtime.default_dtype import float32_by_default
from synthstats_lightning.runtime.single_precision import is_finite
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.searchers.proposal import Proposal
from synthstats_lightning.tasks import Prompt

CALLS = 2**32
"""Streams of one task: one for each call."""


class PolicyWriter:
    """Writes programs of one task with a module's policy, at temperature 1.

    Every call has a random stream of its own, by its number: a search that is begun again writes the same.

    Args:
        module: Its policy is loaded.
        prompt: The prompt of the task.
        task_index: Position of the task, for the random streams.
        context: Of the precision that the policy is run in.

    Attributes:
        shortest_prefix: Tokens that a program begins with at least before others may follow.
        longest: Tokens of a program at most, stop token included.
    """

    def __init__(
        self,
        module: SamplingModule,
        prompt: Prompt,
        task_index: int = 0,
        context: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.module, self.prompt, self.context = module, prompt, context
        self.settings = on_policy(module.sampling)
        self.shortest_prefix = max(1, self.settings.min_new_tokens)
        self.longest = self.settings.max_new_tokens
        self._stream = Stream.SEARCH.at(task_index * CALLS)

    def draw(self, number: int) -> list[Proposal]:
        """Programs drawn independently.

        Args:
            number: How many are drawn.
        """
        with torch.no_grad(), self.context():
            drawn = self.module.sample([self.prompt], number, self.settings, self._next_stream())
        return _proposals(drawn, drawn=True)

    def go_on(self, prefixes: Sequence[tuple[int, ...]]) -> list[Proposal]:
        """Programs that begin with given tokens and go on as the policy will.

        Args:
            prefixes: First tokens of each program.
        """
        places = [0] * len(prefixes)
        with torch.no_grad(), self.context():
            written = self.module.resample_suffixes(
                [self.prompt], places, prefixes, self.settings, self._next_stream()
            )
        return _proposals(written, drawn=False)

    def read(self, sources: Sequence[str]) -> list[Proposal | None]:
        """Given programs with what policy and prior think of them; `None` for one that it cannot write.

        Args:
            sources: Source texts of these programs.
        """
        policy = self.module.loaded_policy
        tokens = [self._spelled(source) for source in sources]
        short = [place for place, ids in enumerate(tokens) if 0 < len(ids) <= self.longest]
        found: list[Proposal | None] = [None] * len(sources)
        if not short:
            return found
        ids, mask = pad_right([tokens[place] for place in short], policy.pad_token_id, policy.device)
        given = [tuple(policy.encode_prompt(*self.prompt))] * len(short)
        priors = [tuple(policy.encode_prompt(*self.prompt.prior))] * len(short)
        least = self.settings.min_new_tokens
        with torch.no_grad(), self.context(), float32_by_default(), policy.evaluating():
            own = given_log_probs(policy, given, ids, mask, least, reference=False).tolist()
            reference = given_log_probs(policy, priors, ids, mask, least, reference=True).tolist()
        for place, log_prob, prior in zip(short, own, reference, strict=True):
            if is_finite(log_prob) and is_finite(prior):
                found[place] = Proposal(tokens[place], sources[place], log_prob, prior)
        return found

    def _spelled(self, source: str) -> tuple[int, ...]:
        """Tokens of a given program; none where the policy has no spelling of it."""
        try:
            return tuple(self.module.loaded_policy.encode_program(source, self.prompt.facts))
        except ValueError:
            return ()

    def _next_stream(self) -> int:
        self._stream += 1
        return self._stream - 1


def _proposals(samples: SampledPrograms, *, drawn: bool) -> list[Proposal]:
    return [
        Proposal(
            tuple(samples.program_ids[row][samples.program_mask[row]].tolist()),
            source,
            float(samples.log_prob[row]),
            float(samples.reference_log_prob[row]),
            bool(samples.stopped[row]),
            drawn,
            samples.spans[row] if samples.spans else None,
        )
        for row, source in enumerate(samples.sources)
    ]
