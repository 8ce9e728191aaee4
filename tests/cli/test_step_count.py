"""`--steps`: one number for the length of a run and of its schedules."""

from __future__ import annotations

import pytest
from jsonargparse import Namespace, dict_to_namespace

from synthstats_lightning.callbacks.schedule_lengths import scaled
from synthstats_lightning.cli.step_count import set_steps


def config(max_steps: int = 500) -> Namespace:
    def schedule(name: str, **arguments: object) -> dict[str, object]:
        return {"class_path": f"torch.optim.lr_scheduler.{name}", "init_args": arguments}

    rates = [schedule("LinearLR", total_iters=50), schedule("CosineAnnealingLR", T_max=450, eta_min=0.1)]
    sequence = schedule("SequentialLR", schedulers=rates, milestones=[50])
    return dict_to_namespace(
        {
            "trainer": {"max_steps": max_steps},
            "model": {"init_args": {"lr_scheduler": sequence}},
            "scoring": {
                "anneal_steps": 250,
                "reward_schedule": {"beta": {"start": 0.25, "steps": 200}, "prior_weight": None},
            },
            "checkpoint": {"every_n_train_steps": 50},
        }
    )


def test_every_schedule_changes_in_proportion() -> None:
    given = config()
    set_steps(given, 1000)
    sequence = given.model.init_args.lr_scheduler.init_args
    assert given.trainer.max_steps == 1000
    assert list(sequence.milestones) == [100]
    assert [vars(item.init_args) for item in sequence.schedulers] == [
        {"total_iters": 100}, {"T_max": 900, "eta_min": 0.1},
    ]  # fmt: skip
    assert given.scoring.anneal_steps == 500
    assert given.scoring.reward_schedule.beta.steps == 400
    assert given.checkpoint.every_n_train_steps == 50


def test_the_same_number_changes_nothing() -> None:
    given = config()
    set_steps(given, 500)
    assert given == config()


def test_short_runs_keep_a_checkpoint_and_a_step_of_every_schedule() -> None:
    given = config()
    set_steps(given, 1)
    assert given.checkpoint.every_n_train_steps == 1
    assert given.scoring.reward_schedule.beta.steps == 1
    assert scaled(0, 3.0) == 0


@pytest.mark.parametrize(("length", "steps", "reason"), [(500, 0, "at least 1, got 0"), (-1, 9, "got -1")])
def test_what_has_no_proportion(length: int, steps: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        set_steps(config(length), steps)
