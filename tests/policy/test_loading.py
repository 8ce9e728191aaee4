from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, ModelSettings, SamplingSettings, load_policy
from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.policy.language_part import PolicyError
from synthstats_lightning.policy.loading import TINY, resolve
from tests.policy.conftest import awaken, save_random_model


@pytest.mark.parametrize(
    "name", ["./no/such/folder", "/no/such/folder", "~/no-such-folder", "no/such/folder"]
)
def test_missing_folder_is_one_clear_line(name: str) -> None:
    with pytest.raises(FileNotFoundError) as error:
        load_policy(name)
    message = str(error.value)
    assert repr(name) in message
    assert "'tiny'" in message
    assert "\n" not in message


def test_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no config\.json"):
        load_policy(str(tmp_path))


def test_hub_failure_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def refuse(*args, **kwargs):
        raise OSError("we could not\nconnect")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    with pytest.raises(
        OSError,
        match=r"no model 'someone/some-model': give 'tiny', .*'writer', an existing.*we could not connect",
    ):
        load_policy("someone/some-model")


def test_hub_names_pass_and_folders_resolve(model_folder: Path) -> None:
    assert resolve("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"
    assert resolve("gpt2") == "gpt2"
    assert resolve(str(model_folder)) == str(model_folder)


def test_tiny_loads_offline_in_float32() -> None:
    policy = load_policy(TINY)
    assert {parameter.dtype for parameter in policy.parameters()} == {torch.float32}
    ids = policy.encode_prompt(
        "rules", "Lengths of animals.\nrows: 27\nage: real, 1 to 31.5\nresponse length: real"
    )
    sampled = policy.sample([ids], 4, SamplingSettings(max_new_tokens=64), seed=0)
    assert torch.allclose(sampled.log_prob, sampled.reference_log_prob, atol=1e-3)
    assert policy.identity()["name"] == TINY


def test_dtype_of_the_base_is_a_choice_and_of_the_adapter_not(model_folder: Path) -> None:
    policy = load_policy(str(model_folder), LoraSettings(rank=2), ModelSettings(dtype="bfloat16"))
    dtypes = {p.requires_grad: p.dtype for p in policy.parameters()}
    assert dtypes == {True: torch.float32, False: torch.bfloat16}


def test_unknown_dtype_is_an_error() -> None:
    settings = ModelSettings()
    object.__setattr__(settings, "dtype", "int8")  # past the type checks of the test suite
    with pytest.raises(ValueError, match="dtype must be one of auto, float32, bfloat16, float16, got 'int8'"):
        settings.__post_init__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_four_bits_without_a_gpu_is_an_error(model_folder: Path) -> None:
    with pytest.raises(ValueError, match="load_in_4bit: true needs a CUDA device"):
        load_policy(str(model_folder), model=ModelSettings(load_in_4bit=True))


def test_four_bits_without_bitsandbytes_names_the_extra(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"synthstats-lightning\[quantization\]"):
        load_policy(str(model_folder), model=ModelSettings(load_in_4bit=True))


SMALL = {"vocab_size": 300, "bos_token_id": None, "eos_token_id": 3, "pad_token_id": 0}
DECODER = SMALL | {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}


def architecture(name: str):
    """Architectures that differ in positions, caches and heads."""
    import transformers as t

    if name == "gpt2":  # learned positions, another backbone name
        return t.GPT2LMHeadModel(t.GPT2Config(**SMALL, n_embd=32, n_layer=2, n_head=4, n_positions=256))
    if name == "gemma2":  # capped logits, alternating sliding windows
        config = t.Gemma2Config(**DECODER, head_dim=8, sliding_window=8, final_logit_softcapping=3.0)
        return t.Gemma2ForCausalLM(config)
    if name == "cohere":  # scaled logits
        return t.CohereForCausalLM(t.CohereConfig(**DECODER, logit_scale=0.25))
    if name == "granite":  # divided logits
        return t.GraniteForCausalLM(t.GraniteConfig(**DECODER, logits_scaling=4.0))
    if name == "phi":  # head with a bias
        return t.PhiForCausalLM(t.PhiConfig(**DECODER, tie_word_embeddings=False))
    if name == "bloom":  # no position ids
        return t.BloomForCausalLM(t.BloomConfig(**SMALL, hidden_size=32, n_layer=2, n_head=4))
    return t.LlamaForCausalLM(t.LlamaConfig(**DECODER))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "cohere", "granite", "phi", "bloom"])
def test_other_architectures_sample_and_score_alike(name: str, tmp_path: Path) -> None:
    save_random_model(tmp_path)  # for its tokenizer
    with torch.random.fork_rng():
        torch.manual_seed(0)
        architecture(name).save_pretrained(tmp_path)
    policy = awaken(load_policy(str(tmp_path), LoraSettings(rank=2), seed=0))
    prompts = [[1, 10, 11, 12, 2], [1, 20, 2]]
    sampled = policy.sample(prompts, 4, SamplingSettings(max_new_tokens=12), seed=0)
    assert float(sampled.log_prob.abs().min()) > 1
    for row, index in enumerate(sampled.prompt_index.tolist()):
        program = sampled.program_ids[row][sampled.program_mask[row]].tolist()
        with torch.no_grad():
            ids = torch.tensor([prompts[index] + program])
            logits = policy.model(input_ids=ids).logits[0].log_softmax(-1)
        start = len(prompts[index]) - 1
        expected = logits[torch.arange(start, start + len(program)), program].sum()
        assert torch.allclose(sampled.log_prob[row], expected, atol=1e-3)
    prompt_ids, prompt_mask = pad_left(prompts, 0)
    index = sampled.prompt_index
    forced = policy.program_log_probs(
        prompt_ids[index], sampled.program_ids, sampled.program_mask, prompt_mask[index]
    )
    assert torch.allclose(sampled.log_prob, forced, atol=1e-3)
    forced.sum().backward()
    assert all(p.grad is not None for p in policy.parameters() if p.requires_grad)


def test_a_head_that_is_not_understood_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import Qwen3ForCausalLM

    folder = save_random_model(tmp_path)
    original = Qwen3ForCausalLM.forward

    def other(self, *args, **kwargs):
        output = original(self, *args, **kwargs)
        output.logits = output.logits**3
        return output

    monkeypatch.setattr(Qwen3ForCausalLM, "forward", other)
    with pytest.raises(ValueError, match="Qwen3ForCausalLM changes its logits"):
        load_policy(str(folder))


@pytest.mark.parametrize("kind", ["recurrent_gemma", "rwkv", "xlstm"])
def test_an_architecture_whose_log_probs_would_be_wrong_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(PolicyError, match=f"is a {kind} model, which cannot be trained here: it") as refused:
        load_policy(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_importing_the_room_is_light() -> None:
    code = (
        "import sys, synthstats_lightning.policy; "
        "print([m for m in ('transformers', 'peft') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
