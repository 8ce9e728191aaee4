"""The protocol end to end, with tiny numbers."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.evaluation.entrants import PolicyWriter, WrittenProgram, looks_at_data
from synthstats_lightning.evaluation.measurement import Measurement, summarise
from synthstats_lightning.evaluation.protocol import evaluate_environment
from synthstats_lightning.evaluation.report import environment_table, notes
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.evaluation.standardisation import standardisation
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.tasks import SimulatedTask, baseline_program, task_prompt
from synthstats_lightning.tasks.proposal import looking
from synthstats_lightning.tasks.simulators import SIMULATORS
from tests.support.warm import warm_pool

pytestmark = pytest.mark.long

LINE = """
with pm.Model() as model:
    a = pm.Normal("a", 1, 1)
    b = pm.Normal("b", 0, 1)
    pm.Normal("y", a + b * age, 0.3, observed=length)
"""
LEVEL = """
with pm.Model() as model:
    pm.Normal("y", pm.Normal("a", 1, 1), 0.5, observed=length)
"""
BROKEN = "with pm.Model() as model:\n    pm.Normal('y', 1/0, 1, observed=length)"
TINY = EvaluationSettings(
    budgets=(0, 1, 6),
    seeds=(1, 2),
    points=5,
    reference_instances=50,
    eig_candidates=10,
    eig_outer=50,
    eig_inner=5,
    eig_particles=200,
)


@pytest.fixture(scope="module")
def scorer():
    return warm_pool()


def measured(name, scorer, settings=TINY, **more):
    found = list(evaluate_environment(SIMULATORS[name](), scorer, settings, **more))
    return {(item.row, item.seed, item.budget): item for item in found}


@pytest.fixture(scope="module")
def dugongs(scorer):
    asked = []

    def write(task, seed):
        asked.append((task.name, task.num_rows, task.held_out, seed))
        return [
            WrittenProgram(LINE, -5.0),
            WrittenProgram(LEVEL, -3.0),
            WrittenProgram(LEVEL, -3.0),
            WrittenProgram(BROKEN, -1.0),
            WrittenProgram(LINE, -0.5, complete=False),
        ]

    return measured("dugongs_simulator", scorer, policy=write), asked


def test_rows_budgets_and_seeds(dugongs):
    found, asked = dugongs
    rows = ("oracle", "baseline", "policy_best", "policy_set")
    assert set(found) == {(row, seed, budget) for row in rows for seed in (1, 2) for budget in (0, 1, 6)}
    assert asked == [("dugongs_simulator/1", 11, 5, 1), ("dugongs_simulator/2", 11, 5, 2)]


def test_baseline_gains_nothing_and_the_oracle_much(dugongs):
    found, _ = dugongs
    for seed in (1, 2):
        assert found["baseline", seed, 6].lpd_gain == 0
        assert found["oracle", seed, 6].lpd_gain > 0.3
        assert found["oracle", seed, 6].raw_error < found["baseline", seed, 6].raw_error
    assert (found["oracle", 1, 6].failures, found["oracle", 1, 6].runs) == (0, 1)


def test_regrets_are_means_over_the_experiments_made(dugongs):
    found, _ = dugongs
    assert found["oracle", 1, 0].eig_regret is None
    first, all_six = found["oracle", 1, 1].eig_regret, found["oracle", 1, 6].eig_regret
    assert first >= 0
    assert all_six >= first / 6
    assert found["baseline", 1, 6].eig_regret == all_six


def test_failures_are_counted(dugongs):
    found, _ = dugongs
    item = found["policy_set", 1, 6]
    assert (item.failures, item.runs) == (2, 5)
    assert sorted(message.split(":")[0] for message in item.messages) == ["raised", "truncated"]


def test_policy_rows_by_hand(dugongs, scorer):
    """The set is the mixture by evidence, a program that came twice counting twice; the best is one of it."""
    found, _ = dugongs
    task = SimulatedTask("dugongs_simulator", 2, 6, held_out=5, response_range="prior")
    line, level, baseline = (
        scorer.forecast(source, task).result() for source in (LINE, LEVEL, baseline_program(task))
    )
    evidence = np.array([line.evidence, level.evidence, level.evidence])
    densities = np.stack([line.log_density, level.log_density, level.log_density])
    expected = logsumexp(densities + (evidence - logsumexp(evidence))[:, None], axis=0) - baseline.log_density
    assert found["policy_set", 2, 6].lpd_gain == pytest.approx(expected.mean())
    best = line if line.evidence > level.evidence else level
    assert found["policy_best", 2, 6].lpd_gain == pytest.approx(
        (best.log_density - baseline.log_density).mean()
    )
    truth = task.data["length"][-5:]
    assert found["policy_best", 2, 6].raw_error == pytest.approx(
        np.mean((np.median(best.draws, axis=0) - truth) ** 2)
    )


def test_the_more_probable_program_is_best_before_any_data(dugongs, scorer):
    found, _ = dugongs
    task = SimulatedTask("dugongs_simulator", 1, 0, held_out=5, response_range="prior")
    level, baseline = (scorer.forecast(source, task).result() for source in (LEVEL, baseline_program(task)))
    gain = (level.log_density - baseline.log_density).mean()
    assert found["policy_best", 1, 0].lpd_gain == pytest.approx(gain)


def test_a_row_without_any_program_predicts_what_the_baseline_does(scorer):
    few = EvaluationSettings(budgets=(6,), seeds=(1,), points=4, reference_instances=50, eig_candidates=0)
    found = measured(
        "dugongs_simulator", scorer, few, policy=lambda task, seed: [WrittenProgram(BROKEN, 0.0)]
    )
    for row in ("policy_best", "policy_set"):
        item, baseline = found[row, 1, 6], found["baseline", 1, 6]
        assert (item.failures, item.runs) == (1, 1)
        assert (item.raw_error, item.lpd_gain) == (baseline.raw_error, 0.0)


def test_an_impossible_point_costs_the_floor(scorer):
    source = "with pm.Model() as model:\n    pm.Uniform('y', 5 * pm.Beta('b', 2, 2) + 5, 20, observed=length)"
    few = EvaluationSettings(budgets=(0,), seeds=(1,), points=4, reference_instances=50, eig_candidates=0)
    found = measured(
        "dugongs_simulator", scorer, few, policy=lambda task, seed: [WrittenProgram(source, 0.0)]
    )
    assert found["policy_best", 1, 0].lpd_gain == -20
    assert found["policy_best", 1, 0].floored == 4


@pytest.mark.slow
def test_stacking(scorer):
    few = EvaluationSettings(
        budgets=(0, 6), seeds=(1,), points=4, reference_instances=50, eig_candidates=0, weighting="stacking"
    )

    def write(task, seed):
        return [WrittenProgram(LINE, -1.0), WrittenProgram(LEVEL, -2.0)]

    found = measured("dugongs_simulator", scorer, few, oracle=False, policy=write)
    assert np.isfinite(found["policy_set", 1, 6].lpd_gain)


def test_parameter_goal(scorer):
    """The oracle answers from its declared quantity; the baseline has none and answers as the prior does."""
    few = EvaluationSettings(
        budgets=(0, 6),
        seeds=(1, 2, 3),
        points=3,
        reference_instances=5000,
        eig_candidates=0,
        goal="infection",
    )
    found = measured("death_process", scorer, few)
    with_data = np.mean([found["oracle", seed, 6].raw_error for seed in (1, 2, 3)])
    without = np.mean([found["baseline", seed, 6].raw_error for seed in (1, 2, 3)])
    assert with_data < 0.05 < without
    for seed in (1, 2, 3):
        assert found["oracle", seed, 0].raw_error == pytest.approx(
            found["baseline", seed, 0].raw_error, abs=0.1
        )


def test_an_instance_alone_and_among_others(scorer):
    """Same numbers; what can be observed differs between instances of this environment."""
    alone = dataclasses.replace(TINY, budgets=(0, 2), seeds=(1,))
    both = dataclasses.replace(alone, seeds=(1, 2))
    found, among = (measured("survival", scorer, settings, oracle=False) for settings in (alone, both))
    assert all(among[key] == item for key, item in found.items())
    assert len(among) == 2 * len(found)


def test_table():
    common = {"environment": "e", "row": "oracle", "standardised_error": -1.0, "runs": 1}
    items = [
        Measurement(**common, seed=1, budget=0, raw_error=1.0, lpd_gain=0.5, eig_regret=None, failures=0),
        Measurement(**common, seed=2, budget=0, raw_error=4.0, lpd_gain=1.5, eig_regret=None, failures=1),
        Measurement(**common, seed=1, budget=3, raw_error=2.0, lpd_gain=0.5, eig_regret=0.25, failures=0),
    ]
    table = summarise(items)
    assert table["e"]["oracle"]["0"] == {
        "raw_error": 2.5,
        "raw_error_se": pytest.approx(1.5),
        "standardised_error": -1.0,
        "lpd_gain": 1.0,
        "eig_regret": None,
        "failures": 1,
        "runs": 2,
    }
    assert table["e"]["oracle"]["3"]["raw_error_se"] is None
    assert table["e"]["oracle"]["3"]["eig_regret"] == 0.25
    assert environment_table("e", table).row_count == 2


def test_notes():
    common = {"environment": "e", "seed": 1, "raw_error": 1.0, "standardised_error": 0.0, "lpd_gain": 0.0}
    common |= {"eig_regret": None, "runs": 3}
    failed = ("raised: a", "raised: a", "syntax: b")
    items = [
        Measurement(**common, row="policy_set", budget=0, failures=3, messages=failed, no_regret="no noise"),
        Measurement(**common, row="policy_best", budget=0, failures=3, messages=failed, floored=2),
    ]
    assert notes(items) == [
        "failed 2 times: policy_set: raised: a",
        "failed 1 times: policy_set: syntax: b",
        "no EIG regret: no noise",
        "policy_best: 2 points at the floor",
    ]


def test_standardisation():
    """Beside the constant predictor's error of the death process, and of one with fewer individuals."""
    plain, smaller = SIMULATORS["death_process"](), SIMULATORS["death_process"](population=20)
    found, other = standardisation(plain, instances=1000), standardisation(smaller, instances=1000)
    assert found.mean == pytest.approx(222.9, rel=0.08)
    assert other.mean < 0.3 * found.mean
    assert found.standardise(found.mean + found.sd) == pytest.approx(1)
    with pytest.raises(ValueError, match="goal 'none' of death_process is not one of: prediction, infection"):
        standardisation(plain, "none")


