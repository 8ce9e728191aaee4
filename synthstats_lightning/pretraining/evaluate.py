"""Measuring a tiny policy on data sets that it has not seen."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from synthstats_lightning.pretraining.checks import problem
from synthstats_lightning.pretraining.datasets import made_up_data
from synthstats_lightning.pretraining.tokenizer import END, PROGRAM, TASK


class Evaluation(NamedTuple):
    """Static validity of sampled programs.

    Attributes:
        programs: Number of programs that were sampled.
        valid: Fraction without a problem.
        problems: How often each problem occurred, most frequent first.
    """

    programs: int
    valid: float
    problems: list[tuple[str, int]]


@torch.no_grad()
def sample(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, request: str, count: int, limit: int = 200
) -> list[str]:
    """Samples programs for a request at temperature 1; those that reach `limit` tokens are cut there."""
    prompt = torch.tensor([tokenizer(TASK + request + PROGRAM)["input_ids"]])
    tokens = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        num_return_sequences=count,
        max_new_tokens=limit,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.pad_token_id,
    )
    return [tokenizer.decode(row[prompt.shape[1] :], skip_special_tokens=True) for row in tokens]


def evaluate(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int,
    data_sets: int = 50,
    programs: int = 10,
) -> Evaluation:
    """Samples programs for made-up data sets and checks their text.

    Args:
        model: The policy that is evaluated.
        tokenizer: The tokenizer of the policy.
        seed: Of the data sets and the samples; another one than training's gives unseen names.
        data_sets: Number of data sets.
        programs: Programs per data set.
    """
    rng = Random(seed)  # noqa: S311
    torch.manual_seed(seed)
    problems: Counter[str] = Counter()
    for _ in range(data_sets):
        data = made_up_data(rng)
        covariates = [column.name for column in data.covariates]
        for source in sample(model, tokenizer, data.request, programs):
            reason = problem(source, covariates, data.response.name)
            if reason is not None:
                problems[reason.split(" ")[0] if reason.startswith("syntax") else reason] += 1
    total = data_sets * programs
    return Evaluation(total, 1.0 - problems.total() / total, problems.most_common())
