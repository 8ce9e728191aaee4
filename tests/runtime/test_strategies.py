"""Strategies that shard the policy are refused at the start, in one line."""

import pytest
from lightning.pytorch.strategies import (
    DDPStrategy,
    FSDPStrategy,
    ModelParallelStrategy,
    SingleDeviceStrategy,
)

from synthstats_lightning.cli.main import main
from synthstats_lightning.runtime.strategies import check_strategy

FIT = ("fit", "--config", "configs/quickstart.yaml")


@pytest.mark.parametrize(
    "strategy", ["fsdp", "deepspeed_stage_2", "lightning.pytorch.strategies.ModelParallelStrategy"]
)
def test_main_refuses_it_in_one_line(capsys, strategy):
    with pytest.raises(SystemExit) as stop:
        main([*FIT, "--trainer.strategy", strategy, "--trainer.logger", "false"])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    name = strategy.rpartition(".")[2]
    assert lines[0].startswith(f"error: strategy '{name}' is not supported: it shards the policy")


@pytest.mark.parametrize("strategy", [FSDPStrategy(), ModelParallelStrategy()])
def test_so_does_the_module(strategy):
    with pytest.raises(ValueError, match=f"strategy '{type(strategy).__name__}' is not supported"):
        check_strategy(strategy)


@pytest.mark.parametrize("strategy", ["auto", "ddp", "ddp_find_unused_parameters_true", DDPStrategy()])
def test_others_pass(strategy):
    check_strategy(strategy)
    check_strategy(SingleDeviceStrategy())
