"""A writer while it learns: the language model with its plan head."""

from __future__ import annotations

from random import Random

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedTokenizerFast

from synthstats_lightning.policy.loading import resolve
from synthstats_lightning.policy.pointers.model import WriterConfig, WriterForCausalLM, register
from synthstats_lightning.policy.pointers.spelling import PointerSpelling
from synthstats_lightning.policy.pointers.vocabulary import SOURCES
from synthstats_lightning.pretraining.model import model_arguments
from synthstats_lightning.pretraining.precision import in_bfloat16
from synthstats_lightning.pretraining.wide.requests import MOST_COLUMNS
from synthstats_lightning.pretraining.writer.examples import Example
from synthstats_lightning.pretraining.writer.plan import PlanClasses, PlanHead, PlanLoss
from synthstats_lightning.pretraining.writer.rows import WriterBatch
from synthstats_lightning.pretraining.writer.settings import WriterSize, WriterTraining
from synthstats_lightning.pretraining.writer.sources import drawn_example
from synthstats_lightning.pretraining.writer.tokenizer import writer_tokenizer

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "max_position_embeddings",
    "slot_width",
)
"""What two writers must share for one to go on from the other, by the names of their configurations."""


class Pupil(nn.Module):
    """Log-probabilities of packed programs, and the loss of their plans.

    Args:
        model: The language model.
        classes: Classes of plans.
    """

    def __init__(self, model: WriterForCausalLM, classes: PlanClasses) -> None:
        super().__init__()
        self.model = model
        self.classes = classes
        self.head = PlanHead(classes, model.config.hidden_size)

    def forward(self, batch: WriterBatch, precision: str) -> tuple[Float[Tensor, " counted"], PlanLoss]:
        """Log-probability of each counted token under its request's mask, and the plans' cross-entropies.

        Args:
            batch: Packed rows of blind and informed programs.
            precision: One of `precision.PRECISIONS`.
        """
        packed = batch.packed
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=in_bfloat16(precision)):
            hidden = self.model.model(
                input_ids=packed.tokens,
                position_ids=packed.positions,
                attention_mask=packed.visible[:, None],
                use_cache=False,
            ).last_hidden_state
            logits = self.model.lm_head(hidden[packed.counted])
        rows = packed.counted.nonzero()[:, 0]
        masked = logits.float().masked_fill(~batch.allowed[rows], -torch.inf)
        targets = packed.targets[packed.counted][:, None]
        log_probs = torch.log_softmax(masked, -1).gather(-1, targets)[:, 0]
        return log_probs, self.head(hidden[batch.starts[:, 0], batch.starts[:, 1]], batch.plans)


def new_tokenizer(size: WriterSize, training: WriterTraining) -> tuple[PreTrainedTokenizerFast, PlanClasses]:
    """The tokenizer and the classes of plans, from examples of the last stage.

    Args:
        size: How many tokens.
        training: Whose seed and grammar are used.
    """
    examples = _first_examples(training)
    return writer_tokenizer(examples, size.vocabulary, training.seed), _classes(examples)


def plan_classes(training: WriterTraining) -> PlanClasses:
    """The classes of plans alone, from the same examples.

    Args:
        training: Whose seed and grammar are used.
    """
    return _classes(_first_examples(training))


def _first_examples(training: WriterTraining) -> list[Example]:
    rng = Random(f"tokenizer:{training.seed}")  # noqa: S311
    stage = training.stages[-1]
    return [drawn_example(rng, stage, 2, most_accepted=0) for _ in range(training.tokenizer_examples)]


def _classes(examples: list[Example]) -> PlanClasses:
    return PlanClasses.of(program.plan for example in examples for program in example.programs)


def new_model(size: WriterSize, tokenizer: PreTrainedTokenizerFast, seed: int) -> WriterForCausalLM:
    """A writer with random weights.

    Args:
        size: Layers and widths of the network.
        tokenizer: The tokenizer that it has been trained with.
        seed: Seeds the initial weights.
    """
    torch.manual_seed(seed)
    config = WriterConfig(
        slot_width=size.slot_width,
        source_ids=tokenizer.convert_tokens_to_ids(list(SOURCES)),
        **model_arguments(size, tokenizer),
        max_covariates=MOST_COLUMNS,
    )
    return WriterForCausalLM(config)


def started(start: str, size: WriterSize, training: WriterTraining) -> tuple[Pupil, PreTrainedTokenizerFast]:
    """A writer that has learned before, with a plan head that has not, and its tokenizer.

    Args:
        start: `"writer"`, the bundled one, or the folder of another.
        size: Layers and widths that the training says.
        training: Whose seed and grammar the classes of plans come from.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it has another size, or is no writer.
    """
    folder = resolve(start)
    register()
    config = AutoConfig.from_pretrained(folder)
    if not isinstance(config, WriterConfig):
        raise ValueError(
            f"start must be a writer, got {start!r}, whose architecture is {config.model_type!r}"
        )
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    wanted = {**model_arguments(size, tokenizer), "slot_width": size.slot_width}
    other = {name: getattr(config, name) for name in SIZES if getattr(config, name) != wanted[name]}
    if other:
        asked = {name: wanted[name] for name in other}
        raise ValueError(
            f"start must be a writer of the training's size ({asked}), got {start!r} with {other}"
        )
    torch.manual_seed(training.seed)
    model = WriterForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Pupil(model, plan_classes(training)), tokenizer


def spelling_for(tokenizer: PreTrainedTokenizerFast, size: WriterSize) -> PointerSpelling:
    """How a writer in training words requests and programs.

    Args:
        tokenizer: The tokenizer that it has been trained with.
        size: Layers and widths of the network.
    """
    return PointerSpelling(tokenizer, size.vocabulary, reads_digests=True)