class Looking:
    """A policy that looks at the data: programs by the rows that it sees, which count once."""

    words = "digest", "short"

    def __init__(self):
        self.asked = []

    def __call__(self, task, seed):
        rows = task.num_rows - task.held_out
        self.asked.append(rows)
        if rows < 6:
            return [WrittenProgram(LEVEL, -1.0), WrittenProgram(LINE, -2.0, log_prior_ratio=-40.0)]
        return [WrittenProgram(LINE, -1.0, log_prior_ratio=40.0), WrittenProgram(LEVEL, -2.0)]


def test_a_policy_that_looks_writes_at_each_budget_and_weighs_by_the_prior(scorer):
    settings = dataclasses.replace(TINY, budgets=(0, 2, 6), seeds=(1,), eig_candidates=0)
    writer = Looking()
    found = measured("dugongs_simulator", scorer, settings, oracle=False, policy=writer)
    assert writer.asked == [0, 2, 6]
    for budget, source in ((0, LEVEL), (2, LEVEL), (6, LINE)):
        alone = measured(
            "dugongs_simulator",
            scorer,
            dataclasses.replace(settings, budgets=(budget,)),
            oracle=False,
            policy=lambda task, seed, source=source: [WrittenProgram(source, -1.0)],
        )
        expected = alone["policy_set", 1, budget].lpd_gain
        assert found["policy_set", 1, budget].lpd_gain == pytest.approx(expected, abs=1e-6)


