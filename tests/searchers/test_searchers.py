"""Searches of a language whose every program is known, against sums over all of it."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

from synthstats_lightning.pool.program_budget import ProgramBudget
from synthstats_lightning.searchers import Evolution, ModelSMC, SampleAndWeight
from synthstats_lightning.searchers.loop import OVER, REPEATS, SPENT, search
from tests.searchers.listed import TASK, ListedLanguage


def searched(searcher, budget, seed=0, spread=1.0, **options):
    language = ListedLanguage(spread=spread)
    language.generator = np.random.default_rng(seed)
    searcher.start(language, TASK, seed)
    taken, limit = [], ProgramBudget(budget)
    found = search(searcher, language.score, limit, lambda *each: taken.append(each), **options)
    return language, found, taken


def exact_log_z(language):
    return float(np.logaddexp.reduce(language.log_target))


def test_sampling_and_weighting_comes_to_the_sum_over_all_programs():
    searcher = SampleAndWeight(programs_per_round=1000)
    language, found, taken = searched(searcher, None, most_proposals=8_000)
    estimate = searcher.estimate()
    assert found.ended == REPEATS
    assert found.proposals == 8_000 == len(taken)
    assert estimate.standard_error < 0.15
    assert abs(estimate.log_z - exact_log_z(language)) < 4 * estimate.standard_error
    # Kish's size, from the exact second moment of the weights
    weight = language.log_target - language.log_q
    mean = np.exp(language.log_target).sum()
    second = np.exp(language.log_q + 2 * weight)[~language.fails].sum()
    assert estimate.effective_sample_size == pytest.approx(8_000 * mean**2 / second, rel=0.25)


def test_particles_estimate_the_sum_over_all_programs_without_bias():
    """The mean of the estimates of Z, not of log Z, over independent searches."""
    ratios, betas = [], []
    for seed in range(60):
        searcher = ModelSMC(num_particles=50)
        language, _, _ = searched(searcher, None, seed=seed, spread=0.5, most_proposals=250)
        ratios.append(np.exp(searcher.estimate().log_z - exact_log_z(language)))
        betas.append(searcher.beta)
    assert set(betas) == {1.0}
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert error < 0.2
    assert abs(np.mean(ratios) - 1) < 4 * error


def test_particles_whose_budget_ends_on_the_way_estimate_it_as_well():
    ratios, betas = [], []
    for seed in range(40):
        searcher = ModelSMC(num_particles=60, ess_share=0.95)
        language, _, _ = searched(searcher, None, seed=seed, most_proposals=120)
        betas.append(searcher.beta)
        ratios.append(np.exp(searcher.estimate().log_z - exact_log_z(language)))
    assert np.mean(np.array(betas) < 1) > 0.3
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert error < 0.25
    assert abs(np.mean(ratios) - 1) < 4 * error


def test_moves_leave_the_posterior_as_it_is():
    """Particles that move at temperature 1 for long are at every program as often as the posterior says."""
    searcher = ModelSMC(num_particles=200)
    language, _, _ = searched(searcher, None, most_proposals=4_000)
    count = np.zeros(len(language.programs))
    late = ModelSMC(num_particles=200)
    late.start(language, TASK, 1)
    late.particles, late.beta = list(searcher.particles), 1.0
    late._log_weight = np.zeros(200)
    for _ in range(40):
        asked = late.ask()
        late.tell([type(searcher.particles[0])(each, language.score(each).result()) for each in asked])
        for each in late.particles:
            count[language.rows[each.proposal.program_ids[:-1]]] += 1
    target = np.exp(language.log_target - exact_log_z(language))
    assert 0.5 * np.abs(count / count.sum() - target).sum() < 0.1


@pytest.mark.parametrize("effort", ["low", "high"])
def test_evolution_finds_the_best_program(effort):
    searcher = Evolution(population_size=20, proposer_effort=effort)
    language, _, _ = searched(searcher, 150)
    best = language.programs[int(language.log_target.argmax())]
    assert searcher.population[0].proposal.source == language.text(best)
    assert searcher.estimate().log_z is None


def test_evolution_breeds_from_programs_of_others_and_draws_its_own():
    given = ListedLanguage()
    best = given._proposal(given.programs[int(given.log_target.argmax())], drawn=False)
    searcher = Evolution(population_size=8)
    taken = searched(searcher, 17, first=[best])[2]
    assert searcher.population[0].proposal.source == best.source
    drawn = [scored.proposal for step, scored in taken if step == 0 and scored.proposal is not best]
    assert len(drawn) == 8
    assert all(each.drawn for each in drawn)
    assert {searcher.fitness_of(each) for each in searcher.population} != {-np.inf}


@pytest.mark.parametrize("method", [SampleAndWeight, ModelSMC])
def test_estimates_know_nothing_of_programs_of_others(method):
    given = ListedLanguage()
    best = given._proposal(given.programs[int(given.log_target.argmax())], drawn=False)
    with_it, without = method(), method()
    searched(with_it, None, most_proposals=601, first=[best])
    searched(without, None, most_proposals=600)
    assert with_it.estimate() == without.estimate()


def test_evolution_ends_with_its_generations():
    searcher = Evolution(population_size=8, num_generations=3)
    _, found, taken = searched(searcher, None)
    assert (found.ended, found.rounds) == (OVER, 3)
    assert {step for step, _ in taken} == {0, 1, 2}


@pytest.mark.parametrize("method", [SampleAndWeight, ModelSMC, Evolution])
@pytest.mark.parametrize("budget", [1, 17, 60])
def test_budgets_are_kept_exactly(method, budget):
    _, found, taken = searched(method(16), budget)
    distinct = {each.proposal.source for _, each in taken}
    assert found.ended == SPENT
    assert found.programs == len(distinct) == budget


def test_programs_that_come_again_and_those_without_an_end_cost_nothing():
    language = ListedLanguage()
    first, second = language.draw(1)[0], None
    while second is None or second.source == first.source:
        second = language.draw(1)[0]
    rounds = [[first, first, first._replace(stopped=False, source="?")], [second, first]]

    class Given(SampleAndWeight):
        def ask(self):
            return rounds.pop(0) if rounds else []

    budget, taken = ProgramBudget(2), []
    searcher = Given()
    searcher.start(language, TASK, 0)
    found = search(searcher, language.score, budget, lambda step, each: taken.append(each))
    assert (found.programs, found.proposals, found.ended) == (2, 5, SPENT)
    assert [str(each.score.failure) for each in taken].count("truncated") == 1
    assert budget.repeated == 2


def test_a_search_that_is_interrupted_keeps_what_has_a_score():
    language = ListedLanguage()
    searcher = SampleAndWeight(10)
    searcher.start(language, TASK, 0)
    taken = []

    def score(proposal):
        if len(taken) < 10 or len(asked) < 15:
            asked.append(proposal)
            return language.score(proposal)
        raise KeyboardInterrupt

    asked = []
    found = search(searcher, score, ProgramBudget(500), lambda step, each: taken.append(each))
    assert found.ended == "it was interrupted"
    assert [each.proposal for each in taken] == asked
    assert found.proposals == len(asked)
    assert found.programs == len({each.source for each in asked})


def test_what_has_no_score_when_a_search_is_interrupted_is_not_counted():
    language = ListedLanguage()
    searcher = SampleAndWeight(10)
    searcher.start(language, TASK, 0)
    taken, asked = [], []

    def score(proposal):
        asked.append(proposal)
        return language.score(proposal) if len(asked) <= 3 else Never()

    class Never(Future):
        """A score that does not come; the first look at it is interrupted."""

        looks = 0

        def done(self):
            Never.looks += 1
            if Never.looks == 1:
                raise KeyboardInterrupt
            return False

    found = search(searcher, score, ProgramBudget(500), lambda step, each: taken.append(each))
    assert len(asked) == 10
    assert found.ended == "it was interrupted"
    assert found.programs == len({each.proposal.source for each in taken}) <= 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SampleAndWeight(0), "programs_per_round must be at least 1, got 0"),
        (lambda: ModelSMC(1), "num_particles must be at least 2, got 1"),
        (lambda: ModelSMC(ess_share=1.0), "ess_share must be between 0 and 1, got 1.0"),
        (lambda: Evolution(population_size=0), "population_size must be at least 1, got 0"),
        (lambda: Evolution(crossover_share=2.0), "crossover_share must be from 0 to 1, got 2.0"),
        (lambda: ProgramBudget(0), "max_programs must be at least 1, got 0"),
    ],
)
def test_what_is_out_of_range_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
