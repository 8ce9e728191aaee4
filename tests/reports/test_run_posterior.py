"""The run's posterior: shares by form against enumeration, what is unseen, comparison by elpd."""

from __future__ import annotations

import math
from concurrent.futures import Future

import numpy as np
import pytest

from synthstats_lightning import load_posterior
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.scoring.score import Diagnostics, Score
from synthstats_lightning.tasks import get_task
from synthstats_lightning.testing.language import multimodal_log_reward, random_policy

LENGTH = 6
"""Tokens of the longest program: 1,093 programs."""


def language(seed):
    """Programs with log prior, log evidence and form."""
    reference = random_policy(1, LENGTH, seed)
    programs = reference.programs
    evidence = multimodal_log_reward(programs, 1)[0].numpy()
    form = [f"{len(program)} tokens, first {program[:1]}" for program in programs]
    return programs, reference.log_probs().detach()[0].numpy(), evidence, form


def exact_shares(log_target, form):
    weight = np.exp(log_target - np.logaddexp.reduce(log_target))
    return {name: weight[[each == name for each in form]].sum() for name in set(form)}


def sampled(programs, prior, evidence, form, draws, records=None, fresh=False):
    """Records of draws, each a program's number and the log-probability that it was drawn by."""
    records = ProgramRecords() if records is None else records
    for number, log_prob in draws:
        score = Score(evidence=float(evidence[number]), structure=form[number], summary=f"y ~ {form[number]}")
        own = [str(programs[number]), score, 0.0, float(log_prob), float(prior[number])]
        records.add(ProgramRecord("words", *own, 1, int(fresh)))
    return records


def between(prior, evidence, way):
    """A policy on its way from the prior to the posterior, away from either by noise."""
    noise = np.random.default_rng(7).normal(0, 0.4, len(prior))
    log = prior + way * evidence + noise
    return log - np.logaddexp.reduce(log)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("fresh", [500, 0])
def test_shares_by_form_are_those_of_enumeration(tmp_path, seed, fresh):
    programs, prior, evidence, form = language(seed)
    rng = np.random.default_rng(seed)
    ways = np.linspace(0.2, 1.0, 20)
    draws = []
    for way in ways:
        policy = between(prior, evidence, way)
        numbers = rng.choice(len(programs), 50, p=np.exp(policy))
        draws += [(number, policy[number]) for number in numbers]
    records = sampled(programs, prior, evidence, form, draws)
    policy = between(prior, evidence, 1.0)
    numbers = rng.choice(len(programs), fresh, p=np.exp(policy))
    sampled(programs, prior, evidence, form, [(n, policy[n]) for n in numbers], records, fresh=True)
    records.write(tmp_path / "programs.jsonl")

    found = load_posterior(tmp_path)
    exact = exact_shares(prior + evidence, form)
    shares = {each.key: each.share for each in found.forms}
    worst = max(abs(shares.get(name, 0.0) - share) for name, share in exact.items())
    assert worst < 0.02
    log_z = np.logaddexp.reduce(prior + evidence)
    assert abs(found.estimate.log_z - log_z) < max(4 * found.estimate.log_z_se, 0.05)
    seen = {str(programs[number]) for number, _ in draws} | {str(programs[number]) for number in numbers}
    weight = np.exp(prior + evidence - log_z)
    unseen = weight[[str(program) not in seen for program in programs]].sum()
    assert found.estimate.unseen_mass == pytest.approx(unseen, abs=0.02)


def model(source, evidence, prior, form, pointwise=()):
    rows = Diagnostics(0.0, 100.0, 0.1, "psis+importance", 0.0, pointwise)
    found = {"elpd": sum(pointwise), "diagnostics": {"elpd": rows}} if pointwise else {}
    score = Score(evidence=evidence, structure=form, canonical=source, summary=f"y ~ {form}", **found)
    return ProgramRecord("dugongs", source, score, 0.0, prior, prior)


def test_mixtures_of_a_form_by_prior_and_by_rows_left_out():
    rows = (-1.0, -2.0, -0.5), (-1.5, -0.2, -3.0)
    records = [
        model("a", -40.0, math.log(0.3), "line", rows[0]),
        model("b", -41.0, math.log(0.1), "line", rows[1]),
        model("c", -43.0, math.log(0.4), "curve", (-2.0, -2.0, -2.0)),
    ]
    found = RunPosterior.from_records("dugongs", records)
    line, curve = found.forms
    a, b, c = 0.3 * math.exp(-40), 0.1 * math.exp(-41), 0.4 * math.exp(-43)
    assert line.evidence_mixture == pytest.approx(math.log((a + b) / 0.4))
    assert curve.log_bayes_factor == pytest.approx(math.log(c / 0.4 / ((a + b) / 0.4)))
    # by definition: p(y_j | others) = p(y) / p(others), each averaged over programs by prior
    expected = [math.log((a + b) / (a / math.exp(x) + b / math.exp(y))) for x, y in zip(*rows, strict=True)]
    assert line.elpd == pytest.approx(sum(expected))
    difference = -2.0 - np.array(expected)
    assert curve.elpd_difference == pytest.approx(difference.sum())
    assert curve.elpd_difference_se == pytest.approx(math.sqrt(3 * difference.var()))
    assert line.elpd_difference == 0.0
    assert line.stacking_weight + curve.stacking_weight == pytest.approx(1.0)


