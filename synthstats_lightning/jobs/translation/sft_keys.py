"""The keys of a job that imitates examples."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.key import Key
from synthstats_lightning.jobs.translation.shared_keys import COMPUTE, LORA, MODES, TAGS

PARALLELISM = (
    Key(
        "hyperparameters.parallelism.bf16",
        "boolean",
        "Products in bfloat16, weights of the adapter in float32 (`bf16-mixed`).",
        default=False,
    ),
    Key(
        "hyperparameters.parallelism.fp16",
        "boolean",
        "Must be false: bf16 has the range that log-probabilities need.",
        default=False,
    ),
    Key(
        "hyperparameters.parallelism.activation_checkpointing",
        "boolean",
        "Recomputes activations in the backward pass: less memory, more time.",
        path="model.init_args.model.gradient_checkpointing",
    ),
    Key(
        "hyperparameters.parallelism.fsdp",
        "boolean",
        "Must be false: the policy is not sharded; several GPUs train by DDP.",
        default=False,
    ),
    *(
        Key(
            f"hyperparameters.parallelism.{name}",
            kind,  # type: ignore[arg-type]
            "Is refused: it belongs to FSDP.",
        )
        for name, kind in (
            ("fsdp_sharding_strategy", "text"),
            ("fsdp_auto_wrap_policy", "text"),
            ("fsdp_use_orig_params", "boolean"),
        )
    ),
    Key(
        "hyperparameters.parallelism.use_deepspeed",
        "boolean",
        "Must be false, as `fsdp`.",
        default=False,
    ),
    Key(
        "hyperparameters.parallelism.deepspeed_stage", "integer", "Must be 0, as `fsdp`.", least=0, default=0
    ),
    Key(
        "hyperparameters.parallelism.tensor_parallel_size",
        "integer",
        "Must be 1, as `fsdp`.",
        unit="GPUs",
        least=1,
        default=1,
    ),
    Key(
        "hyperparameters.parallelism.pipeline_parallel_size",
        "integer",
        "Must be 1, as `fsdp`.",
        unit="GPUs",
        least=1,
        default=1,
    ),
)
VALIDATION = (
    Key(
        "training.validation.enabled",
        "boolean",
        "Whether examples are held back, and their loss measured.",
        default=True,
    ),
    Key(
        "training.validation.evaluation_strategy",
        "text",
        "When their loss is measured: after each epoch, every `eval_steps` steps, or never.",
        allowed=("epoch", "steps", "no"),
        default="epoch",
    ),
    Key(
        "training.validation.eval_steps",
        "integer",
        "Training steps between measurements, for the strategy `steps`.",
        unit="steps",
        least=1,
    ),
    Key(
        "training.validation.save_best_model_at_end",
        "boolean",
        "Whether the checkpoint that is kept is the best or the last; the adapter is the best one's.",
        default=True,
    ),
    Key(
        "training.validation.metric_for_best_model",
        "text",
        "What is best: the loss of examples held back, in nats a token, by either name.",
        allowed=("val/loss", "eval_loss"),
        default="val/loss",
    ),
    Key(
        "training.validation.greater_is_better",
        "boolean",
        "Must be false: a loss is better the lower it is.",
        default=False,
    ),
)
SFT_KEYS = (
    Key("algorithm.type", "text", "`offline` imitates examples.", allowed=("offline",), default="offline"),
    Key("algorithm.method", "text", "Supervised fine-tuning.", allowed=("sft",), default="sft"),
    Key(
        "job.model",
        "text",
        "The language model: a bundled one, a folder or a name on the hub. One that is not bundled is read in"
        " bfloat16 and in micro-batches (`policy/qwen3`).",
        path="model.init_args.policy",
    ),
    Key(
        "job.data",
        "text",
        "JSON lines of the examples: chat messages; prompt and completion; or task and source.",
        path="data.init_args.examples",
        is_file=True,
    ),
    Key("job.data_path", "text", "As `job.data`.", is_file=True),
    Key(
        "job.label", "text", "What the run is called: its folder is `OUTPUT/LABEL/version_N`.", default="sft"
    ),
    Key(
        "data.validation_path",
        "text",
        "JSON lines of examples to validate with; without it a tenth of the examples is held back.",
        path="data.init_args.validation_examples",
        is_file=True,
    ),
    Key(
        "training.mode",
        "text",
        "An adapter is trained (lora), on a base in 4 bits (qlora, GPU only), or all weights are (full).",
        allowed=MODES,
        default="lora",
    ),
    Key("training.use_qlora", "boolean", "As `training.mode` qlora.", default=False),
    *LORA,
    *VALIDATION,
    Key(
        "hyperparameters.n_epochs",
        "integer",
        "How often the examples are gone through.",
        unit="epochs",
        least=1,
        path="trainer.max_epochs",
    ),
    Key(
        "hyperparameters.batch_size",
        "integer",
        "Examples of a training step, at most, of all devices and batches together; also `global_batch`.",
        unit="examples",
        least=1,
    ),
    Key(
        "hyperparameters.per_device_batch",
        "integer",
        "Examples of a batch of one device, at most.",
        unit="examples",
        least=1,
        path="data.init_args.batch_size",
    ),
    Key(
        "hyperparameters.gradient_accumulation_steps",
        "integer",
        "Batches whose gradients make one training step.",
        unit="batches",
        least=1,
        default=1,
        path="trainer.accumulate_grad_batches",
    ),
    Key(
        "hyperparameters.sequence_length",
        "integer",
        "Longer examples, prompt and answers, are left out.",
        unit="tokens",
        least=1,
        default="what the model knows",
        path="data.init_args.max_tokens",
    ),
    Key(
        "hyperparameters.learning_rate",
        "number",
        "Learning rate of the adapter.",
        above=0,
        path="model.init_args.optimizer.init_args.lr",
    ),
    Key(
        "hyperparameters.warmup_ratio",
        "number",
        "Share of the training steps in which the learning rate rises to its value.",
        least=0,
        most=1,
        default=0,
    ),
    Key(
        "hyperparameters.train_kind",
        "text",
        "As `training.mode`; peft is lora.",
        allowed=("peft", *MODES),
        default="peft",
    ),
    Key(
        "hyperparameters.weight_decay",
        "number",
        "Weight decay of AdamW.",
        least=0,
        path="model.init_args.optimizer.init_args.weight_decay",
    ),
    *PARALLELISM,
    *COMPUTE,
    TAGS,
)
"""Every key of a job that imitates examples."""
