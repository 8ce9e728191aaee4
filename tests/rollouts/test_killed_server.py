"""A server that is killed in the middle of `fit`, and comes back without the adapters that it had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from synthstats_lightning.policy import load_policy
from synthstats_lightning.rollouts import ServerRollouts, server_backend
from synthstats_lightning.testing.listed_language import LORA, save_listed_model
from synthstats_lightning.testing.listed_training import train_listed
from synthstats_lightning.testing.server_process import ServerProcess
from tests.support import relay
from tests.support.completion_server import serving

SIZE = {"steps": 5, "programs": 16}


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("listed")
    save_listed_model(folder)
    return folder


@pytest.fixture(scope="module")
def stub(listed):
    with serving(load_policy(str(listed), LORA, seed=9)) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(listed, stub, tmp_path_factory):
    return train(listed, tmp_path_factory.mktemp("undisturbed"), stub.url)


def train(listed, folder, url):
    return train_listed(listed, folder, [ServerRollouts(url, publish_every=2, overlap=False)], **SIZE)


def versions(stub):
    """What the server was asked to load, by their steps."""
    return [body["lora_name"].rpartition("-")[2] for body in stub.bodies("/load_lora_adapter")]


@pytest.mark.parametrize(
    ("moment", "loaded"),
    [
        ("while it writes programs", ["v000000", "v000002", "v000002", "v000004"]),
        ("while it loads an adapter", ["v000000", "v000002", "v000002", "v000004"]),
        ("while an adapter is checked", ["v000000", "v000002", "v000002", "v000004"]),
    ],
)
def test_the_run_waits_says_so_and_loses_nothing(
    listed, stub, undisturbed, tmp_path, monkeypatch, moment, loaded
):
    said, killed = [], []
    process = ServerProcess([sys.executable, relay.__file__, "{port}", str(stub.port)], tmp_path / "log")
    process.start()

    def told(message):
        said.append(message)
        process.start()  # not before the run has said that it waits

    def before(path, body):
        second = "v000002" in str(body.get("model", body.get("lora_name", "")))
        checks = body.get("ignore_eos", False)
        now = {
            "while it writes programs": path.endswith("completions") and not checks,
            "while it loads an adapter": path.endswith("load_lora_adapter") and "unload" not in path,
            "while an adapter is checked": path.endswith("completions") and checks,
        }[moment]
        if killed or not (second and now):
            return None
        killed.append(path)
        process.kill()
        stub.adapters.clear()
        return 503, "nobody hears this"

    monkeypatch.setattr(server_backend, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(server_backend, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(server_backend, "rank_zero_warn", told)
    stub.log.clear()
    monkeypatch.setattr(stub, "before", before)
    try:
        found = train(listed, tmp_path, process.url)
    finally:
        process.kill()
    assert killed
    (message,) = said
    assert message.startswith("the inference server is away: ")
    assert "waiting for it, 600 s at most" in message
    assert versions(stub) == loaded
    # the same programs, and so the same policy, bit for bit
    assert found.drawn == undisturbed.drawn
    assert [len(each) for each in found.drawn] == [SIZE["programs"]] * SIZE["steps"]
    assert found.total_variation == undisturbed.total_variation
    assert found.log_z == undisturbed.log_z
    assert not stub.adapters
