"""Cost of the objectives: sub-trajectory balance against a loop and trajectory balance, and memory.

    python benchmarks/objectives.py --json objectives.json

Time against a loop is that of forward and backward passes from given token log-probabilities, one thread,
median of many. Against trajectory balance it is the processor time of a whole step of the bundled policy at
the quickstart's settings, sampling and flow head included, while the two take turns.
Memory is the peak of a process of its own beyond what its inputs take (`ru_maxrss`; on a GPU, the allocator's
peak).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from figures_file import Options, figures_file
from learning_parts.whole_step import subtb_against_tb
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from synthstats_lightning.objectives import SubTrajectoryBalance, TrajectoryBalance
from synthstats_lightning.policy.log_probs import OutputHead, token_and_stop_log_probs

BATCH, TIME, DECAY = 64, 512, 0.9
TB, SUBTB = TrajectoryBalance(), SubTrajectoryBalance(DECAY)
VOCABULARY, TOKENS, HIDDEN, STOPS = 151_936, 4_096, 64, (151_643, 151_645)
TARGETS = {
    "subtb_vs_loop": "at least 10",
    "subtb_step_vs_tb_step": "at most 1.1",
    "memory_ratio": "at most 0.25",
    "worst_error": "at most 1e-5",
}


def batch() -> dict[str, Tensor]:
    """Random token log-probabilities, flows and rewards of programs of 256 to 512 tokens."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(TIME // 2, TIME + 1, (BATCH,), generator=generator)
    return {
        "token_log_probs": -torch.rand(BATCH, TIME, generator=generator),
        "mask": torch.arange(TIME) < lengths[:, None],
        "log_flow": torch.randn(BATCH, TIME, generator=generator),
        "log_reward": torch.randn(BATCH, generator=generator),
        "log_z": torch.randn(BATCH, generator=generator),
    }


def loop_over_lengths(inputs: dict[str, Tensor]) -> Tensor:
    """SubTB(λ), each trajectory by itself normalised, one length of window after another."""
    mask, log_reward = inputs["mask"], inputs["log_reward"]
    end = mask.sum(1, keepdim=True)
    states = torch.arange(TIME + 1)
    flow = torch.cat([inputs["log_z"][:, None], inputs["log_flow"][:, 1:], log_reward[:, None]], 1)
    flow = torch.where(states < end, flow, log_reward[:, None])
    reached = nn.functional.pad(inputs["token_log_probs"].masked_fill(~mask, 0.0).cumsum(1), (1, 0))
    total, weight = torch.zeros(BATCH), torch.zeros(BATCH)
    for length in range(1, TIME + 1):
        residual = flow[:, :-length] + reached[:, length:] - reached[:, :-length] - flow[:, length:]
        counted = states[length:] <= end
        total = total + DECAY**length * torch.where(counted, residual.square(), 0.0).sum(1)
        weight = weight + DECAY**length * counted.sum(1)
    return (total / weight).mean()


def milliseconds(loss: Callable[[dict[str, Tensor]], Tensor], repeats: int) -> float:
    """Median time of a forward and backward pass."""
    inputs = batch()
    leaves = [inputs[name].requires_grad_() for name in ("token_log_probs", "log_flow", "log_z")]
    times = []
    for _ in range(repeats):
        for leaf in leaves:
            leaf.grad = None
        started = time.perf_counter()
        loss(inputs).backward()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


def trajectory_balance(inputs: dict[str, Tensor]) -> Tensor:
    """The whole program's loss."""
    log_prob = inputs["token_log_probs"].masked_fill(~inputs["mask"], 0.0).sum(1)
    return TB(log_prob, inputs["log_reward"], inputs["log_z"]).loss


def sub_trajectory_balance(inputs: dict[str, Tensor]) -> Tensor:
    """SubTB(λ), vectorised."""
    log_reward, log_z = inputs["log_reward"], inputs["log_z"]
    tokens, mask, flow = inputs["token_log_probs"], inputs["mask"], inputs["log_flow"]
    # the program's log-probability is not read by this objective
    return SUBTB(log_reward, log_reward, log_z, token_log_probs=tokens, mask=mask, log_flow=flow).loss


