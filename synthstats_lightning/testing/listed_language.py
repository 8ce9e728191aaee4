"""A language model whose every answer can be listed, and warm starts on it.

Imports transformers and tokenizers inside functions only.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.objectives import RelativeTrajectoryBalance
from synthstats_lightning.policy import LoraSettings, Policy, Reference, SamplingSettings, TrainerMode
from synthstats_lightning.replay import Trajectory, TrajectoryBatch, collate

STOP = 0
WORDS = ("<stop>", "A", "B", "U", "x")
"""The vocabulary; U stands before what a user says."""
LIMIT = 3
"""Tokens of an answer at most: those that do not stop by then are cut, and are answers too."""
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}U {{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] }}<stop>{% endif %}{% endfor %}"
)
REQUEST = "x"
LORA = LoraSettings(rank=8, alpha=16.0)


def save_listed_model(folder: Path, head_dim: int = 8, positions: int = 32) -> None:
    """Writes a random model of one layer and its tokenizer.

    Args:
        folder: Where to; it must exist.
        head_dim: Width of an attention head; inference engines have kernels for 32 and more.
        positions: Longest text that the model reads, in tokens.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    tokenizer = Tokenizer(models.WordLevel({word: token for token, word in enumerate(WORDS)}, unk_token="x"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<stop>", eos_token="<stop>")  # noqa: S106
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    config = Qwen3Config(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        max_position_embeddings=positions,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=STOP,
        pad_token_id=STOP,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen3ForCausalLM(config).save_pretrained(folder)


def answers() -> list[tuple[int, ...]]:
    """Every answer in tokens, those that end first; their probabilities sum to 1."""
    words = range(1, len(WORDS))
    ended = [
        (*words_before, STOP)
        for length in range(LIMIT)
        for words_before in itertools.product(words, repeat=length)
    ]
    return [*ended, *itertools.product(words, repeat=LIMIT)]


def log_scores() -> Float[Tensor, " answers"]:
    """What each answer is worth, in nats: fixed random numbers."""
    generator = torch.Generator().manual_seed(2)
    return 1.5 * torch.randn(len(answers()), generator=generator)


@torch.no_grad()
def log_probs(policy: Policy, reference: bool = False) -> Float[Tensor, " answers"]:
    """Log-probability of every answer, by one plain pass of the language model for each of its prefixes.

    Args:
        policy: A policy of such a model.
        reference: Whether that of its reference.
    """
    prompt = policy.encode_prompt("", REQUEST)

    @functools.cache
    def following(prefix: tuple[int, ...]) -> Tensor:
        logits: Tensor = policy.model(input_ids=torch.tensor([[*prompt, *prefix]])).logits[0, -1]
        return logits.float().log_softmax(-1)

    def listed() -> Tensor:
        each = [
            sum(following(answer[:place])[token] for place, token in enumerate(answer))
            for answer in answers()
        ]
        return torch.stack(each)  # type: ignore[arg-type]

    with policy.evaluating():
        if not reference:
            return listed()
        with policy.reference():
            return listed()


class Reached(NamedTuple):
    """Where training has come to.

    Attributes:
        total_variation: Distance from the target: the reference's probability times the score, normalised.
        target: The probability that the target gives each answer.
    """

    total_variation: float
    target: Float[Tensor, " answers"]


def train_from(
    model: Path,
    adapter: Path | None,
    reference: Reference,
    steps: int = 400,
    rate: float = 0.02,
    trainer_mode: TrainerMode = "lora",
) -> Reached:
    """Trains a policy to the posterior under its reference, on all answers at once.

    Args:
        model: What `save_listed_model` wrote.
        adapter: Folder of the adapter that training starts from; `None` starts a new one, if any.
        reference: Which policy the prior is.
        steps: How many training steps are taken.
        rate: Learning rate at the start; falls to nothing.
        trainer_mode: What is trained.
    """
    module = GFlowNetModule(
        str(model),
        ["listed"],
        LORA,
        objective=RelativeTrajectoryBalance(),
        optimizer=functools.partial(torch.optim.Adam, lr=rate, betas=(0.9, 0.95)),
        log_z_lr=0.1,
        sampling=SamplingSettings(max_new_tokens=LIMIT),
        seed=1,
        adapter=None if adapter is None else str(adapter),
        reference=reference,
        trainer_mode=trainer_mode,
    )
    module.configure_model()
    batch = _every_answer(module)
    optimizer = module.configure_optimizers()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        module.objective_loss(batch).loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    policy = module.loaded_policy
    target = (log_probs(policy, reference=True) + log_scores()).softmax(0)
    return Reached(0.5 * float((log_probs(policy).exp() - target).abs().sum()), target)


def _every_answer(module: GFlowNetModule) -> TrajectoryBatch:
    """As a replay buffer would deal them: with the log-probability that the reference gives each."""
    policy = module.loaded_policy
    rows = [
        Trajectory(0, answer, score, 0.0)
        for answer, score in zip(answers(), log_scores().tolist(), strict=True)
    ]
    batch = collate(rows, {0: tuple(policy.encode_prompt("", REQUEST))})
    with torch.no_grad(), policy.evaluating(), policy.reference():
        batch.reference_log_prob = policy.program_log_probs(
            batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask
        )
    return batch
