"""Made-up episodes say what the environment would; only the policy's own actions are imitated."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.pretraining.checks import problem
from synthstats_lightning.pretraining.episodes.__main__ import starting_point
from synthstats_lightning.pretraining.episodes.batches import (
    PHRASES,
    encode_episodes,
    episode_batches,
    pack_episodes,
)
from synthstats_lightning.pretraining.episodes.made_up import made_up_episode
from synthstats_lightning.pretraining.prior_draws import draw_response, plausible
from synthstats_lightning.pretraining.tokenizer import END, PROGRAM
from synthstats_lightning.tasks.experiments.actions import Observe, Submit, parse_action
from synthstats_lightning.tasks.experiments.messages import EXPERIMENTS_LEFT, TURNS_LEFT


@pytest.fixture(scope="module")
def start():
    return starting_point("tiny", 768, seed=1)


@pytest.fixture(scope="module")
def episodes():
    rng = Random(3)
    return [made_up_episode(rng) for _ in range(60)]


def test_episodes_follow_the_protocol(episodes):
    for episode in episodes:
        budget, turns = episode.request.rsplit("experiments: ", 1)[1].split(", turns: ")
        actions = [parse_action(turn.text) for turn in episode.turns if turn.imitated]
        observed, last = actions[:-1], actions[-1]
        assert all(isinstance(action, Observe) for action in observed)
        assert isinstance(last, Submit)
        assert last.source == episode.program
        assert len(observed) <= int(budget)
        assert len(episode.turns) <= int(turns)
        covariates = [column.name for column in episode.data.covariates]
        assert problem(last.source, covariates, episode.data.response.name) is None
        left = [
            int(t.answer.rsplit(EXPERIMENTS_LEFT, 1)[1])
            for t in episode.turns
            if EXPERIMENTS_LEFT in t.answer
        ]
        assert left == [int(budget) - place - 1 for place in range(len(observed))]
        for place, turn in enumerate(episode.turns):
            if not turn.imitated:
                assert turn.answer.endswith(f"{TURNS_LEFT}{int(turns) - place - 1}")


def test_mistakes_happen_and_are_not_imitated(start):
    _, tokenizer = start
    rng = Random(5)
    episode = next(
        e for e in (made_up_episode(rng) for _ in range(300)) if not all(t.imitated for t in e.turns)
    )
    (row,) = encode_episodes(tokenizer, [episode])
    texts = "".join(
        tokenizer.decode([token]) for token, counted in zip(row.ids, row.counted, strict=True) if counted
    )
    assert texts == "".join(turn.text + END for turn in episode.turns if turn.imitated)


def test_batches_imitate_turns_and_their_stop_tokens(start, episodes):
    _, tokenizer = start
    rows = encode_episodes(tokenizer, episodes[:4])
    batch = pack_episodes(rows, 0)
    assert batch.counted.sum().item() == sum(sum(row.counted) for row in rows)
    for index, row in enumerate(rows):
        predicted = batch.targets[index][batch.counted[index]].tolist()
        assert predicted == [token for token, counted in zip(row.ids, row.counted, strict=True) if counted]
    drawn = next(episode_batches(Random(1), tokenizer, batch_size=4, max_length=400, pool=2))
    assert drawn.tokens.shape[1] <= 400


def test_phrases_are_tokens_and_begin_as_what_they_were(start):
    model, tokenizer = start
    assert len(tokenizer) == model.get_input_embeddings().weight.shape[0] == 1024 + len(PHRASES)
    for phrase in PHRASES:
        assert len(tokenizer(phrase, add_special_tokens=False).input_ids) == 1
    assert tokenizer("<|end|>", add_special_tokens=False).input_ids == [3]
    assert tokenizer.convert_tokens_to_ids(PROGRAM) == 2


PROGRAMS = {
    "normal": (
        'a = pm.Normal("a", 2, 1)',
        'pm.Normal("y", a*x, 0.5, observed=y)',
        stats.norm(4, np.hypot(2, 0.5)),
    ),
    "gamma": ('a = pm.Gamma("a", 2, 4)', 'pm.Normal("y", a, 1e-9, observed=y)', stats.gamma(2, scale=0.25)),
    "inverse": (
        'a = pm.InverseGamma("a", 3, 2)',
        'pm.Normal("y", a, 1e-9, observed=y)',
        stats.invgamma(3, scale=2),
    ),
    "exponential": (
        'a = pm.Exponential("a", 4)',
        'pm.Normal("y", a, 1e-9, observed=y)',
        stats.expon(scale=0.25),
    ),
    "student": ("", 'pm.StudentT("y", 4, x, sigma=3, observed=y)', stats.t(4, 2, 3)),
    "logistic": ("", 'pm.Logistic("y", x, 3, observed=y)', stats.logistic(2, 3)),
    "lognormal": ("", 'pm.LogNormal("y", x, 0.5, observed=y)', stats.lognorm(0.5, scale=np.exp(2))),
    "response": ("", 'pm.Gamma("y", 3, 3/pt.exp(x), observed=y)', stats.gamma(3, scale=np.exp(2) / 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_have_their_distribution(name):
    prior, likelihood, truth = PROGRAMS[name]
    source = "\n    ".join(["with pm.Model() as model:", *([prior] if prior else []), likelihood])
    rows, draws = (1, 200) if prior else (400, 1)
    x = {"x": np.full(rows, 2.0)}
    drawn = np.concatenate([draw_response(source, x, "y", seed) for seed in range(draws)])
    assert stats.kstest(drawn, truth.cdf).pvalue > 1e-3


def test_counts_have_their_moments():
    x = {"x": np.full(4000, 2.0)}
    head = "with pm.Model() as model:\n    "
    negative = draw_response(head + 'pm.NegativeBinomial("y", 3*x, 2, observed=y)', x, "y", 0)
    assert negative.mean() == pytest.approx(6, abs=0.4)
    assert negative.var() == pytest.approx(6 + 36 / 2, rel=0.15)
    binary = draw_response(head + 'pm.Bernoulli("y", logit_p=x - 1, observed=y)', x, "y", 0)
    assert binary.mean() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.03)
    binomial = draw_response(head + 'pm.Binomial("y", 20, pt.sigmoid(x - 2), observed=y)', x, "y", 0)
    assert binomial.mean() == pytest.approx(10, abs=0.2)


def test_impossible_and_endless_values_are_no_data():
    x = {"x": np.array([2.0])}
    head = "with pm.Model() as model:\n    "
    assert draw_response(head + 'pm.Normal("y", pt.exp(1000*x), 1, observed=y)', x, "y", 0) is None
    assert draw_response(head + 'pm.Poisson("y", -x, observed=y)', x, "y", 0) is None
    assert plausible(np.array([0.0, 3.0]), 1.0, 2.0)
    assert not plausible(np.array([3.1]), 1.0, 2.0)