def test_elpd_is_computed_once_a_model_from_the_largest_share_down():
    records = [
        model("a", -40.0, -1.0, "line"),
        model("b", -42.0, -1.0, "curve", (-1.0, -1.0)),
        model("c", -60.0, -1.0, "bump"),
    ]
    asked = []

    def score(source, task):
        asked.append(source)
        future = Future()
        future.set_result(model(source, -40.0, -1.0, "line", (-0.5, -0.7)).score)
        return future

    task = get_task("dugongs")
    bare = RunPosterior.from_records("dugongs", records, task=task)
    assert [form.elpd for form in bare.forms] == [None, -2.0, None]
    found = bare.with_elpd(score)
    assert asked == ["a"], "one is known, one has no mass"
    assert [form.elpd for form in found.forms] == [pytest.approx(-1.2), -2.0, None]
    assert found.forms[1].elpd_difference == pytest.approx(-0.8)
    assert found.programs[0].pointwise_elpd == (-0.5, -0.7)
    with pytest.raises(ValueError, match="does not give the data of task 'dugongs'"):
        RunPosterior.from_records("dugongs", records).with_elpd(score)


def test_a_posterior_needs_an_evidence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no programs\.jsonl"):
        load_posterior(tmp_path)
    failed = ProgramRecord("dugongs", "x", Score.failed(FailureCategory.RAISED, "no"), -9.0, -1.0, -1.0)
    ProgramRecords([failed]).write(tmp_path / "programs.jsonl")
    with pytest.raises(ValueError, match="run must hold a program with an evidence"):
        load_posterior(tmp_path)


def test_tasks_by_name_and_checkpoints_in_a_folder(tmp_path):
    records = [model("a", -40.0, -1.0, "line"), model("b", -42.0, -1.0, "line")]
    records[1].task = "other"
    ProgramRecords(records).write(tmp_path / "programs.jsonl")
    (tmp_path / "checkpoints").mkdir()
    found = load_posterior(tmp_path / "checkpoints" / "last.ckpt")
    assert set(found) == {"dugongs", "other"}
    assert found["other"].programs[0].evidence == -42.0
    assert found["other"].forms[0].share == 1.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_prior_shares_and_bayes_factors_are_those_of_enumeration(seed):
    """Most programs are the trained policy's; a tenth of the fresh ones the prior's."""
    programs, prior, evidence, form = language(seed)
    rng = np.random.default_rng(seed)
    policy = between(prior, evidence, 1.0)
    training = rng.choice(len(programs), 1500, p=np.exp(between(prior, evidence, 0.9)))
    records = sampled(programs, prior, evidence, form, [(n, policy[n]) for n in training])
    own = rng.choice(len(programs), 1800, p=np.exp(policy))
    blind = rng.choice(len(programs), 200, p=np.exp(prior - np.logaddexp.reduce(prior)))
    fresh = sampled(programs, prior, evidence, form, [(n, policy[n]) for n in [*own, *blind]], fresh=True)
    for record in fresh:
        record.draw_from_mixture(0.1)
        records.add(record)
    found = RunPosterior.from_records("words", list(records))
    shares, whole = exact_shares(prior, form), exact_shares(prior + evidence, form)
    factor = {name: math.log(whole[name] / shares[name]) for name in shares}
    first = found.forms[0]
    alone = np.logaddexp.reduce([program.reference_log_prob for program in found.programs])
    wrong = []
    for each in found.forms:
        assert each.prior_share == pytest.approx(shares[each.key], abs=0.03)
        if each.share > 0.05:
            expected = factor[each.key] - factor[first.key]
            assert each.log_bayes_factor == pytest.approx(expected, abs=0.35)
            ratio = each.prior_share / first.prior_share * math.exp(each.log_bayes_factor)
            assert each.share / first.share == pytest.approx(ratio)
        own = np.logaddexp.reduce([program.reference_log_prob for program in each.programs])
        wrong.append(abs(math.exp(own - alone) - shares[each.key]))
    worst = max(abs(each.prior_share - shares[each.key]) for each in found.forms)
    assert worst < max(wrong)  # what the programs found say by themselves


def test_with_few_effective_draws_shares_are_prior_times_bayes_factor():
    """One draw of a large importance weight gives its own form none of what is unseen."""
    rows = [("a", -4.0, 0.0, -0.1, 40), ("b", -5.0, 1.5, -14.0, 1), ("c", -3.0, -2.0, -3.0, 1)]
    records = [
        ProgramRecord("t", name, Score(evidence=evidence, structure=name), 0.0, q, prior, count, count)
        for name, prior, evidence, q, count in rows
    ]
    found = RunPosterior.from_records("t", records)
    assert found.estimate.effective_sample_size < 20
    assert "in no share" in found.estimate.method
    assert found.estimate.unseen_mass > 0.1
    assert sum(form.share for form in found.forms) == pytest.approx(1.0)
    assert sum(program.share for program in found.programs) == pytest.approx(1.0)
    first = found.forms[0]
    for form in found.forms:
        ratio = form.prior_share / first.prior_share * math.exp(form.log_bayes_factor)
        assert form.share / first.share == pytest.approx(ratio)
