"""The policy: a causal language model with an adapter that learns and a base that never changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from synthstats_lightning.policy import encoding
from synthstats_lightning.policy.buckets import length_buckets
from synthstats_lightning.policy.compilation import compiled_forward
from synthstats_lightning.policy.hidden import (
    last_hidden_states,
    pad_left,
    program_hidden_states,
    run_backbone,
)
from synthstats_lightning.policy.log_probs import (
    OutputHead,
    forbid_early_stop,
    token_and_stop_log_probs,
    token_log_probs,
)
from synthstats_lightning.policy.lora import folded
from synthstats_lightning.policy.micro_batches import joined, micro_batches, recomputed
from synthstats_lightning.policy.sampling import (
    SampledPrograms,
    SamplingSettings,
    decode_programs,
    stream_seed,
)
from synthstats_lightning.policy.wide_adapter import WideAdapter
from synthstats_lightning.programs.answers import extract_source

TOKENS_PER_PASS = 16_384
"""Prompt and program tokens that one teacher-forced pass without gradient sees at most."""


class ProgramLogProbs(NamedTuple):
    """What one pass over programs yields, in float32 and, but for `hidden`, in nats.

    Attributes:
        token: log π of each token, 0 where the mask is False.
        stop: log π(stop | prefix) in the place of each token, 0 where the mask is False and −inf where a
            minimum length rules stopping out.
        hidden: Last hidden states that predict each token; masked positions hold anything.
    """

    token: Float[Tensor, "batch time"]
    stop: Float[Tensor, "batch time"]
    hidden: Float[Tensor, "batch time hidden"]


class Policy(WideAdapter):
    """A language model that writes programs; build one with `load_policy`.

    Args:
        model: A transformers causal LM, or a `peft.PeftModel` around one.
        tokenizer: Tokenizer that belongs to the model.
        name: What it was loaded from.
        revision: Revision of the hub repository, if one was asked for.
        head: Output layer of the model, from hidden states to logits.
        micro_batch_tokens: Padded tokens that one forward pass of the loss sees at most; `None` passes the
            batch at once.
        compiled: Whether log-probabilities of given programs come from a compiled forward pass.

    Raises:
        ValueError: If there is no compiler to compile with.

    Attributes:
        model: The language model, with its adapter if it has one.
        tokenizer: Tokenizer that belongs to the model.
        stop_token_ids: Tokens that end a program.
        stop_token_id: The one that given programs are ended with.
        pad_token_id: What padding is filled with.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        head: OutputHead,
        revision: str | None = None,
        micro_batch_tokens: int | None = None,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.revision = revision
        self.stop_token_ids = encoding.stop_token_ids(
            tokenizer, getattr(self.language_model, "generation_config", None)
        )
        self.stop_token_id = self.stop_token_ids[0]
        pad = tokenizer.pad_token_id
        self.pad_token_id: int = self.stop_token_id if pad is None else pad
        self._head = head
        self.micro_batch_tokens = micro_batch_tokens
        self._forward = compiled_forward() if compiled else last_hidden_states

    @property
    def has_adapter(self) -> bool:
        """Whether there is an adapter to train."""
        return hasattr(self.model, "peft_config")

    @property
    def head(self) -> OutputHead:
        """From hidden states to logits."""
        return self._head

    @property
    def language_model(self) -> Any:
        """The transformers model, its layers adapted in place if there is an adapter."""
        return self.model.get_base_model() if self.has_adapter else self.model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    # -- text and tokens

    def encode_prompt(self, rules: str, request: str, thinking: bool = False) -> list[int]:
        """Token ids of a prompt, up to where the program starts; see `encoding.encode_prompt`."""
        return encoding.encode_prompt(self.tokenizer, rules, request, thinking)

    def encode_program(self, source: str) -> list[int]:
        """Token ids of a given program, the stop token included."""
        return [*self.tokenizer(source, add_special_tokens=False).input_ids, self.stop_token_id]

    def decode(self, ids: list[int] | Int[Tensor, " time"]) -> str:
        """Program source of sampled tokens: without the stop token, thoughts and code fences.

        Other special tokens stay visible, so that a program with one in its middle is not taken for a program
        without it.
        """
        tokens = [int(token) for token in ids]
        if tokens and tokens[-1] in self.stop_token_ids:
            tokens.pop()
        text = self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return extract_source(text)

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
        if prompt_mask is None:
            prompt_mask = (prompt_ids != self.pad_token_id).cumsum(1) > 0
            prompt_mask = prompt_mask | ~prompt_mask.any(1, keepdim=True)
        checkpointing = self.training and any(
            getattr(module, "gradient_checkpointing", False) for module in self.language_model.modules()
        )
        share = share_prompts and not checkpointing
        lengths, time = program_mask.sum(1).cpu(), program_ids.shape[1]
        limit = self.micro_batch_tokens
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
        hidden = program_hidden_states(
            self.language_model.base_model,
            self.language_model.config,
            prompt_ids,
            prompt_mask,
            program_ids,
            share,
            self._forward,
        )
        states, targets = hidden[counted], program_ids[counted]
        if not stop:
            values = token_log_probs(states, targets, self._head)
            return [values.new_zeros(program_ids.shape).masked_scatter(counted, values)]
        both = token_and_stop_log_probs(states, targets, self._head, tuple(self.stop_token_ids))
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
        """Mean last hidden state of each prompt, the adapter off: what a prompt is, whatever is learned."""
        with self.evaluating(), self.reference():
            hidden = run_backbone(self.language_model.base_model, prompt_ids, prompt_mask, None).float()
        weight = prompt_mask[..., None].float()
        return (hidden * weight).sum(1) / weight.sum(1)

    @cached_property
    def ends_line(self) -> Bool[Tensor, " vocabulary"]:
        """Which tokens of the vocabulary hold a line break, on CPU."""
        size = self.language_model.config.vocab_size
        return torch.tensor(encoding.line_breaks(self.tokenizer, size))

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Within this context the adapter is off: the policy is its own reference."""
        if not self.has_adapter:
            yield
            return
        with self.model.disable_adapter():
            yield

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

        Returns:
            As many programs as asked for, those of one prompt together.

        Raises:
            ValueError: If there is no prompt, an empty prompt, `num_samples` asks for nothing, or prompt and
                limit together exceed the positions that the model knows.
        """
        if not prompts or not all(prompts):
            raise ValueError("prompts must hold at least one prompt, each of at least one token")
        given = [num_samples] * len(prompts) if isinstance(num_samples, int) else list(num_samples)
        if len(given) != len(prompts) or min(given) < 0 or max(given) < 1:
            raise ValueError(
                f"num_samples must be at least 1, or a number for each of {len(prompts)} prompts,"
                f" got {num_samples}"
            )
        counts = torch.tensor(given, device=self.device)
        positions = getattr(self.language_model.config, "max_position_embeddings", None)
        longest = max(len(prompt) for prompt in prompts)
        if positions is not None and longest + settings.max_new_tokens > positions:
            raise ValueError(
                f"max_new_tokens must be at most {positions - longest}, got {settings.max_new_tokens}: "
                f"the model knows {positions} positions and the longest prompt takes {longest}"
            )
        generator = torch.Generator().manual_seed(stream_seed(seed, rank, step))
        wanted = [tuple(prompt) for prompt, count in zip(prompts, given, strict=True) if count]
        distinct = list(dict.fromkeys(wanted))
        prompt_of = torch.tensor([distinct.index(prompt) for prompt in wanted], device=self.device)
        row_prompt = prompt_of.repeat_interleave(counts[counts > 0])
        with self.evaluating():
            with folded(self.model):
                decoded = decode_programs(
                    self.language_model.base_model,
                    self.language_model.config,
                    self._head,
                    [list(prompt) for prompt in distinct],
                    row_prompt,
                    settings,
                    self.stop_token_ids,
                    self.pad_token_id,
                    generator,
                )
            reference = self._reference_log_probs(
                distinct, row_prompt, decoded.program_ids, decoded.program_mask, settings.min_new_tokens
            )
        ids, lengths = decoded.program_ids.tolist(), decoded.program_mask.sum(1).tolist()
        return SampledPrograms(
            prompt_index=torch.arange(len(prompts), device=self.device).repeat_interleave(counts),
            program_ids=decoded.program_ids,
            program_mask=decoded.program_mask,
            log_prob=decoded.log_prob,
            reference_log_prob=reference,
            stopped=decoded.stopped,
            sources=[self.decode(row[:length]) for row, length in zip(ids, lengths, strict=True)],
            token_log_probs=decoded.token_log_probs,
        )

    def _reference_log_probs(
        self,
        prompts: list[tuple[int, ...]],
        row_prompt: Tensor,
        program_ids: Tensor,
        program_mask: Tensor,
        min_new_tokens: int,
    ) -> Tensor:
        prompt_ids, prompt_mask = pad_left(
            [list(prompt) for prompt in prompts], self.pad_token_id, self.device
        )
        rows = max(1, TOKENS_PER_PASS // (prompt_ids.shape[1] + program_ids.shape[1]))
        with self.reference():
            pieces = [
                self.program_log_probs(
                    prompt_ids[index], ids, mask, prompt_mask[index], min_new_tokens=min_new_tokens
                )
                for index, ids, mask in zip(
                    torch.split(row_prompt, rows),
                    torch.split(program_ids, rows),
                    torch.split(program_mask, rows),
                    strict=True,
                )
            ]
        return torch.cat(pieces)

    # -- saving

    def adapter_state_dict(self) -> dict[str, Tensor]:
        """Trainable parameters by their names in `named_parameters`, detached."""
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}

    def load_adapter_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `adapter_state_dict`.

        Raises:
            ValueError: If names are missing or unknown, or a shape differs.
        """
        own = {name: p for name, p in self.named_parameters() if p.requires_grad}
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            raise ValueError(f"adapter state does not fit: missing {missing[:3]}, unknown {unknown[:3]}")
        wrong = [name for name, p in own.items() if p.shape != state[name].shape]
        if wrong:
            raise ValueError(
                f"adapter state does not fit: other shapes in {wrong[:3]}; was the rank changed?"
            )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(state[name])

    def save_pretrained(self, folder: str | Path) -> None:
        """Write adapter (or, without one, model) and tokenizer in Hugging Face form."""
        # the base's embeddings never change, and PEFT would look for them on the hub
        arguments = {"save_embedding_layers": False} if self.has_adapter else {}
        self.model.save_pretrained(str(folder), **arguments)
        self.tokenizer.save_pretrained(str(folder))

    def identity(self) -> dict[str, str]:
        """What an adapter belongs to: `name`, `revision`, hashes of `tokenizer` and `chat_template`."""
        return {
            "name": self.name,
            "revision": self.revision or "",
            "tokenizer": encoding.tokenizer_hash(self.tokenizer),
            "chat_template": encoding.chat_template_hash(self.tokenizer),
        }
