"""Peak memory of one forward and backward pass, in a process of its own.

    cd benchmarks; python -m learning_parts.throughput_memory ours

prints one line of JSON: peak bytes beyond what model and inputs take, the loss, and the gradient's norm.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path

import torch
from figures_file import Options
from learning_parts.throughput_models import policy
from torch import Tensor

from synthstats_lightning.policy import ModelSettings, Policy

FORMS = ("naive", "ours", "micro-batches")
ROWS, PROMPT, TIME, PIECE = 16, 64, 128, 1_024


def naive(model: Policy, prompt: Tensor, program: Tensor) -> Tensor:
    """The log-softmax of all logits."""
    ids = torch.cat([prompt, program], 1)
    logits = model.model(input_ids=ids).logits[:, prompt.shape[1] - 1 : -1].float()
    return logits.log_softmax(-1).gather(-1, program[..., None])[..., 0].sum(1)


def one_pass(form: str, model: Policy, prompt: Tensor, program: Tensor) -> Tensor:
    """A loss, after its backward pass."""
    if form == "naive":
        log_prob = naive(model, prompt, program)
    else:
        log_prob = model.program_log_probs(prompt, program, torch.ones_like(program, dtype=torch.bool))
    loss = (log_prob + 20.0).square().mean()
    model.zero_grad()
    loss.backward()
    return loss.detach()


def start_peak(device: torch.device) -> int:
    """Bytes in use; what `peak` says from here on is of what follows."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak of resident pages
    return resident("VmRSS")


def peak(device: torch.device) -> int:
    """Most bytes in use since `start_peak`."""
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else resident("VmHWM")


def resident(name: str) -> int:
    """A number of bytes that the kernel knows of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def main() -> None:
    """Measures one form."""
    parser = Options(description=__doc__.split("\n\n")[0])
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("--model", default="wide", help="see throughput_models.SHAPES")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(arguments.device)
    settings = ModelSettings(micro_batch_tokens=PIECE if arguments.form == "micro-batches" else None)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = policy(arguments.model, dtype, settings).to(device)
    vocabulary = model.language_model.config.vocab_size
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(4, vocabulary, (1, PROMPT), generator=generator).expand(ROWS, -1).to(device)
    program = torch.randint(4, vocabulary, (ROWS, TIME), generator=generator).to(device)
    # what libraries allocate at first use is no part of the pass
    one_pass(arguments.form, model, prompt[:1], program[:1, :2])
    start = start_peak(device)
    loss = one_pass(arguments.form, model, prompt, program)
    used = peak(device) - start
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    print(json.dumps({"bytes": used, "loss": float(loss), "gradient": float(norm)}))


if __name__ == "__main__":
    main()
