"""Versions of an adapter: their order, what servers keep of them, and what stays on the disk."""

from __future__ import annotations

import peft
import pytest
import torch

from synthstats_lightning.policy import LoraSettings, SamplingSettings, copy_adapter, load_policy
from synthstats_lightning.rollouts import AdapterVersions, Connection, RolloutError, ServerBackend
from synthstats_lightning.rollouts import adapter_versions as versions_file
from synthstats_lightning.rollouts.adapter_versions import check_adapter
from synthstats_lightning.rollouts.connection import is_public
from synthstats_lightning.rollouts.errors import AdapterError
from tests.policy.test_sampling import PROMPTS, stop_often
from tests.rollouts.conftest import change, publish
from tests.support.completion_server import serving

SETTINGS = SamplingSettings(max_new_tokens=6)


def test_a_version_is_what_peft_reads(policy, backend, folder):
    change(policy, 3)
    version = backend.versions.write(policy, 120)
    assert version.name == f"{backend.versions.run}-v000120"
    written = backend.versions.folder / version.name
    again = load_policy(str(folder), LoraSettings(rank=4), seed=5)
    peft.set_peft_model_state_dict(again.model, peft.load_peft_weights(str(written)))
    own, read = copy_adapter(policy), copy_adapter(again)
    assert all(torch.equal(read[name], value) for name, value in own.items())
    assert sorted(path.name for path in backend.versions.folder.iterdir()) == [version.name]


def test_old_versions_go_from_the_server_and_later_from_the_disk(policy, server, backend):
    versions = [publish(backend, policy, step) for step in range(0, 40, 8)]
    names = [version.name for version in versions]
    assert len(set(names)) == 5
    assert [body["lora_name"] for body in server.bodies("/load_lora_adapter")] == names
    assert [body["lora_name"] for body in server.bodies("unload_lora_adapter")] == names[:3]
    assert sorted(server.adapters) == names[3:]
    on_disk = sorted(path.name for path in backend.versions.folder.iterdir())
    assert on_disk == names[2:]  # one longer: servers read what they have evicted again
    assert backend.versions.current == versions[-1]
    backend.versions.close()
    assert not server.adapters
    assert list(backend.versions.folder.iterdir()) == []


def test_a_folder_stays_while_a_request_names_it(policy, server, backend):
    with_request = publish(backend, policy)
    with backend.versions.requested() as named:
        assert named == with_request
        for step in (1, 2, 3, 4):
            publish(backend, policy, step)
        assert (backend.versions.folder / named.name).is_dir()
    publish(backend, policy, 5)
    assert not (backend.versions.folder / named.name).exists()


@pytest.mark.parametrize("api", ["vllm", pytest.param("sglang", marks=pytest.mark.slow)])
def test_a_server_that_was_started_anew_gets_the_version_again(policy, server, backend):
    version = publish(backend, stop_often(policy))
    before = policy.sample(PROMPTS, 2, SETTINGS, seed=0, backend=backend)
    server.stop()
    server.start()
    after = policy.sample(PROMPTS, 2, SETTINGS, seed=0, backend=backend)
    assert torch.equal(before.program_ids, after.program_ids)
    assert {body["lora_name"] for body in server.bodies("/load_lora_adapter")} == {version.name}


def test_every_replica_has_every_version_and_its_part_of_the_programs(policy, server, folder, tmp_path):
    with serving(load_policy(str(folder), LoraSettings(rank=4, alpha=8.0), seed=1)) as second:
        connections = [Connection(each.url) for each in (server, second)]
        backend = ServerBackend(connections, AdapterVersions(connections, tmp_path / "adapters"))
        try:
            version = publish(backend, stop_often(policy))
            policy.sample(PROMPTS, 1, SETTINGS, seed=0, backend=backend)
        finally:
            backend.close()
        for each in (server, second):
            assert each.paths() == ["/v1/load_lora_adapter", "/v1/completions"]
            assert list(each.adapters) == [version.name]


def test_a_folder_that_shows_late_is_waited_for(policy, server, backend, monkeypatch):
    monkeypatch.setattr(versions_file, "LATE_PAUSE", 0.01)
    missing = [3]

    def late(path, body):
        if path.endswith("/load_lora_adapter") and missing[0]:
            missing[0] -= 1
            return 404, {"error": {"message": "No adapter found"}}
        return None

    server.before = late
    publish(backend, policy)
    assert missing == [0]


@pytest.mark.parametrize("api", ["sglang"])
def test_what_sglang_says_of_an_adapter(policy, server, backend, monkeypatch):
    monkeypatch.setattr(versions_file, "LATE_PAUSE", 0.01)
    words = ["[Errno 2] No such file or directory: 'adapter_config.json'", "rank 64 exceeds max_lora_rank 16"]

    def refused(path, body):
        assert path == "/load_lora_adapter"
        return 400, {"success": False, "error_message": words.pop(0), "loaded_adapters": {}}

    server.before = refused
    with pytest.raises(RolloutError, match=r"status 400: rank 64 .*--enable-lora, --max-lora-rank"):
        publish(backend, policy)
    assert not words


def test_where_the_server_sees_the_folder(policy, server, backend, tmp_path):
    versions = AdapterVersions(backend.connections, tmp_path / "here", path_on_server=str(tmp_path / "there"))
    (tmp_path / "there").symlink_to(tmp_path / "here")
    versions.load(versions.write(policy, 0))
    assert server.bodies("/load_lora_adapter")[0]["lora_path"].startswith(str(tmp_path / "there"))


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"detail": "Not Found"}),
        (500, {"error": {"message": "add_lora failed: LoRA rank 64 is greater than max_lora_rank 16."}}),
        (403, "forbidden"),
    ],
)
def test_a_server_that_loads_nothing_ends_the_run(policy, server, backend, answer):
    server.before = lambda path, body: answer
    words = answer[1] if isinstance(answer[1], str) else str(answer[1])
    with pytest.raises(RolloutError, match=rf"status {answer[0]}: .*--enable-lora") as caught:
        publish(backend, policy)
    assert "rank 64" in str(caught.value) or "rank 64" not in words


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_modules": ["q_proj", "embed_tokens"]}, "target_modules must be among .*, got embed_tokens"),
        ({"modules_to_save": ["lm_head"]}, r"modules_to_save must be null where a server samples, got"),
        (None, "need an adapter to publish"),
    ],
)
def test_adapters_that_a_server_would_not_apply(folder, settings, message):
    lora = None if settings is None else LoraSettings(rank=2, **settings)
    # what the command line says in one line
    with pytest.raises(AdapterError, match=message):
        check_adapter(load_policy(str(folder), lora, seed=0))
    check_adapter(load_policy(str(folder), LoraSettings(rank=2), seed=0))


def test_public_addresses():
    assert is_public("http://8.8.8.8:8000")
    assert not is_public("http://127.0.0.1:8000")
    assert not is_public("http://10.0.0.7")
    assert not is_public("http://[::1]:8000/v1")