def times(repeats: int) -> dict[str, float]:
    """Times in milliseconds, after a check that both forms of SubTB say the same."""
    loop, ours = loop_over_lengths(batch()), sub_trajectory_balance(batch())
    if not torch.allclose(loop, ours, rtol=1e-3):
        raise RuntimeError(f"the loop says {float(loop)}, the vectorised form {float(ours)}")
    for warm in (trajectory_balance, sub_trajectory_balance):
        milliseconds(warm, 20)
    return {
        "loop": milliseconds(loop_over_lengths, max(3, repeats // 30)),
        "subtb": milliseconds(sub_trajectory_balance, repeats),
        "tb": milliseconds(trajectory_balance, repeats),
    }


def vocabulary_pass(form: str, device: str) -> dict[str, Any]:
    """Peak memory in bytes of a forward and backward pass, and the values, in this process."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(HIDDEN, VOCABULARY, bias=False).requires_grad_(False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) / HIDDEN**0.5)
    layer = layer.to(device)
    hidden = (2 * torch.randn(TOKENS, HIDDEN, generator=generator)).to(device).requires_grad_()
    targets = torch.randint(VOCABULARY, (TOKENS,), generator=generator).to(device)
    # libraries load on first use, which is no part of the pass
    one_pass("ours", layer, hidden[:2], targets[:2])
    one_pass("naive", layer, hidden[:2], targets[:2])
    start = peak(device)
    values = one_pass(form, layer, hidden, targets)
    used = peak(device) - start
    return {"bytes": used, "values": torch.stack(values).tolist()}


def one_pass(form: str, layer: nn.Linear, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Token and stop log-probabilities of one form, after their backward pass."""
    if form == "ours":
        token, stop = token_and_stop_log_probs(hidden, targets, OutputHead(layer), STOPS)
    else:
        table = layer(hidden).log_softmax(-1)
        token = table.gather(-1, targets[:, None])[:, 0]
        stop = table[:, list(STOPS)].logsumexp(-1)
    (token.sum() + stop.sum()).backward()
    return token.detach(), stop.detach()


def peak(device: str) -> int:
    """Most memory so far."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_own_process(form: str, device: str) -> dict[str, Any]:
    """`vocabulary_pass` in a process that has done nothing else."""
    command = [sys.executable, __file__, "--pass", form, "--device", device]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measures, prints and writes."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=figures_file, help="where to write the figures")
    parser.add_argument("--repeats", type=int, default=300, help="passes that are timed")
    parser.add_argument("--rounds", type=int, default=10, help="of whole steps, two each, that are timed")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of the memory figures")
    parser.add_argument("--pass", dest="form", choices=["ours", "naive"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.form:
        print(json.dumps(vocabulary_pass(arguments.form, arguments.device)))
        return
    measured = times(arguments.repeats)
    ours, naive = (in_own_process(form, arguments.device) for form in ("ours", "naive"))
    error = (torch.tensor(ours["values"]) - torch.tensor(naive["values"])).abs().max()
    figures = {
        "subtb_vs_loop": measured["loop"] / measured["subtb"],
        "subtb_step_vs_tb_step": subtb_against_tb(arguments.rounds),
        "memory_ratio": ours["bytes"] / naive["bytes"],
        "worst_error": float(error),
    }
    table = Table(title=f"Objectives: B = {BATCH}, T = {TIME}; V = {VOCABULARY}, B·T = {TOKENS}")
    for column in ("figure", "measured", "target"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name, value in figures.items():
        table.add_row(name, f"{value:.3g}", TARGETS[name])
    console = Console()
    console.print(table)
    console.print(
        f"forward and backward: loop {measured['loop']:.1f} ms, SubTB {measured['subtb']:.3f} ms,"
        f" TB {measured['tb']:.3f} ms; peak: {ours['bytes'] / 2**20:.0f} MiB against"
        f" {naive['bytes'] / 2**20:.0f} MiB"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
