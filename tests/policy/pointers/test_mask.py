"""Pointers that a request lacks have probability zero, in every way to compute a probability."""

from __future__ import annotations

import re

import pytest
import torch

from synthstats_lightning.policy import SamplingSettings, resample_suffixes
from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.policy.pointers.order import HEADER
from synthstats_lightning.policy.pointers.vocabulary import DATA, POINTERS
from synthstats_lightning.policy.text.adjacent import clash
from synthstats_lightning.tasks import task_prompt
from synthstats_lightning.tasks.proposal import looking
from tests.policy.pointers.conftest import table_task

LIMIT = 24


@pytest.fixture(scope="module")
def prompts():
    return [task_prompt(looking(table_task(names), "digest")) for names in (("a", "b"), ("x", "y1", "z"))]


def encoded(writer, prompts):
    facts = [prompt.facts for prompt in prompts]
    priors = [writer.encode_prompt(*prompt.prior) for prompt in prompts]
    return [writer.encode_prompt(*prompt) for prompt in prompts], priors, facts


def closes(before, text):
    """Whether a text behind another closes what is open, in order, before a line ends."""
    found, stack, quote = True, [], ""
    for place, mark in enumerate(before + text):
        wrong = False
        if mark == "\n":
            wrong = bool(stack or quote)
        elif mark in "\"'" and quote in ("", mark):
            quote = "" if quote else mark
        elif mark in "([{" and not quote:
            stack.append({"(": ")", "[": "]", "{": "}"}[mark])
        elif mark in ")]}" and not quote:
            wrong = not stack or stack.pop() != mark
        found &= not wrong or place < len(before)
    return found


def unfit(last, before, token, behind):
    """Whether a token cannot follow another, by their names and texts; what is neither has none."""
    if last.startswith("<|") or token.startswith("<|"):
        return False
    names = (last in POINTERS, token in POINTERS)
    touching = (names[0] or re.search(r"\w\Z", before)) and (names[1] or re.match(r"\w", behind))
    return clash(before, behind) or (any(names) and bool(touching))


@torch.no_grad()
def by_hand(writer, prompt, ids, least=0):
    """Log-probabilities of tokens from plain passes and a mask that is made from the prompt's text.

    All columns of these requests have values on both sides of zero.
    """
    writer.eval()
    tokens = writer.tokenizer.convert_ids_to_tokens(list(range(len(writer.tokenizer))))
    there = set(writer.tokenizer.convert_ids_to_tokens([i for i in prompt if i < 2**62]))
    allowed = torch.tensor(
        [not token.startswith("<|") and (token not in POINTERS or token in there) for token in tokens]
    )
    allowed[writer.stop_token_id] = True
    special = set(writer.tokenizer.all_special_ids)
    texts = ["" if token in special else writer.tokenizer.decode([token]) for token in range(len(tokens))]
    texts[writer.stop_token_id] = "\n"
    logits = writer.model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float()
    logits = logits[:, : len(tokens)].masked_fill(~allowed, -torch.inf)
    own = torch.tensor([token.startswith("<c") and not token.endswith((".n>", ".i>")) for token in tokens])
    columns = own & torch.tensor([token in there for token in tokens])
    for place in range(len(ids)):
        before = writer.tokenizer.decode([i for i in ids[:place] if i < len(tokens)])
        is_mean = before.endswith("mu=") and tokens[ids[place - 1]] == "="
        if before.endswith(("/", "log(", "[", "shape=")) or is_mean:
            logits[place, columns] -= 15.0
        if re.search(r"sqrt\(<c\d+(.z)?>$", before):
            closing = [token for token, text in enumerate(tokens) if text.startswith(")")]
            logits[place, closing] -= 15.0
        wrong = [token for token, text in enumerate(texts) if not closes(before, text)]
        logits[place, wrong] -= 15.0
        if place:
            last = tokens[ids[place - 1]], texts[ids[place - 1]]
            behind = [
                number for number, each in enumerate(zip(tokens, texts, strict=True)) if unfit(*last, *each)
            ]
            logits[place, behind] -= 15.0
        begins = torch.tensor(
            [bool(text.strip()) and HEADER.startswith(text[: len(HEADER)]) for text in texts]
        )
        logits[place, torch.tensor([text.startswith(HEADER) for text in texts]) if place else ~begins] -= 15.0
    logits[:least, list(writer.stop_token_ids)] = -torch.inf
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0]


