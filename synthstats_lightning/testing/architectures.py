"""Language models of many architectures, tiny and with random weights, and an audit of each.

Imports transformers inside functions only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from lightning.pytorch.plugins.precision import HalfPrecision, MixedPrecision, Precision
from torch import Tensor

from synthstats_lightning.policy import LoraSettings, Policy, SampledPrograms, SamplingSettings, load_policy
from synthstats_lightning.policy.hidden import pad_left
from synthstats_lightning.runtime.default_dtype import float32_by_default

VOCABULARY, END = 300, 3
PROMPTS = [[1, 10, 11, 12, 2], [1, 20, 2]]
SAMPLES = 4
"""Programs a prompt."""
SETTINGS = SamplingSettings(max_new_tokens=12)
PrecisionName = Literal["32-true", "bf16-mixed", "bf16-true"]
PRECISIONS: tuple[PrecisionName, ...] = ("32-true", "bf16-mixed", "bf16-true")

_SPECIAL = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": END, "pad_token_id": 0}
_WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_DECODER = {
    **_SPECIAL,
    **_WIDTH,
    "intermediate_size": 64,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
_OLD = {**_SPECIAL, "n_layer": 2, "n_head": 4}
_HEAD = {"head_dim": 8}
_WINDOW = {"sliding_window": 8}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LINEAR = {
    **_HEAD,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
}
_STATES = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}
_LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
_GROUPED = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
_VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_MARKS = {"image_token_index": 299, "boi_token_index": 298, "eoi_token_index": 297, "mm_tokens_per_image": 4}

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", _DECODER),
    "mistral": ("Mistral", _DECODER | _WINDOW),
    "mixtral": ("Mixtral", _DECODER | {"num_local_experts": 4}),
    "qwen2": ("Qwen2", _DECODER),
    "qwen3": ("Qwen3", _DECODER | _HEAD),
    "qwen3_moe": ("Qwen3Moe", _DECODER | _HEAD | _EXPERTS | {"num_experts": 4}),
    "qwen3_next": (
        "Qwen3Next",
        _DECODER | _LINEAR | _EXPERTS | {"num_experts": 4, "shared_expert_intermediate_size": 32},
    ),
    "qwen3_5": ("Qwen3_5", _DECODER | _LINEAR),
    "gemma": ("Gemma", _DECODER | _HEAD),
    "gemma2": ("Gemma2", _DECODER | _HEAD | _WINDOW | {"final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3", _MARKS | {"text_config": _DECODER | _HEAD | _WINDOW, "vision_config": _VISION}),
    "phi": ("Phi", _DECODER | {"tie_word_embeddings": False}),
    "phi3": ("Phi3", _DECODER),
    "gpt2": ("GPT2", _OLD | {"n_embd": 32, "n_positions": 256}),
    "gpt_neo": (
        "GPTNeo",
        _SPECIAL
        | {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8}
        | {"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 256},
    ),
    "gpt_neox": (
        "GPTNeoX",
        _SPECIAL | _WIDTH | {"intermediate_size": 64, "max_position_embeddings": 256},
    ),
    "gptj": ("GPTJ", _OLD | {"n_embd": 32, "n_positions": 256, "rotary_dim": 4}),
    "bloom": ("Bloom", _OLD | {"hidden_size": 32}),
    "opt": (
        "OPT",
        _SPECIAL | _WIDTH | {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 256},
    ),
    "falcon": ("Falcon", _SPECIAL | _WIDTH),
    "mpt": ("Mpt", _SPECIAL | {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 256}),
    "cohere": ("Cohere", _DECODER | {"logit_scale": 0.25}),
    "granite": ("Granite", _DECODER | {"logits_scaling": 4.0}),
    "olmo2": ("Olmo2", _DECODER),
    "deepseek_v3": (
        "DeepseekV3",
        _DECODER | _LATENT | _GROUPED | _EXPERTS | {"num_key_value_heads": 4},
    ),
    "gpt_oss": ("GptOss", _DECODER | _HEAD | _WINDOW | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "lfm2": ("Lfm2", _DECODER | {"layer_types": ["conv", "full_attention"], "block_multiple_of": 16}),
    "bamba": ("Bamba", _DECODER | _STATES | {"attn_layer_indices": [1]}),
    "mamba2": (
        "Mamba2",
        _SPECIAL
        | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8}
        | {"n_groups": 2, "chunk_size": 8, "initializer_range": 0.2},
    ),
    "mamba": (
        "Mamba",
        _SPECIAL | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "initializer_range": 0.2},
    ),
}
"""Name to what transformers calls it and its configuration."""


class ArchitectureAudit(NamedTuple):
    """How a policy of an architecture compares with plain forward passes of its model.

    Attributes:
        log_prob_error: Largest difference of a program's log-probability, sampled or teacher-forced, from
            that of a pass over one unpadded sequence, in nats.
        gradient_error: Largest difference of a parameter's gradient, by the norm of all gradients.
        trained: Precisions under which two training steps moved the adapter and left all of it finite.
    """

    log_prob_error: float
    gradient_error: float
    trained: tuple[str, ...]


def save_architecture(name: str, folder: Path, positions: int | None = None) -> None:
    """Writes a tiny random model, and a tokenizer of words that are numbers, to a folder.

    Args:
        name: Key of `ARCHITECTURES`.
        folder: Where to; it must exist.
        positions: Tokens that the model knows, of architectures that say it by `max_position_embeddings`.
    """
    import transformers
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<task>": 1, "<program>": 2, "<end>": END}
    words |= {str(number): number for number in range(len(words), VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))  # noqa: S106 - no password
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")  # noqa: S106
    fast.save_pretrained(folder)
    kind, settings = ARCHITECTURES[name]
    if positions is not None:
        known = {"max_position_embeddings": positions}
        inner = settings.get("text_config")
        settings = settings | (known if inner is None else {"text_config": inner | known})
    config = getattr(transformers, f"{kind}Config", None)
    if kind == "Qwen3_5":
        config = transformers.Qwen3_5TextConfig
    head = (
        "LMHeadModel" if kind == "GPT2" else "ForConditionalGeneration" if kind == "Gemma3" else "ForCausalLM"
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        getattr(transformers, kind + head)(config(**settings)).save_pretrained(folder)  # type: ignore[misc]


def awake_policy(folder: Path) -> Policy:
    """A policy from a folder whose adapter differs from the identity.

    Args:
        folder: What `save_architecture` wrote.
    """
    policy = load_policy(str(folder), LoraSettings(rank=2), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return policy


def audit_architecture(folder: Path) -> ArchitectureAudit:
    """Compares a policy with its model, and trains it for two steps under each precision.

    Args:
        folder: What `save_architecture` wrote.
    """
    policy = awake_policy(folder)
    drawn = policy.sample(PROMPTS, SAMPLES, SETTINGS, seed=0)
    expected = _plain_log_probs(policy, drawn)
    # rows that share their prompts, and rows that do not, as in a warm start
    ours = [_log_probs(policy, drawn, share) for share in (True, False)]
    error = max(float((values - expected).abs().max().detach()) for values in (drawn.log_prob, *ours))
    plain = _gradient(policy, expected)
    gradient = max(float((_gradient(policy, values) - plain).abs().max()) for values in ours)
    trained = tuple(name for name in PRECISIONS if trains(folder, name))
    return ArchitectureAudit(error, gradient / float(plain.norm()), trained)


def trains(folder: Path, precision: PrecisionName) -> bool:
    """Whether two training steps move the adapter, and leave all of it finite and in float32.

    Args:
        folder: What `save_architecture` wrote.
        precision: Name of the trainer's precision.
    """
    plugin: Precision = Precision()
    if precision == "bf16-mixed":
        plugin = MixedPrecision(precision, "cpu")
    elif precision == "bf16-true":
        plugin = HalfPrecision(precision)
    policy: Policy = plugin.convert_module(awake_policy(folder))  # type: ignore[assignment]
    adapter = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    before = [parameter.detach().clone() for parameter in adapter]
    optimizer = torch.optim.AdamW(adapter, lr=1e-3)
    for step in range(2):
        with plugin.forward_context(), float32_by_default():
            drawn = policy.sample(PROMPTS, SAMPLES, SETTINGS, seed=0, step=step)
            loss = (_log_probs(policy, drawn) + 20.0).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    moved = any(not torch.equal(old, new) for old, new in zip(before, adapter, strict=True))
    sound = all(bool(each.isfinite().all()) and each.dtype == torch.float32 for each in adapter)
    return moved and sound


def _log_probs(policy: Policy, drawn: SampledPrograms, share_prompts: bool = True) -> Tensor:
    prompt_ids, prompt_mask = pad_left(PROMPTS, policy.pad_token_id)
    rows = drawn.prompt_index
    return policy.program_log_probs(
        prompt_ids[rows], drawn.program_ids, drawn.program_mask, prompt_mask[rows], share_prompts
    )


def _plain_log_probs(policy: Policy, drawn: SampledPrograms) -> Tensor:
    """By one unpadded sequence after the other, through the whole model."""
    found = []
    for row, prompt in enumerate(drawn.prompt_index.tolist()):
        program = drawn.program_ids[row][drawn.program_mask[row]]
        ids = torch.cat([torch.tensor(PROMPTS[prompt]), program])
        logits = policy.model(input_ids=ids[None]).logits[0].float()
        log_probs = logits[len(PROMPTS[prompt]) - 1 : -1].log_softmax(-1)
        found.append(log_probs.gather(-1, program[:, None]).sum())
    return torch.stack(found)


def _gradient(policy: Policy, log_probs: Tensor) -> Tensor:
    adapter = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(log_probs.sum(), adapter, allow_unused=True)
    pairs = zip(found, adapter, strict=True)
    return torch.cat([(torch.zeros_like(of) if each is None else each).reshape(-1) for each, of in pairs])
