"""Terms of a reward: weights in nats, kept apart from the score."""

import math

import numpy as np
import pytest

from synthstats_lightning import Likelihood, Reward, RewardTerm
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.tempered import tempered


class FewParameters(RewardTerm):
    """A user's own term."""

    def value(self, program):
        return -float(program.score.num_parameters)


class Mark(RewardTerm):
    def value(self, program):
        return 0.5


SCORES = [
    Score(evidence=3.0, terms={"Mark": 0.5, "FewParameters": -2.0}),
    Score(evidence=-1.0, terms={"Mark": 1.0}),
    Score.failed(FailureCategory.SYNTAX, ""),
]


def test_terms_add_nats_to_the_tempered_score_and_a_missing_value_counts_0():
    terms = [Mark(4.0), FewParameters(0.25)]
    reward = Reward(beta=0.5, prior_weight=0.0, terms=terms)
    expected = [0.5 * 2.0 + 4.0 * 0.5 - 0.25 * 2.0, 0.5 * -2.0 + 4.0, reward.log_reward_failure]
    assert reward.log_rewards(SCORES, 1.0) == pytest.approx(expected)
    parts = np.array([reward.parts(score, 1.0) for score in SCORES])
    assert parts.shape == (3, 7)
    assert parts[:, 5:].tolist() == [[0.5, -2.0], [1.0, 0.0], [0.0, 0.0]]
    # what is stored is tempered anew, terms and all
    assert tempered(reward, 1.0, 0.0).blend(parts) == pytest.approx(
        [2.0 + 1.5, -2.0 + 4.0, reward.log_reward_failure]
    )
    assert Reward(prior_weight=0.0).log_rewards([], 1.0).shape == (0,)
    assert reward.log_rewards([], 1.0).shape == (0,)


def test_the_likelihood_is_a_term_like_others():
    only = Reward(prior_weight=0.0, terms=[Likelihood(0.0), Mark(2.0)])
    assert only.log_rewards(SCORES, 1.0)[:2] == pytest.approx([1.0, 2.0])
    assert Reward(prior_weight=0.0, terms=[Likelihood()]).log_rewards(SCORES, 1.0)[0] == 2.0


def test_shares_sum_to_one_and_leave_the_rest_to_the_likelihood():
    published = Reward(prior_weight=0.0, terms=[Mark(0.3)], term_weights="shares")
    assert published.likelihood_weight == pytest.approx(0.7)
    given = Reward(prior_weight=0.0, terms=[Likelihood(0.7), Mark(0.3)], term_weights="shares")
    for reward in (published, given):
        assert reward.log_rewards(SCORES, 1.0)[0] == pytest.approx(0.7 * 2.0 + 0.3 * 0.5)
    for wrong in ([Likelihood(0.8), Mark(0.3)], [Mark(1.3)], [Likelihood(0.5), Mark(0.3)], [Mark(-0.1)]):
        with pytest.raises(ValueError, match="weights of terms must be 0 or more and sum to 1"):
            Reward(terms=wrong, term_weights="shares")


def test_only_terms_that_count_make_the_target_no_posterior():
    assert Reward().no_posterior() == ""
    assert Reward(terms=[Mark(0.0)]).no_posterior() == ""
    for terms in ([Mark(2.0)], [Likelihood(0.7)]):
        assert "no posterior over programs" in Reward(terms=terms).no_posterior()


def test_names_are_different_and_a_weight_below_0_is_for_own_terms():
    with pytest.raises(ValueError, match="terms must have different names, got Mark more than once"):
        Reward(terms=[Mark(), Mark()])
    assert Reward(terms=[Mark(), Mark(name="Other")]).likelihood_weight == 1
    with pytest.raises(ValueError, match="weight of Likelihood must be 0 or more, got -1"):
        Likelihood(-1.0)


def test_scores_keep_the_values_of_terms_on_disk():
    assert Score.from_dict(SCORES[0].to_dict()) == SCORES[0]
    assert "terms" not in Score(evidence=1.0).to_dict()
    assert math.isclose(Score.from_dict(SCORES[1].to_dict()).terms["Mark"], 1.0)
