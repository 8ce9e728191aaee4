"""A trainer's policy with an adapter, and a server that has a policy of the same base."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, Policy, load_policy
from synthstats_lightning.rollouts import (
    AdapterVersions,
    Connection,
    ServerBackend,
    connection,
    server_backend,
)
from tests.policy.conftest import awaken, save_random_model
from tests.support.completion_server import CompletionServer, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_random_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def policy(folder) -> Policy:
    """The trainer's."""
    return awaken(load_policy(str(folder), LoraSettings(rank=4, alpha=8.0), seed=0))


@pytest.fixture(scope="module")
def served_policy(folder) -> Policy:
    """The server's, with another adapter than the trainer's."""
    return awaken(load_policy(str(folder), LoraSettings(rank=4, alpha=8.0), seed=1), 0.1)


@pytest.fixture
def server(served_policy):
    """It writes with its own adapter under no name: each has to be published."""
    with serving(served_policy) as running:
        yield running
        served_policy.load_adapter_state_dict(running.first)


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(connection, "LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(server_backend, "TELL_SECONDS", 1e9)


@pytest.fixture
def api():
    """What servers are asked in."""
    return "vllm"


@pytest.fixture
def backend(server: CompletionServer, tmp_path, api):
    """Connected; nothing is published yet."""
    connected = Connection(server.url, timeout_s=60.0, patience_s=60.0, api=api)
    made = ServerBackend([connected], AdapterVersions([connected], tmp_path / "adapters", keep=1))
    yield made
    made.close()


def publish(backend: ServerBackend, policy: Policy, step: int = 0):
    """The policy's adapter is what the server writes with from now on."""
    version = backend.versions.write(policy, step)
    backend.versions.load(version)
    backend.versions.use(version)
    return version


def change(policy: Policy, seed: int, scale: float = 0.1) -> None:
    """Other weights of the adapter, as after some training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in policy.parameters():
            if value.requires_grad:
                value.add_(scale * torch.randn(value.shape, generator=generator))
