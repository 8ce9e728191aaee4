"""The tiny language model on a grammar of real programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from learning_parts.exact_figures import modes, slope, total_variation
from learning_parts.exact_grammar import TASK, grammar, scores
from torch import Tensor

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.learning.loss_inputs import loss_inputs
from synthstats_lightning.objectives import (
    GRPO,
    LogVariance,
    Objective,
    RapTB,
    Regression,
    SubTrajectoryBalance,
    Supervised,
    TrajectoryBalance,
    supervised_loss,
)
from synthstats_lightning.policy import LoraSettings
from synthstats_lightning.replay import Trajectory, TrajectoryBatch, collate
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.tasks import get_task, task_prompt

REWARD = Reward(beta=0.25, prior_weight=0.0, floor=-10.0, log_reward_failure=-14.0)
"""A quarter of the evidence: programs 40 nats apart are 10 apart, and all of them are seen."""
RANK, BATCH = 16, 32
START_STEPS, START_RATE = 200, 3e-3
"""Supervised start: from a policy that hardly ever writes these programs to one that writes little else."""
NEAR = Regression("huber", 2.0)
"""Programs far from balance pull steadily, not with all their weight."""
RATE, LOG_Z_RATE, FLOW_RATE = 5e-4, 0.02, 2e-3
REFRESH = 20
"""Steps after which the policy's probabilities of all programs are computed anew."""
UNIFORM, OUTSIDE = 0.3, 0.25
"""Shares of a batch: uniform over the grammar, and, at most, the policy's own programs outside of it."""
SAMPLE = 4
"""Steps after which the policy writes programs of its own, to see which are outside."""
DEMONSTRATIONS = 50


def objective_named(name: str) -> Objective:
    """An objective for the grammar, in which every proper prefix of a program fails."""
    made: dict[str, Objective] = {
        "TB": TrajectoryBalance(regression=NEAR),
        "VarGrad": LogVariance(NEAR),
        "SubTB": SubTrajectoryBalance(1.0, regression=NEAR, relative_to_policy=True),
        "SubTB from log Z": SubTrajectoryBalance(1.0, regression=NEAR),
        # what is not known is known to fail: nothing to absorb
        "RapTB": RapTB(absorption_decay=1e-6, prefix_score=REWARD.log_reward_failure, regression=NEAR),
        "GRPO": GRPO(),
        "SFT": Supervised(),
    }
    if name not in made:
        raise ValueError(f"objectives must be among {', '.join(made)}, got {name!r}")
    return made[name]


class Problem:
    """The grammar in tokens, with its rewards.

    Args:
        evidence: Of each program, in nats.
        module: Whose tokenizer it is.
    """

    def __init__(self, evidence: list[float], module: GFlowNetModule) -> None:
        policy, prompt = module.loaded_policy, task_prompt(get_task(TASK))
        self.prompt = tuple(policy.encode_prompt(prompt.rules, prompt.request))
        programs = grammar()[: len(evidence)]
        self.tokens = [tuple(policy.encode_program(program.source)) for program in programs]
        self.known = {ids: index for index, ids in enumerate(self.tokens)}
        names = sorted({program.structure for program in programs})
        self.structure = torch.tensor([names.index(program.structure) for program in programs])
        values = torch.tensor(evidence, dtype=torch.float64)
        self.log_reward = torch.from_numpy(REWARD.from_values(values.numpy(), float(values.max())))

    def batch(self, rows: list[int], outside: list[Trajectory], log_prob: Tensor) -> TrajectoryBatch:
        """Programs of the grammar, with what the policy last gave them, and others."""
        inside = [
            Trajectory(0, self.tokens[row], float(self.log_reward[row]), 0.0, float(log_prob[row]))
            for row in rows
        ]
        return collate([*inside, *outside], {0: self.prompt})

    @torch.no_grad()
    def log_probs(self, module: GFlowNetModule) -> Tensor:
        """Exact log-probability of every program, `[programs]`, float64."""
        pieces = []
        nothing = torch.zeros(len(self.tokens))
        with module.loaded_policy.evaluating():
            for start in range(0, len(self.tokens), 128):
                rows = list(range(start, min(start + 128, len(self.tokens))))
                batch = self.batch(rows, [], nothing)
                pieces.append(loss_inputs(module.loaded_policy, batch, ()).log_prob)
        return torch.cat(pieces).double()

    def stray(self, module: GFlowNetModule, number: int, stream: int) -> list[Trajectory]:
        """The policy's own programs that are not in the grammar, which fail."""
        policy = module.loaded_policy
        sampled = policy.sample([list(self.prompt)], number, module.sampling, seed=module.seed, step=stream)
        rows = [ids[mask] for ids, mask in zip(sampled.program_ids, sampled.program_mask, strict=True)]
        return [
            Trajectory(0, ids, REWARD.log_reward_failure, 0.0, float(log_prob))
            for ids, log_prob in zip(
                (tuple(row.tolist()) for row in rows), sampled.log_prob.tolist(), strict=True
            )
            if ids not in self.known
        ]


