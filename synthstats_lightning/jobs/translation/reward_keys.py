"""The keys of a job's rewards, of its verifier and of its evaluation."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.key import Key

PROVIDERS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "local": (None, None),
}
"""Providers of a verifier, each with its address and the environment variable that holds its key."""
STEP_REWARDS = ("off", "decision_stepwise", "env_sparse")

REWARDS = (
    Key(
        "training.rewards.step_rewards_enabled",
        "boolean",
        "Whether the next keys count.",
        default=False,
    ),
    Key(
        "training.rewards.step_rewards_mode",
        "text",
        "`decision_stepwise` balances between the actions of an episode as well"
        " (`ActionSubTrajectoryBalance`, the same target); `env_sparse` and `off` at its end alone.",
        allowed=STEP_REWARDS,
        default="off",
    ),
    Key(
        "training.rewards.step_rewards_indicator_lambda",
        "number",
        "Weight of the balance between actions.",
        least=0,
        default=0.1,
    ),
    Key(
        "training.rewards.step_rewards_beta",
        "number",
        "Weight of what an experiment was expected to tell, in the learned log flows between actions"
        " (`ActionSubTrajectoryBalance.information`, the same target).",
        unit="nats a nat",
        least=0,
        default=0,
    ),
    Key(
        "training.rewards.step_rewards_strategy",
        "text",
        "Log flows between actions: learned by a head, or in equal steps.",
        allowed=("learned", "linear"),
        default="learned",
    ),
    Key(
        "training.rewards.event_rewards_kind",
        "text",
        "`unique` shares a program's reward among its texts; `absolute` gives each text the whole.",
        allowed=("unique", "absolute"),
        default="absolute",
    ),
)
EVALUATION = (
    Key(
        "evaluation.instances",
        "integer",
        "Instances of the simulator that the policy never trains on, and is measured on in between.",
        unit="instances",
        least=1,
        default="one a seed",
    ),
    Key(
        "evaluation.every_n_iters",
        "integer",
        "Training steps between such measurements; before the first step as well.",
        unit="steps",
        least=1,
        path="unseen_tasks.every_n_steps",
    ),
    Key(
        "evaluation.seeds",
        "integers",
        "Seeds of these instances; none of them one that is trained on.",
        default="1000, 1001, ...",
    ),
)
VERIFIER = (
    Key("verifier.type", "text", "A language model gives marks.", allowed=("llm",), default="llm"),
    Key(
        "verifier.enabled",
        "boolean",
        "Whether marks count; the target is no posterior then, which the report says.",
        default="true with [verifier]",
    ),
    Key(
        "verifier.timeout_s",
        "number",
        "The longest that one request may take.",
        unit="seconds",
        above=0,
        default=60.0,
    ),
    Key(
        "verifier.reward_blend.env",
        "number",
        "Weight of the score of the data; with `outcome` they are shares where they sum to 1, else nats.",
        least=0,
        default=1,
    ),
    Key(
        "verifier.reward_blend.event",
        "number",
        "Must be 0: marks are given to whole programs.",
        least=0,
        default=0,
    ),
    Key(
        "verifier.reward_blend.outcome",
        "number",
        "Weight of the marks, which are from 0 to 1.",
        unit="nats",
        least=0,
        default=1,
    ),
    Key(
        "verifier.options.provider",
        "text",
        "Whose endpoint is asked; `local` needs `services.verifier_url`. The key is read from"
        " OPENAI_API_KEY, GROQ_API_KEY or OPENROUTER_API_KEY.",
        allowed=tuple(PROVIDERS),
        default="local",
    ),
    Key("verifier.options.model", "text", "Name of the model there; has to be given."),
    Key(
        "verifier.options.rubric_id",
        "text",
        "What marks are for; there is one rubric by name, and `rubric_overrides` for any other.",
        allowed=("default",),
        default="default",
    ),
    Key(
        "verifier.options.rubric_overrides",
        "text or table",
        "What marks are for, in words, as a text or as `outcome` of a table.",
    ),
    Key(
        "verifier.options.tracks",
        "texts",
        "What is marked: whole programs.",
        allowed=("outcome",),
        default="outcome",
    ),
    Key(
        "verifier.options.weights",
        "table",
        "Factor of the marks of each track, of which there is `outcome`.",
        default="outcome = 1",
    ),
    Key(
        "verifier.options.max_concurrency",
        "integer",
        "The most requests at once.",
        unit="requests",
        least=1,
        default=4,
    ),
)