@pytest.mark.parametrize(
    "settings", [SamplingSettings(LIMIT), SamplingSettings(LIMIT, 1.3, 0.3, min_new_tokens=3)]
)
def test_sampling_and_teacher_forcing_are_under_the_mask_of_the_request(writer, prompts, settings):
    given, priors, facts = encoded(writer, prompts)
    drawn = writer.sample(given, 20, settings, seed=4, prior_prompts=priors, facts=facts)
    least = settings.min_new_tokens
    assert (
        not torch.isin(
            drawn.program_ids[drawn.program_mask],
            torch.tensor(writer.tokenizer.convert_tokens_to_ids(["<c3>", DATA, "<g1>", "<c1.n>"])),
        )
        .logical_and(drawn.prompt_index[:, None].expand_as(drawn.program_ids)[drawn.program_mask] == 0)
        .any()
    )
    prompt_ids, prompt_mask = pad_left([given[index] for index in drawn.prompt_index.tolist()], 0)
    batch = prompt_ids, drawn.program_ids, drawn.program_mask, prompt_mask
    with torch.no_grad(), writer.evaluating():
        forced = writer.token_log_probs(*batch, min_new_tokens=least)
        both = writer.token_and_stop_log_probs(*batch, min_new_tokens=least)
        alone = writer.token_log_probs(*batch, share_prompts=False, min_new_tokens=least)
    assert torch.isfinite(forced).all()
    for other in (drawn.token_log_probs, both.token, alone):
        assert torch.allclose(forced, other, atol=1e-5)
    for row in range(0, 40, 13):
        ids = drawn.program_ids[row][drawn.program_mask[row]].tolist()
        index = int(drawn.prompt_index[row])
        assert torch.allclose(by_hand(writer, given[index], ids, least), forced[row, : len(ids)], atol=1e-5)
        with writer.reference():
            prior = by_hand(writer, priors[index], ids, least).sum()
        assert float(drawn.reference_log_prob[row]) == pytest.approx(float(prior), abs=1e-4)


def test_stopping_has_its_probability_under_the_mask(writer, prompts):
    given, _, facts = encoded(writer, prompts)
    ids = writer.encode_program("with pm.Model() as model:\n    s = a + 1", facts[0])
    assert any(token in writer.spelling._pointers for token in ids)
    program = torch.tensor([ids])
    with torch.no_grad(), writer.evaluating():
        found = writer.token_and_stop_log_probs(torch.tensor([given[0]]), program, program >= 0)
    for place in range(0, len(ids), 5):
        stopped = [*ids[:place], writer.stop_token_id]
        expected = by_hand(writer, given[0], stopped)[-1]
        assert float(found.stop[0, place]) == pytest.approx(float(expected), abs=1e-4)


def test_requests_of_the_same_tokens_keep_their_own_names(writer):
    prompts = [task_prompt(table_task(names)) for names in (("a", "b"), ("первый", "second"))]
    given, priors, facts = encoded(writer, prompts)
    assert given[0] == given[1]
    prefix = writer.encode_program("with pm.Model() as model:\n    m = a*b + ", facts[0])[:-1]
    settings = SamplingSettings(len(prefix) + 4)
    drawn = resample_suffixes(
        writer, given, [0, 1, 1], [prefix] * 3, settings, seed=1, prior_prompts=priors, facts=facts
    )
    assert ["a*b + " in source for source in drawn.sources] == [True, False, False]
    assert all("первый*second + " in source for source in drawn.sources[1:])
    once = writer.sample(given, 3, settings, seed=1, facts=facts)
    for row, source in enumerate(once.sources):
        ids = once.program_ids[row][once.program_mask[row]]
        assert source == writer.decode(ids, facts[int(once.prompt_index[row])])
