"""What callbacks need of a run: given to them, or found at the data module."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from synthstats_lightning.confinement import Level
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.prompt_room import check_plain, check_reads_data, too_many_covariates
from synthstats_lightning.pool.program_budget import ProgramBudget
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.replay import ReplayBuffer
from synthstats_lightning.runtime.cores import own_cores, scoring_workers
from synthstats_lightning.runtime.distributed import rank_and_size
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Prompt, TableTask, Task
from synthstats_lightning.tasks.proposal import rows_that_count


def run_folder(trainer: Trainer) -> Path:
    """The folder of this run: its logger's, or the trainer's root folder; every rank must ask at once.

    Args:
        trainer: The run's trainer, which knows logger and root folder.
    """
    return Path(trainer.log_dir or trainer.default_root_dir)


def gflownet_module(pl_module: LightningModule) -> GFlowNetModule:
    """The module, if it is one that `ProgramScoring` can sample from.

    Raises:
        TypeError: If it is not a `GFlowNetModule`.
    """
    if not isinstance(pl_module, GFlowNetModule):
        raise TypeError(f"ProgramScoring needs a GFlowNetModule, got {type(pl_module).__name__}")
    return pl_module


def run_tasks(trainer: Trainer, given: Sequence[Task] | None) -> Sequence[Task]:
    """The tasks that programs are scored on.

    Args:
        trainer: Whose data module has them, unless they were given.
        given: Tasks that take precedence over the data module's.

    Raises:
        TypeError: If there are none.
    """
    tasks: Sequence[Task] | None = given if given is not None else _of_data_module(trainer, "tasks")
    if tasks is None:
        raise TypeError("ProgramScoring needs `tasks`: pass them, or use a data module with that attribute")
    return tasks


def run_buffer(trainer: Trainer, given: ReplayBuffer | None) -> ReplayBuffer | None:
    """The buffer that programs go to, `None` if there is none.

    Args:
        trainer: Whose data module has it, unless it was given.
        given: A buffer that takes precedence over the data module's.
    """
    buffer: ReplayBuffer | None = given if given is not None else _of_data_module(trainer, "buffer")
    return buffer


def required_buffer(trainer: Trainer, given: ReplayBuffer | None) -> ReplayBuffer:
    """As `run_buffer`, where there must be one.

    Raises:
        TypeError: If there is none.
    """
    buffer = run_buffer(trainer, given)
    if buffer is None:
        raise TypeError("ProgramScoring needs `buffer`: pass it, or use a data module with that attribute")
    return buffer


def register_prompts(
    buffer: ReplayBuffer, tasks: Sequence[Task], prompts: Sequence[Prompt], policy: Policy
) -> None:
    """Gives a buffer the prompts, and the prior's; warns of more covariates than the policy was made for.

    Where the policy was made to read a digest and is shown none, it says so.
    No warning is due where the policy tells of the columns itself and a digest says of which.

    Args:
        buffer: The replay buffer of the run.
        tasks: The tasks of the run, in the order of their `task_index`.
        prompts: The prompts of these tasks, one each.
        policy: It writes their programs.

    Raises:
        PromptError: If a task shows examples, and the policy was made for prompts without.
    """
    config = policy.text_config
    if any(task.most_examples for task in tasks):
        check_reads_data(config, policy.name, True)
        check_plain(policy, "examples of programs (proposal_examples)")
    for task, prompt in zip(tasks, prompts, strict=True):
        chosen = not policy.spelling.plain and prompt.facts is not None and prompt.facts.digest is not None
        if chosen:
            continue
        if not policy.spelling.plain and rows_that_count(task):
            rank_zero_info(
                f"policy {policy.name!r} was made to read a digest of the data, and the prompt for task"
                f" {task.name!r} shows none: with `proposal: digest` it writes of what the rows say"
            )
        number = len(task.understood.covariates) if isinstance(task, TableTask) else 0
        if warning := too_many_covariates(config, policy.name, task.name, number):
            rank_zero_warn(warning)
    for index, prompt in enumerate(prompts):
        buffer.register_prompt(index, policy.encode_prompt(*prompt), policy.encode_prompt(*prompt.prior))


@runtime_checkable
class WantsWorkers(Protocol):
    """What `ProgramScoring` says of its workers; see its arguments."""

    reward: Reward
    num_workers: int | None
    limits: SandboxLimits | None
    engine: EngineSettings | None
    sandbox: Level
    score_cache: str | None
    executor: Executor | None
    max_records: int
    max_programs: int | None


def run_workers(wanted: WantsWorkers) -> tuple[ProgramScorer, ProgramBudget]:
    """The workers of this process, not started yet, and how many programs they may be given.

    Args:
        wanted: The callback whose workers they are.
    """
    pool = ProgramScorer(
        num_workers=wanted.num_workers or scoring_workers(own_cores()),
        limits=wanted.limits,
        settings=(wanted.engine or EngineSettings()).up_to(wanted.reward.score),
        sandbox=wanted.sandbox,
        score_cache=wanted.score_cache,
        executor=wanted.executor,
        max_known=wanted.max_records,
    )
    limit = wanted.max_programs
    return pool, ProgramBudget(None if limit is None else max(1, limit // rank_and_size()[1]))


def _of_data_module(trainer: Trainer, name: str) -> Any:
    return getattr(getattr(trainer, "datamodule", None), name, None)
