"""The policy: a causal language model that learns, and its reference, which never changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from synthstats_lightning.policy import encoding
from synthstats_lightning.policy.base_identity import weights_hash, write_base
from synthstats_lightning.policy.buckets import length_buckets
from synthstats_lightning.policy.compilation import compiled_forward
from synthstats_lightning.policy.forced import forced_log_probs, stripped
from synthstats_lightning.policy.hidden import (
    distinct_prompts,
    last_hidden_states,
    program_hidden_states,
    run_backbone,
)
from synthstats_lightning.policy.log_probs import (
    LimitedTokens,
    OutputHead,
    ProgramLogProbs,
    forbid_early_stop,
    token_and_stop_log_probs,
    token_log_probs,
)
from synthstats_lightning.policy.memory_plan.decoder import Decoder
from synthstats_lightning.policy.memory_plan.plan import GIB, DecodingMemory
from synthstats_lightning.policy.micro_batches import joined, micro_batches, recomputed
from synthstats_lightning.policy.model_settings import ModelSettings
from synthstats_lightning.policy.sampling import (
    SampledPrograms,
    SamplingSettings,
    stream_seed,
)
from synthstats_lightning.policy.sampling_backend import LOCAL, SamplingBackend
from synthstats_lightning.policy.snapshot import adapter_as, copy_adapter
from synthstats_lightning.policy.text.answer_tokens import ReadProgram
from synthstats_lightning.policy.text.spelling import PlainSpelling, Spelling
from synthstats_lightning.policy.text.stops import StopStrings, stop_token_ids
from synthstats_lightning.policy.wide_adapter import WideAdapter
from synthstats_lightning.tasks.facts import Facts


class Policy(WideAdapter):
    """A language model that writes programs; build one with `load_policy`.

    Args:
        model: A transformers causal LM, or a `peft.PeftModel` around one.
        tokenizer: Tokenizer that belongs to the model.
        name: What it was loaded from.
        head: Output layer of the model, from hidden states to logits.
        settings: How it was loaded, is asked and is read.
        base: What identifies the base weights, from `base_identity`.
        spelling: How it words requests and programs; by default as they are.

    Raises:
        ValueError: If there is no compiler to compile with.

    Attributes:
        model: The language model, with its adapter if it has one.
        tokenizer: Tokenizer that belongs to the model.
        stop_token_ids: Tokens that end a program.
        stop_token_id: The one that given programs are ended with.
        stop_strings: Strings that end a program, too.
        spelling: How it words requests and programs.
        settings: How the model was loaded, is asked and is read.
        memory: Plans how many programs are decoded at once.
        reference_adapter: The reference's own adapter; `None` where the reference is the base alone.
        frozen: The reference's own weights, where all weights of the policy are trained; else `None`.
        pad_token_id: What padding is filled with.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        head: OutputHead,
        settings: ModelSettings = ModelSettings(),  # noqa: B008 - frozen
        base: Mapping[str, str] | None = None,
        spelling: Spelling | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.settings = settings
        self.spelling = spelling or PlainSpelling(tokenizer)
        self.base = dict(base or {})
        whole = self.language_model
        self.stop_token_ids = stop_token_ids(
            tokenizer, getattr(whole, "generation_config", None), whole.config
        )
        self.stop_token_id = self.stop_token_ids[0]
        self.stop_strings = StopStrings(tokenizer, settings.stop_strings)
        pad = tokenizer.pad_token_id
        self.pad_token_id: int = self.stop_token_id if pad is None else pad
        self.reference_adapter: dict[str, Tensor] | None = None
        self._head = head
        self._forward = compiled_forward() if settings.compile else last_hidden_states
        budget = settings.memory_gib
        self.memory = DecodingMemory(None if budget is None else int(budget * GIB))

    @property
    def head(self) -> OutputHead:
        """From hidden states to logits."""
        return self._head

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    # -- text and tokens

    def encode_prompt(
        self,
        rules: str,
        request: str,
        thinking: bool | None = None,
        data: str = "",
        facts: Facts | None = None,
    ) -> list[int]:
        """Token ids of a prompt, up to where the program starts; see `tasks.Prompt` and `Spelling`.

        Whether a model that can think is asked to goes by the settings where `thinking` is `None`.
        """
        asked = self.settings.thoughts != "none" if thinking is None else thinking
        return self.spelling.prompt(rules, request, asked, data, facts)

    def encode_program(self, source: str, facts: Facts | None = None) -> list[int]:
        """Token ids of a given program, which answers `facts`, the stop token included."""
        return [*self.spelling.program(source, facts), self.stop_token_id]

    def without_stop(self, ids: Sequence[int] | Int[Tensor, " time"]) -> list[int]:
        """Sampled tokens without the stop token behind them, if there is one."""
        tokens = [int(token) for token in ids]
        return tokens[:-1] if tokens and tokens[-1] in self.stop_token_ids else tokens

    def read(self, ids: Sequence[int] | Tensor, facts: Facts | None = None) -> ReadProgram:
        """The program in sampled tokens, which answers `facts`, and which of them it was taken from."""
        return self.spelling.read(self.without_stop(ids), facts, self.stop_strings.strings)

    def decode(self, ids: Sequence[int] | Tensor, facts: Facts | None = None) -> str:
        """Source of the program in sampled tokens: without stop token, thoughts, prose and code fences."""
        return self.read(ids, facts).source

    # -- log-probabilities

    def token_log_probs(
        self,
        prompt_ids: Int[Tensor, "batch prompt"],
        program_ids: Int[Tensor, "batch time"],
        program_mask: Bool[Tensor, "batch time"],
        prompt_mask: Bool[Tensor, "batch prompt"] | None = None,
        share_prompts: bool = True,
        min_new_tokens: int = 0,
        own_mask: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time"]:
        """The log π of each program token, at temperature 1, in float32.

        Args:
            prompt_ids: Token ids of the prompts, padded on the left.
            program_ids: Token ids of the programs, padded on the right.
            program_mask: True on program tokens.
            prompt_mask: True on prompt tokens; default: everything after the leading padding.
            share_prompts: Run each distinct prompt once where at least half of the rows share one. Same
                values, less work; ignored with gradient checkpointing, which rules out a cache.
            min_new_tokens: Tokens before which the policy does not stop, see `SamplingSettings`;
                probabilities are given that.
            own_mask: True on the tokens that the policy wrote; the others are an environment's: they are
                attended to and have no log-probability. Default: all are the policy's.

        Returns:
            In nats; 0 where a mask is False.
        """
        stop = min_new_tokens > 0  # then it is needed for the tokens, too
        counted = program_mask if own_mask is None else program_mask & own_mask
        given = prompt_ids, program_ids, program_mask, counted, prompt_mask
        values = self._passes(*given, share_prompts, stop)
        if not stop:
            return values[0]
        token, _ = forbid_early_stop(values[0], values[1], min_new_tokens)
        return token.masked_fill(~counted, 0.0)

    def token_and_stop_log_probs(
        self,
        prompt_ids: Int[Tensor, "batch prompt"],
        program_ids: Int[Tensor, "batch time"],
        program_mask: Bool[Tensor, "batch time"],
        prompt_mask: Bool[Tensor, "batch prompt"] | None = None,
        share_prompts: bool = True,
        min_new_tokens: int = 0,
        own_mask: Bool[Tensor, "batch time"] | None = None,
    ) -> ProgramLogProbs:
        """The log π of each program token and of stopping in its place, from one pass over the vocabulary.

        Args:
            prompt_ids: Token ids of the prompts, padded on the left.
            program_ids: Token ids of the programs, padded on the right.
            program_mask: True on program tokens.
            prompt_mask: True on prompt tokens; default: everything after the leading padding.
            share_prompts: Whether each distinct prompt is run once for all its programs; same values, less
                work.
            min_new_tokens: Tokens before which the policy does not stop, see `SamplingSettings`;
                probabilities are given that.
            own_mask: True on the tokens that the policy wrote, where an environment wrote the others;
                default: all.
        """
        counted = program_mask if own_mask is None else program_mask & own_mask
        token, stop, hidden = self._passes(
            prompt_ids, program_ids, program_mask, counted, prompt_mask, share_prompts, stop=True
        )
        if min_new_tokens > 0:
            token, stop = forbid_early_stop(token, stop, min_new_tokens)
            token = token.masked_fill(~counted, 0.0)
        return ProgramLogProbs(token, stop, hidden)

    def _passes(
        self,
        prompt_ids: Tensor,
        program_ids: Tensor,
        program_mask: Tensor,
        counted: Tensor,
        prompt_mask: Tensor | None,
        share_prompts: bool,
        stop: bool,
    ) -> list[Tensor]:
        """Token log-probs and, with `stop`, those of stopping and hidden states; by groups of rows."""
        if (here := program_ids.device) != (there := self.device):  # a reference that is elsewhere
            first, ids, mask, own = (t.to(there) for t in (prompt_ids, program_ids, program_mask, counted))
            masked = None if prompt_mask is None else prompt_mask.to(there)
            values = self._passes(first, ids, mask, own, masked, share_prompts, stop)
            return [value.to(here) for value in values]
        if prompt_mask is None:
            prompt_mask = (prompt_ids != self.pad_token_id).cumsum(1) > 0
            prompt_mask = prompt_mask | ~prompt_mask.any(1, keepdim=True)
        checkpointing = self.training and any(
            getattr(module, "gradient_checkpointing", False) for module in self.language_model.modules()
        )
        share = share_prompts and self._cache_grows and not checkpointing
        lengths, time = program_mask.sum(1).cpu(), program_ids.shape[1]
        limit = self.settings.micro_batch_tokens
        if limit is None:
            groups = length_buckets(lengths)
        else:
            groups = micro_batches(prompt_ids, prompt_mask, lengths, limit)
        if len(groups) == 1:
            return self._one_pass(prompt_ids, prompt_mask, program_ids, counted, share, stop)

        def one_group(rows: Tensor) -> list[Tensor]:
            width = int(lengths[rows].max())
            rows = rows.to(program_ids.device)
            ids, mask = program_ids[rows, :width], counted[rows, :width]
            parts = self._one_pass(prompt_ids[rows], prompt_mask[rows], ids, mask, share, stop)
            widths = [(0, 0) * (part.dim() - 2) + (0, time - width) for part in parts]
            return [functional.pad(part, padding) for part, padding in zip(parts, widths, strict=True)]

        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        if limit is None or not trained:
            return joined(one_group, groups, len(program_ids))
        return recomputed(one_group, groups, len(program_ids), trained)

    def _one_pass(
        self,
        prompt_ids: Tensor,
        prompt_mask: Tensor,
        program_ids: Tensor,
        counted: Tensor,
        share: bool,
        stop: bool,
    ) -> list[Tensor]:
        """One forward pass of `_passes`: values of the counted tokens."""
        place = torch.arange(1, counted.shape[1] + 1, device=counted.device)
        hidden = program_hidden_states(
            self.backbone,
            self.text_config,
            prompt_ids,
            prompt_mask,
            program_ids,
            share,
            self._forward,
            lengths=(place * counted).amax(1).clamp(min=1),
        )
        states, targets = hidden[counted], program_ids[counted]
        limits = self.spelling.limits(prompt_ids.masked_fill(~prompt_mask, self.pad_token_id))
        given = None
        if limits is not None:
            before = limits.before(prompt_ids, program_ids).of(counted)
            given = LimitedTokens(limits, counted.nonzero()[:, 0], before)
        if not stop:
            values = token_log_probs(states, targets, self._head, given)
            return [values.new_zeros(program_ids.shape).masked_scatter(counted, values)]
        both = token_and_stop_log_probs(states, targets, self._head, tuple(self.stop_token_ids), given)
        spread = [value.new_zeros(program_ids.shape).masked_scatter(counted, value) for value in both]
        return [*spread, hidden]

    def program_log_probs(
        self,
        prompt_ids: Int[Tensor, "batch prompt"],
        program_ids: Int[Tensor, "batch time"],
        program_mask: Bool[Tensor, "batch time"],
        prompt_mask: Bool[Tensor, "batch prompt"] | None = None,
        share_prompts: bool = True,
        min_new_tokens: int = 0,
        own_mask: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, " batch"]:
        """The log π of each program, the sum of `token_log_probs` over its tokens, in nats, float32."""
        return self.token_log_probs(
            prompt_ids, program_ids, program_mask, prompt_mask, share_prompts, min_new_tokens, own_mask
        ).sum(1)

    @torch.no_grad()
    def prompt_features(
        self, prompt_ids: Int[Tensor, "batch prompt"], prompt_mask: Bool[Tensor, "batch prompt"]
    ) -> Float[Tensor, "batch hidden"]:
        """Mean last hidden state of each prompt by the reference: what a prompt is, whatever is learned."""
        with self.evaluating(), self.reference():
            given = prompt_ids.to(self.device), prompt_mask.to(self.device)
            hidden = run_backbone(self.backbone, *given, None).float().to(prompt_ids.device)
        weight = prompt_mask[..., None].float()
        return (hidden * weight).sum(1) / weight.sum(1)

    @cached_property
    def _cache_grows(self) -> bool:
        from synthstats_lightning.policy.cache import keeps_every_state

        return keeps_every_state(self.text_config)

    @cached_property
    def ends_line(self) -> Bool[Tensor, " vocabulary"]:
        """Which tokens of the vocabulary hold a line break, on CPU."""
        size = self.text_config.vocab_size
        return torch.tensor(encoding.line_breaks(self.tokenizer, size))

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within this context: the adapter off, or as at `refer_to_present`, or the frozen copy."""
        if self.frozen is not None:
            with self.frozen.in_place_of(self):
                yield
            return
        if not self.has_adapter:
            yield
            return
        if self.reference_adapter is not None:
            with adapter_as(self, self.reference_adapter):
                yield
            return
        with self.model.disable_adapter():
            yield

    def refer_to_present(self) -> None:
        """From now on the reference is the policy as it is at present, whatever its adapter learns."""
        self.reference_adapter = copy_adapter(self)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within this context dropout and gradient checkpointing are off; the mode before it comes back."""
        training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(training)

    # -- sampling

    @torch.no_grad()
    def sample(
        self,
        prompts: list[list[int]],
        num_samples: int | Sequence[int],
        settings: SamplingSettings,
        seed: int,
        rank: int = 0,
        step: int = 0,
        prior_prompts: Sequence[Sequence[int]] | None = None,
        backend: SamplingBackend = LOCAL,
        facts: Sequence[Facts | None] | None = None,
    ) -> SampledPrograms:
        """Draw programs for several prompts.

        The random numbers come from a private stream: the same (seed, rank, step) draws the same numbers,
        another rank or step draws others, and PyTorch's global generator is neither read nor changed.

        Args:
            prompts: Token ids, from `encode_prompt`.
            num_samples: Programs per prompt: one number, or a number for each, of which some may be 0.
            settings: Temperature, exploration and limit.
            seed: Seed of the run, from which the random stream is made.
            rank: Number of this process in the run; each rank has a random stream of its own.
            step: Training step, or number of the random stream; each has other random numbers.
            prior_prompts: What the reference policy is given in place of each prompt; by default the same.
            backend: Who writes; log-probabilities are this policy's in any case.
            facts: What the programs of each prompt are read with, where the policy words requests itself.

        Returns:
            As many programs as asked for, those of one prompt together.

        Raises:
            ValueError: If there is no prompt, an empty prompt, no prior's prompt for each, `num_samples` asks
                for nothing, prompt and limit together exceed the positions that the model knows, or thoughts
                are stripped under a `min_new_tokens`.
        """
        if not prompts or not all(prompts):
            raise ValueError("prompts must hold at least one prompt, each of at least one token")
        priors = prompts if prior_prompts is None else prior_prompts
        if len(priors) != len(prompts) or not all(priors):
            raise ValueError(
                f"prior_prompts must hold a prompt of at least one token for each of {len(prompts)} prompts,"
                f" got {len(priors)}"
            )
        given = [num_samples] * len(prompts) if isinstance(num_samples, int) else list(num_samples)
        if len(given) != len(prompts) or min(given) < 0 or max(given) < 1:
            raise ValueError(
                f"num_samples must be at least 1, or a number for each of {len(prompts)} prompts,"
                f" got {num_samples}"
            )
        least = settings.min_new_tokens
        if self.settings.thoughts == "stripped" and least:
            raise ValueError(f"min_new_tokens must be 0 where thoughts are stripped, got {least}")
        counts = torch.tensor(given, device=self.device)
        positions = getattr(self.text_config, "max_position_embeddings", None)
        longest = max(len(prompt) for prompt in [*prompts, *priors])
        if positions is not None and longest + settings.max_new_tokens > positions:
            raise ValueError(
                f"max_new_tokens must be at most {positions - longest}, got {settings.max_new_tokens}: "
                f"the model knows {positions} positions and the longest prompt takes {longest}"
            )
        generator = torch.Generator().manual_seed(stream_seed(seed, rank, step))
        distinct, row_prompt = distinct_prompts(prompts, counts)
        with self.evaluating():
            with backend.drawing(self):
                decoded = backend.decode(self, distinct, row_prompt, settings, generator)
            if self.settings.thoughts == "stripped":
                decoded = stripped(self, decoded, distinct, row_prompt)
            ids, mask = decoded.program_ids, decoded.program_mask
            with self.reference():
                reference = forced_log_probs(self, *distinct_prompts(priors, counts), ids, mask, least)
        rows = zip(ids.tolist(), mask.sum(1).tolist(), strict=True)
        prompt_index = torch.arange(len(prompts), device=self.device).repeat_interleave(counts)
        asked = [None if facts is None else facts[index] for index in prompt_index.tolist()]
        read = [self.read(row[:length], each) for (row, length), each in zip(rows, asked, strict=True)]
        return SampledPrograms(
            prompt_index=prompt_index,
            program_ids=decoded.program_ids,
            program_mask=decoded.program_mask,
            log_prob=decoded.log_prob,
            reference_log_prob=reference,
            stopped=decoded.stopped,
            sources=[program.source for program in read],
            token_log_probs=decoded.token_log_probs,
            proposal_log_prob=decoded.proposal_log_prob,
            spans=[program.span for program in read],
            weights_step=decoded.weights_step,
        )

    def tokens_per_pass(self) -> int:
        """Padded tokens that one teacher-forced pass without gradient sees."""
        with self.evaluating():
            given = self.backbone, self.text_config, self.head.module
            return self.memory.tokens_per_pass(*given)

    # -- saving

    def save_pretrained(self, folder: str | Path) -> None:
        """Write adapter (or, without one, model) and tokenizer in Hugging Face form."""
        # the base's embeddings never change, and PEFT would look for them on the hub
        arguments = {"save_embedding_layers": False} if self.has_adapter else {}
        self.model.save_pretrained(str(folder), **arguments)
        self.tokenizer.save_pretrained(str(folder))
        if self.has_adapter:
            write_base(folder, self.identity())

    def identity(self) -> dict[str, str]:
        """What an adapter belongs to: what base and reference are called, and hashes of what they are."""
        reference = self.reference_adapter
        return {
            "name": self.name,
            "revision": self.settings.revision or "",
            **self.base,
            "tokenizer": encoding.tokenizer_hash(self.tokenizer),
            "chat_template": encoding.chat_template_hash(self.tokenizer),
            "reference": "base" if reference is None else weights_hash(reference),
            "trained": "adapter" if self.frozen is None else "all weights",
        }


Decoder.register(Policy)  # as of Python 3.12, a protocol's check does not see modules of a module
