"""Searches and training under one budget, with the tiny policy and scores that are made up."""

from __future__ import annotations

import json

import pytest
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, PosteriorReport, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks.proposals.first_regressions import ORIGIN
from synthstats_lightning.cli.main import main
from synthstats_lightning.objectives import GRPO, TrajectoryBalance
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.pretraining.wide.regressions import regressions
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.run_posterior import load_posterior
from synthstats_lightning.reports.search_outcome import read_outcome
from synthstats_lightning.searchers import Evolution, ModelSMC, SampleAndWeight
from synthstats_lightning.searchers.methods import budget_overlay, methods, named_method
from synthstats_lightning.searchers.run import SearchRun
from synthstats_lightning.tasks import get_task
from synthstats_lightning.testing.fakes import FakeExecutor

METHODS = (SampleAndWeight(6), ModelSMC(6), Evolution(6))
# the others take twice as long
SHORT = [
    method if isinstance(method, Evolution) else pytest.param(method, marks=pytest.mark.slow)
    for method in METHODS
]


@pytest.fixture(scope="module")
def module():
    made = GFlowNetModule(seed=1, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=80))
    made.configure_model()
    return made


def searched(searcher, module, folder, programs, families=0):
    scoring = ProgramScoring(max_programs=programs, executor=FakeExecutor())
    made = SearchRun(searcher, module, scoring, folder, families=families)
    try:
        return made.run([get_task("dugongs")])
    finally:
        made.close()


def lines(folder):
    """Of `programs.jsonl`, without what differs from one clock to another."""
    return sorted(
        (record.source, record.count, record.fresh, record.step, record.log_prob)
        for record in read_records(folder)
    )


@pytest.mark.parametrize("searcher", SHORT, ids=lambda each: type(each).__name__)
def test_a_search_that_goes_on_is_one_that_never_stopped(searcher, module, tmp_path):
    at_once = searched(searcher, module, tmp_path / "at_once", 20)
    assert searched(searcher, module, tmp_path / "twice", 11).tasks["dugongs"].programs == 11
    twice = searched(searcher, module, tmp_path / "twice", 20)
    assert lines(tmp_path / "twice") == lines(tmp_path / "at_once")
    first, second = at_once.tasks["dugongs"], twice.tasks["dugongs"]
    assert first.programs == 20
    assert (first.programs, first.proposals, first.log_z) == (second.programs, second.proposals, second.log_z)


def test_regressions_come_first(module, tmp_path):
    expected = set(regressions(get_task("dugongs"), 2))
    outcome = searched(Evolution(6), module, tmp_path, 24, families=2)
    assert outcome.tasks["dugongs"].programs == 24
    given = [record for record in read_records(tmp_path) if record.origin]
    assert {record.source for record in given} == expected
    assert {(record.origin, record.count, record.fresh) for record in given} == {(ORIGIN, 0, 0)}
    assert all(record.reference_log_prob < 0 for record in given)
    assert sum(not record.origin for record in read_records(tmp_path)) == 24 - len(expected)
    before = lines(tmp_path)
    searched(Evolution(6), module, tmp_path, 24, families=2)
    assert lines(tmp_path) == before


@pytest.mark.parametrize("searcher", METHODS, ids=lambda each: type(each).__name__)
def test_the_report_says_which_log_z_is_valid(searcher, module, tmp_path, capsys):
    searched(searcher, module, tmp_path, 12)
    from_folder(tmp_path)
    found = json.loads((tmp_path / "report.json").read_text())["dugongs"]
    posterior, outcome = load_posterior(tmp_path), read_outcome(tmp_path)
    assert found["search"]["programs"] == 12
    assert outcome.log_z_from in " ".join(capsys.readouterr().out.split())
    if isinstance(searcher, Evolution):
        assert found["shares"]["log_z"] is None
        assert found["shares"]["unseen_mass"] is None
    elif isinstance(searcher, ModelSMC):
        assert found["shares"]["log_z"] == outcome.tasks["dugongs"].log_z
    else:
        assert found["shares"]["draws"] == outcome.tasks["dugongs"].proposals
        assert posterior.estimate.log_z_se > 0
    assert 0.1 < sum(form.share for form in posterior.forms) < 1.0 + 1e-9
    assert "report.html" in {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "objective",
    [TrajectoryBalance(), pytest.param(GRPO(), marks=pytest.mark.slow)],
    ids=lambda each: type(each).__name__,
)
def test_training_keeps_its_budget(objective, tmp_path):
    scoring = ProgramScoring(
        programs_per_step=8, warmup_programs=10, max_programs=25, executor=FakeExecutor(), drain_seconds=5.0
    )
    trainer = Trainer(
        accelerator="cpu",
        max_steps=8,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        callbacks=[scoring, PosteriorReport(num_programs=6, deadline=1.0)],
        default_root_dir=tmp_path,
    )
    made = GFlowNetModule(
        seed=1, lora=LoraSettings(rank=2), objective=objective, sampling=SamplingSettings(max_new_tokens=80)
    )
    trainer.fit(made, ReplayDataModule(batch_size=4, steps_per_epoch=50))
    known = [record for record in read_records(tmp_path) if str(record.score.failure) != "truncated"]
    early = {program.source for program in scoring.warmup_draws.programs}  # which the report weighs too
    trained = [record for record in known if record.count > record.fresh or record.source in early]
    assert len(trained) == 25
    assert 25 < len(known) <= 31
    assert trainer.global_step == (8 if isinstance(objective, TrajectoryBalance) else trainer.global_step)
    assert trainer.global_step >= 2


@pytest.mark.parametrize("programs", [32, 250, 1000, 4000])
def test_budgets_of_methods_that_train_add_up(programs):
    for method in methods().values():
        config, steps = budget_overlay(method, programs)
        scored = config["scoring"]["max_programs"] + config.get("report", {}).get("num_programs", 0)
        assert scored == programs
        assert (steps is None) is (method.command == "search")
        if method.name == "model_smc":
            assert config["search"]["method"]["init_args"]["num_particles"] == programs // 4


def test_methods_that_do_not_exist():
    with pytest.raises(ValueError, match=r"method must be one of evolution, model_smc, .*, got 'hill'"):
        named_method("hill")
    with pytest.raises(ValueError, match="programs must be at least 32 for grpo"):
        budget_overlay(named_method("grpo"), 16)
    assert {"best_of_n", "grpo", "trajectory_balance"} < set(methods())


def test_an_outcome_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "search.json").write_text(json.dumps({"tasks": 3}))
    with pytest.raises(ValueError, match=r"search\.json does not say"):
        read_outcome(tmp_path)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--rollouts.url=[http://127.0.0.1:8100]", "rollouts.url must be left out of a search"),
        ("--rollouts.backend=vllm", "rollouts.backend must be left out of a search"),
        (
            "--proposals.url=http://localhost --proposals.model=m"
            " --scoring.max_programs=null --budget.minutes=9",
            "proposals.url must be left out of a search",
        ),
        ("--unseen_tasks.tasks=[peregrines]", "unseen_tasks.tasks must be left out of a search"),
        ("--benchmark.num_programs=8", "benchmark.num_programs must be left out of a search"),
        ("--scoring.max_programs=null", "search needs an end: scoring.max_programs, or budget.minutes"),
    ],
)
def test_what_a_search_does_not_read_is_refused(argument, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "search",
                "--config=quickstart",
                "--config=searchers/sample_and_weight",
                f"--trainer.logger.init_args.save_dir={tmp_path}",
                *argument.split(),
            ]
        )
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob("programs.jsonl"))