def module_for(objective: Objective, seed: int) -> GFlowNetModule:
    """A fresh module around the tiny policy, in training mode."""
    module = GFlowNetModule(
        policy="tiny",
        tasks=[TASK],
        lora=LoraSettings(rank=RANK, alpha=float(RANK)),
        objective=objective,
        log_z_lr=LOG_Z_RATE,
        flow_lr=FLOW_RATE,
        seed=seed,
    )
    module.configure_model()
    return module.train()


@cache
def supervised_start(seed: int, evidence: tuple[float, ...]) -> dict[str, Tensor]:
    """An adapter that writes the grammar's programs, all about equally often."""
    module = module_for(TrajectoryBalance(), seed)
    problem, generator = Problem(list(evidence), module), torch.Generator().manual_seed(seed)
    parameters = [p for p in module.loaded_policy.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=START_RATE, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, START_RATE, START_STEPS, pct_start=0.1)
    nothing = torch.zeros(len(problem.tokens))
    for _ in range(START_STEPS):
        rows = torch.randint(len(problem.tokens), (BATCH,), generator=generator).tolist()
        batch = problem.batch(rows, [], nothing)
        inputs = loss_inputs(module.loaded_policy, batch, {"token_log_probs"})
        optimizer.zero_grad()
        supervised_loss(inputs.named["token_log_probs"], batch.program_mask).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
    return {name: value.clone() for name, value in module.loaded_policy.adapter_state_dict().items()}


def train_on_grammar(
    name: str,
    steps: int,
    seed: int,
    cache_file: Path,
    num_workers: int,
    limit: int | None,
    observe: Callable[[Tensor], object] = len,
) -> dict[str, float]:
    """Trains with one objective and compares with the exact target.

    Args:
        name: Of the objective.
        steps: Training steps.
        seed: Of everything random.
        cache_file: Of scores, see `exact_grammar.scores`.
        num_workers: That score.
        limit: Only so many programs of the grammar.
        observe: Is told the exact log-probability of every program every `REFRESH` steps and at the end.
    """
    evidence = scores(cache_file, num_workers, limit)
    module = module_for(objective_named(name), seed)
    module.loaded_policy.load_adapter_state_dict(supervised_start(seed, tuple(evidence)))
    problem, generator = Problem(evidence, module), torch.Generator().manual_seed(seed + 1)
    groups = module.configure_optimizers().param_groups
    for group in groups:
        group["lr"] = RATE if group["name"] == "adapter" else group["lr"]
    optimizer = torch.optim.Adam([{"params": g["params"], "lr": g["lr"]} for g in groups], betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=0.0)
    trainable = [p for g in groups for p in g["params"]]
    uniform = torch.full((len(problem.tokens),), 1 / len(problem.tokens), dtype=torch.float64)
    explore = 0.0 if name == "GRPO" else UNIFORM
    best = problem.log_reward.topk(min(DEMONSTRATIONS, len(problem.tokens))).indices
    log_prob, stray = problem.log_probs(module), []
    for step in range(steps):
        if step % REFRESH == 0 and step > 0:
            log_prob = problem.log_probs(module)
        if step % REFRESH == 0:
            observe(log_prob)
        if step % SAMPLE == 0:
            stray = problem.stray(module, BATCH, step)
        strays = stray[: round(OUTSIDE * BATCH)] if name != "SFT" else []
        if name == "SFT":
            rows = best[torch.randint(len(best), (BATCH,), generator=generator)]
        else:
            behaviour = (1 - explore) * log_prob.softmax(0) + explore * uniform
            rows = torch.multinomial(behaviour, BATCH - len(strays), True, generator=generator)
        batch = problem.batch(rows.tolist(), strays, log_prob)
        optimizer.zero_grad()
        module.objective_loss(batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        schedule.step()
    log_prob = problem.log_probs(module)
    observe(log_prob)
    gap = module.learned_log_z(0) - float(problem.log_reward.logsumexp(0))
    found, count = modes(log_prob, problem.log_reward, problem.structure)
    return {
        "total_variation": total_variation(log_prob, problem.log_reward),
        "log_z_gap": abs(gap),
        "slope": slope(log_prob, problem.log_reward),
        "modes_found": found,
        "modes": count,
    }