def test_programs_of_a_digest_have_their_prior_ratio():
    """Against the log-probabilities of the reference and the policy, each on its own prompt."""
    module = GFlowNetModule(policy="writer", lora=LoraSettings(rank=2), sampling=SamplingSettings(96))
    module.configure_model()
    module.eval()
    simulator = SIMULATORS["dugongs_simulator"]()
    simulator.reset(1)
    task = SimulatedTask(simulator, 1, 6, "random", 5, response_range="prior")
    writer = PolicyWriter(module, 6, None, "digest")
    assert looks_at_data(writer)
    assert not looks_at_data(PolicyWriter(module, 6))
    written = writer(task, 1)
    prompt = task_prompt(looking(task, "digest"))
    asked = [torch.tensor([module.policy.encode_prompt(*given)]) for given in (prompt.prior, prompt)]
    compared = 0
    for program in written:
        ids = torch.tensor([module.policy.encode_program(program.source, prompt.facts)])
        given = ids, torch.ones_like(ids, dtype=torch.bool)
        with torch.no_grad():
            prior, own = (float(module.policy.program_log_probs(each, *given)) for each in asked)
        if program.complete and abs(own - program.log_prob) < 1e-3:  # spelled as it was written
            assert program.log_prior_ratio == pytest.approx(prior - own, abs=2e-3)
            compared += 1
    assert compared > 2
    assert any(abs(program.log_prior_ratio) > 0.1 for program in written)
    assert [program.log_prior_ratio for program in PolicyWriter(module, 6)(task, 1)] == [0.0] * 6


def test_before_data_a_policy_without_log_probabilities_has_no_best_program(scorer):
    def write(task, seed):
        return [
            WrittenProgram(LINE, None),
            WrittenProgram(LEVEL, None),
            WrittenProgram("", None, False, "timeout: no whole answer within 1 s"),
        ]

    settings = dataclasses.replace(TINY, budgets=(0, 1), seeds=(1,), eig_candidates=0)
    found = measured("dugongs_simulator", scorer, settings, oracle=False, policy=write)
    rows = {(row, budget) for row, _, budget in found}
    both = {(row, budget) for row in ("baseline", "policy_set") for budget in (0, 1)}
    assert rows == both | {("policy_best", 1)}
    assert all(np.isfinite(item.lpd_gain) for item in found.values())
    assert found["policy_set", 1, 0].messages == ("timeout: no whole answer within 1 s",)
    lines = notes(list(found.values()))
    assert "no policy_best before any data: the policy gives no log-probabilities to choose by" in lines
    table = summarise(found.values())
    assert list(table["dugongs_simulator"]["policy_best"]) == ["1"]
    environment_table("dugongs_simulator", table)
