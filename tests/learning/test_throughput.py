"""Tokens per second and peak memory, precision, and micro-batches in a run."""

import time

import pytest
import torch
from lightning.pytorch import Trainer
from torch.nn.parallel import DistributedDataParallel

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.learning.throughput import Throughput, peak_memory
from synthstats_lightning.objectives import LogVariance
from synthstats_lightning.policy import LoraSettings, ModelSettings, SamplingSettings
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "limit_val_batches": 0,
}


def made(**more):
    settings = {"lora": LoraSettings(rank=2), "sampling": SamplingSettings(max_new_tokens=12), "seed": 3}
    module = GFlowNetModule(**{**settings, **more})
    module.configure_model()
    return module


def loader(module, steps=3, rows=6):
    buffer = ReplayBuffer(recent=4, capacity=10)
    policy = module.loaded_policy
    buffer.register_prompt(0, policy.encode_prompt("rules", "request"))
    for number in range(rows):
        ids = tuple(policy.encode_program(f"x = {number}\n" * (1 + number)))
        buffer.add(Trajectory(0, ids, -20.0 - number, -20.0))
    return ReplayLoader(buffer, 6, steps, seed=1)


def test_tokens_are_counted_over_the_time_that_counts(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    meter = Throughput(torch.device("cpu"))
    mask = torch.tensor([[True, True, False], [True, False, False]])
    meter.trained(mask)
    meter.sampled(mask)
    meter.sampled(mask)
    now[0] += 2.0
    meter.hold()
    meter.sampled(mask)
    now[0] += 50.0
    meter.go_on()
    now[0] += 1.0
    metrics = meter.read()
    assert metrics["perf/trained_tokens_per_second"] == pytest.approx(1.0)
    assert metrics["perf/sampled_tokens_per_second"] == pytest.approx(2.0)
    now[0] += 1.0
    assert meter.read()["perf/trained_tokens_per_second"] == 0.0


def test_peak_memory_grows_with_what_is_used():
    before = peak_memory(torch.device("cpu"))
    used = torch.zeros(2**28, dtype=torch.uint8)
    used += 1
    after = peak_memory(torch.device("cpu"))
    assert after >= before
    assert after > 2**28


@pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`")
def test_a_run_logs_them_and_trains_in_micro_batches_with_a_bfloat16_base(tmp_path):
    seen = {}
    for limit in (None, 64):
        model = ModelSettings(dtype="bfloat16", micro_batch_tokens=limit)
        module = made(objective=LogVariance(), model=model)
        trainer = Trainer(
            max_steps=3, default_root_dir=tmp_path, log_every_n_steps=1, precision="bf16-mixed", **QUIET
        )
        trainer.fit(module, loader(module))
        assert trainer.logged_metrics["perf/trained_tokens_per_second"] > 0
        assert trainer.logged_metrics["perf/peak_memory_gib"] > 0.1
        moments = trainer.optimizers[0].state_dict()["state"]
        assert {state["exp_avg"].dtype for state in moments.values()} == {torch.float32}
        for name, parameter in module.named_parameters():
            frozen = torch.bfloat16 if "policy." in name else torch.float32
            assert parameter.dtype == (torch.float32 if parameter.requires_grad else frozen), name
        seen[limit] = torch.cat([p.detach().flatten() for p in module.parameters() if p.requires_grad])
    fresh = made(model=ModelSettings(dtype="bfloat16"))
    start = torch.cat([p.detach().flatten() for p in fresh.parameters() if p.requires_grad])
    moved = seen[None] - start
    assert float(moved.norm()) > 0
    # bfloat16 rounds differently in other batch sizes, and Adam divides by what is nearly zero
    assert float(torch.cosine_similarity(seen[64] - start, moved, dim=0)) > 0.8


@pytest.fixture
def one_process_group(tmp_path):
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_distributed_training_exchanges_each_gradient_once(one_process_group):
    """DDP refuses a gradient that comes in pieces; in one exchange it is that of the whole batch."""
    found = []
    for limit in (64, None):
        module = made(objective=LogVariance(), model=ModelSettings(micro_batch_tokens=limit))
        batch = next(iter(loader(module)))
        exchanged = []

        def count(state, bucket, exchanged=exchanged):
            exchanged.append(bucket.index())
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        parallel = DistributedDataParallel(Loss(module))
        parallel.register_comm_hook(None, count)
        for _ in range(2):
            exchanged.clear()
            module.zero_grad()
            parallel(batch).backward()
            assert len(exchanged) == len(set(exchanged)) > 0
        found.append(torch.cat([p.grad.flatten() for p in module.parameters() if p.requires_grad]))
    assert float((found[0] - found[1]).norm() / found[1].norm()) < 1e-5


class Loss(torch.nn.Module):
    """Training's forward pass, for DDP to wrap."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, batch):
        return self.module.objective_loss(batch).loss
