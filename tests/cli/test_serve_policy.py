"""The command of an inference server says what the run needs of it."""

from __future__ import annotations

import json
import shlex

import pytest

from synthstats_lightning.cli.main import main
from synthstats_lightning.policy import load_policy
from synthstats_lightning.rollouts.serve_command import ServedModel, serve_command
from synthstats_lightning.tasks import get_task, task_prompt

MODEL = ServedModel("org/model", "base", "bfloat16", rank=12, keep=2, max_tokens=700)
URL = "http://127.0.0.1:8100"


def options(words):
    """Value of each option; of one without a value the empty text."""
    places = [place for place, word in enumerate(words) if word.startswith("--")]
    return {
        words[place]: " ".join(words[place + 1 : end])
        for place, end in zip(places, [*places[1:], len(words)], strict=True)
    }


@pytest.mark.parametrize(
    ("rank", "room"), [(1, 1), (2, 8), (8, 8), (9, 16), (33, 64), (257, 320), (321, 512), (512, 512)]
)
def test_the_rank_is_one_that_vllm_takes(rank, room):
    served = ServedModel("org/model", "base", "bfloat16", rank, 2, 700)
    assert options(serve_command(served, URL).arguments)["--max-lora-rank"] == str(room)


@pytest.mark.parametrize(("keep", "at_once", "loaded"), [(0, 1, 1), (1, 2, 2), (2, 3, 4), (4, 5, 8)])
def test_room_for_the_versions_that_are_kept(keep, at_once, loaded):
    served = ServedModel("org/model", "base", "bfloat16", 8, keep, 700)
    told = options(serve_command(served, URL).arguments)
    assert (told["--max-loras"], told["--max-cpu-loras"]) == (str(at_once), str(loaded))
    told = options(serve_command(served, URL, "sglang").arguments)
    assert (told["--max-loras-per-batch"], told["--max-loaded-loras"]) == (str(at_once), str(loaded))


def test_a_model_that_no_server_takes():
    with pytest.raises(ValueError, match=r"lora.rank must be at most 512 where a server samples, got 513"):
        ServedModel("org/model", "base", "bfloat16", 513, 2, 700)
    on_cpu = ServedModel("org/model", "base", "float32", 8, 2, 700, on_cpu=True)
    with pytest.raises(ValueError, match="SGLang's packages are for GPUs"):
        serve_command(on_cpu, URL, "sglang")


def test_what_else_vllm_is_told():
    served = MODEL.__class__(**{**vars(MODEL), "revision": "v1", "four_bit": True, "api_key_env": "KEY"})
    command = serve_command(served, "http://10.0.0.5")
    told = options(command.arguments)
    assert command.arguments[:3] == ["vllm", "serve", "org/model"]
    assert (told["--host"], told["--port"]) == ("10.0.0.5", "80")
    assert (told["--revision"], told["--quantization"]) == ("v1", "bitsandbytes")
    assert command.environment["VLLM_API_KEY"] == "$KEY"
    assert 'VLLM_API_KEY="$KEY"' in command.shell()
    # the check of the weights needs as many tokens
    short = ServedModel("org/model", "base", "bfloat16", 8, 2, 100)
    assert options(serve_command(short, URL).arguments)["--max-model-len"] == "176"


def test_what_sglang_is_told():
    command = serve_command(MODEL, URL, "sglang")
    told = options(command.arguments)
    assert command.arguments[:5] == ["python", "-m", "sglang.launch_server", "--model-path", "org/model"]
    assert (told["--max-lora-rank"], told["--context-length"], told["--dtype"]) == ("12", "700", "bfloat16")
    assert told["--lora-target-modules"].split()[:2] == ["q_proj", "k_proj"]
    assert command.environment == {}


def test_the_command_of_a_run(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(
        json.dumps({"rollouts": {"url": [URL, "http://127.0.0.1:8101"], "keep": 3, "base_model": "small"}})
    )
    cli = main(
        [
            "serve-policy",
            "--config=quickstart",
            "--config=policy/tiny",
            f"--run={tmp_path}",
            "--model.init_args.lora.rank=12",
        ]
    )
    printed, notes = capsys.readouterr()
    first, second = printed.strip().split("\n\n")
    words = shlex.split(first.replace("\\\n", " "))
    environment = dict(word.split("=", 1) for word in words if word.split("=")[0].isupper())
    assert environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    assert environment["VLLM_TARGET_DEVICE"] == "cpu"  # as trainer.accelerator says
    policy = load_policy("tiny", None)
    longest = len(policy.encode_prompt(*task_prompt(get_task("dugongs")))) + 160
    assert longest < policy.text_config.max_position_embeddings
    told = options(words)
    assert told == {
        "--model": told["--model"],
        "--served-model-name": "small",
        "--host": "127.0.0.1",
        "--port": "8100",
        "--dtype": "float32",
        "--max-model-len": str(longest),
        "--enable-lora": "",
        "--max-lora-rank": "16",
        "--max-loras": "4",
        "--max-cpu-loras": "6",
        "--generation-config": "vllm",
        "--enforce-eager": "",
        "--no-enable-chunked-prefill": "",
    }
    assert load_policy(told["--model"], None).text_config.hidden_size == policy.text_config.hidden_size
    assert options(shlex.split(second.replace("\\\n", " ")))["--port"] == "8101"
    assert len(cli.commands) == 2
    assert f"# {told['--model']} has to be on the server's machine, too" in notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config=quickstart"], "policy 'writer' has tokens for columns"),
        (["--run=nowhere"], "no run at 'nowhere': there is no config.yaml in it"),
        (
            [
                "--config=quickstart",
                "--config=policy/tiny",
                "--model.init_args.lora.target_modules=[embed_tokens]",
            ],
            "lora.target_modules must be among q_proj, k_proj",
        ),
    ],
)
def test_what_is_wrong_is_one_line(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(["serve-policy", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
