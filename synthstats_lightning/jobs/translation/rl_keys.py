"""The keys of a job that learns from rewards: policy, rollouts and training."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.key import Key
from synthstats_lightning.jobs.translation.reward_keys import EVALUATION, REWARDS, VERIFIER
from synthstats_lightning.jobs.translation.server_keys import VLLM, WEIGHT_SYNC
from synthstats_lightning.jobs.translation.shared_keys import COMPUTE, LORA, MODES, TAGS
from synthstats_lightning.jobs.translation.varieties import METHODS, VARIETIES

ALGORITHM = (
    Key("algorithm.type", "text", "`online` learns from rewards.", allowed=("online",), default="online"),
    Key(
        "algorithm.method",
        "text",
        "Whether programs are written in proportion to their reward, or to maximise it.",
        allowed=METHODS,
        default="gflownet",
    ),
    Key(
        "algorithm.variety",
        "text",
        "Which objective, by its short name; those of `policy_gradient` are grpo, gspo and rloo.",
        allowed=tuple(VARIETIES),
        default="tb, or gspo",
    ),
)
POLICY = (
    Key(
        "policy.base",
        "text",
        "The language model: a bundled one, a folder or a name on the hub. One that is not bundled is read in"
        " bfloat16, in micro-batches and with 512 new tokens (`policy/qwen3`).",
        path="model.init_args.policy",
    ),
    Key(
        "policy.source",
        "text",
        "Instead of `base`: the adapter's folder of an earlier job (its `model_id`), which training starts"
        " from, or a checkpoint (`.ckpt`), which it goes on from.",
        is_file=True,
    ),
    Key(
        "policy.trainer_mode",
        "text",
        "An adapter is trained (lora), on a base in 4 bits (qlora, GPU only), or all weights are (full).",
        allowed=MODES,
        default="lora",
    ),
    Key(
        "policy.label",
        "text",
        "What the run is called: its folder is `OUTPUT/LABEL/version_N`.",
        default="rl",
    ),
)
SERVICES = (
    Key(
        "services.task_url",
        "text",
        "Is refused: programs are built and scored on this machine, in its sandbox.",
    ),
    Key("services.verifier_url", "text", "Address of the verifier's OpenAI-compatible endpoint."),
)
ROLLOUT = (
    Key(
        "rollout.env_name",
        "text",
        "The task: a bundled data set or simulator, a file of data, or the dotted path of a class.",
        default="dugongs",
    ),
    Key(
        "rollout.env_config",
        "table",
        "Arguments of the task, such as `seed` and `num_observations` of a simulator or `response` of a file;"
        " with `instances` of a simulator there are several tasks.",
    ),
    Key(
        "rollout.policy_name",
        "text",
        "Who writes training programs: the trainer itself, or a vLLM server (`[vllm]`).",
        allowed=("local", "vllm"),
        default="local",
    ),
    Key(
        "rollout.policy_config",
        "table",
        "How training programs are drawn: temperature, temperature_high, epsilon, top_p, max_new_tokens and"
        " min_new_tokens (tokens), and thoughts (none, latent, stripped).",
    ),
    Key(
        "rollout.max_turns",
        "integer",
        "With more than 1 the policy experiments on the simulator before it writes a program.",
        unit="turns",
        least=1,
        default=1,
    ),
    Key(
        "rollout.episodes_per_batch",
        "integer",
        "Programs of a sampling batch, all tasks together.",
        unit="programs",
        least=1,
    ),
    Key(
        "rollout.max_concurrent_rollouts",
        "integer",
        "Programs that may wait for their score at once.",
        unit="programs",
        least=1,
        path="scoring.max_in_flight",
    ),
    Key(
        "rollout.batches_per_step",
        "integer",
        "Sampling batches of a round, which multiply the programs of each.",
        unit="batches",
        least=1,
        default=1,
    ),
)
TRAINING = (
    Key(
        "training.num_epochs",
        "integer",
        "With the next key the length of the run; schedules of rate and temperature change in proportion.",
        unit="epochs",
        least=1,
        default=5,
    ),
    Key(
        "training.iterations_per_epoch",
        "integer",
        "Training steps of an epoch.",
        unit="steps",
        least=1,
        default=100,
    ),
    Key(
        "training.gradient_accumulation_steps",
        "integer",
        "Batches whose gradients make one training step.",
        unit="batches",
        least=1,
        default=1,
    ),
    Key(
        "training.max_accumulated_minibatch",
        "integer",
        "The most batches that may make one training step: bounds the key above.",
        unit="batches",
        least=1,
    ),
    Key("training.max_turns", "integer", "As `rollout.max_turns`.", unit="turns", least=1, default=1),
    Key(
        "training.batch_size",
        "integer",
        "Trajectories of a training batch, of each process.",
        unit="trajectories",
        least=1,
        path="data.init_args.batch_size",
    ),
    Key(
        "training.group_size",
        "integer",
        "Programs of each task in a sampling batch; GRPO, GSPO and RLOO compare these.",
        unit="programs",
        least=1,
        path="scoring.programs_per_step",
    ),
    Key(
        "training.learning_rate",
        "number",
        "Learning rate of the policy at its highest.",
        above=0,
        path="model.init_args.optimizer.init_args.lr",
    ),
    Key(
        "training.log_interval",
        "integer",
        "Training steps between logs and between events of iterations.",
        unit="steps",
        least=1,
        path="trainer.log_every_n_steps",
    ),
    Key(
        "training.weight_sync_interval",
        "integer",
        "Training steps between versions of the adapter at the servers (`[vllm]`).",
        unit="steps",
        least=1,
        path="rollouts.publish_every",
    ),
)
SMOKE = (
    Key(
        "smoke.enabled",
        "boolean",
        "Tries the job for seconds first, as `check` does, and ends where it had better not begin.",
        default=False,
    ),
    Key("smoke.only", "boolean", "Ends after that.", default=False),
)
RL_KEYS = (
    *ALGORITHM,
    *POLICY,
    *SERVICES,
    *ROLLOUT,
    *TRAINING,
    *WEIGHT_SYNC,
    *LORA,
    *REWARDS,
    *EVALUATION,
    *VERIFIER,
    *COMPUTE,
    *VLLM,
    TAGS,
    *SMOKE,
)
"""Every key of a job that learns from rewards."""
