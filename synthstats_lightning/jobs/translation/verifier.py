"""From `[verifier]` to a term of the reward."""

from __future__ import annotations

from typing import Any

from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.reward_keys import PROVIDERS

TERM = "synthstats_lightning.scoring.terms.LLMVerifier"
LIKELIHOOD = "synthstats_lightning.scoring.terms.Likelihood"


def translate_verifier(draft: Draft) -> None:
    """Puts the terms of the reward where a verifier counts.

    Args:
        draft: The configuration in the making.
    """
    _refuse(draft)
    if not draft.has("verifier") or draft.given("verifier.enabled") is False:
        if draft.given("services.verifier_url") is not None and not draft.has("verifier"):
            draft.problems.append("services.verifier_url needs a [verifier], with the model in its options")
        return
    provider = draft.given("verifier.options.provider", "local")
    url, key = PROVIDERS[provider]
    url = draft.given("services.verifier_url", url)
    if url is None:
        draft.problems.append(
            "services.verifier_url must say where the verifier is, for the provider 'local'"
        )
        url = ""
    elif not url.startswith(("http://", "https://")):
        draft.refuse("services.verifier_url", "an address that begins with http:// or https://")
    model = draft.given("verifier.options.model")
    if model is None:
        draft.problems.append("verifier.options.model must name the model that gives marks")
    env = draft.given("verifier.reward_blend.env", 1)
    outcome = draft.given("verifier.reward_blend.outcome", 1)
    weight = outcome * _track_weight(draft)
    arguments: dict[str, Any] = {"base_url": url, "model": model, "weight": weight}
    if key is not None:
        arguments["api_key_env"] = key
    for name, argument in (("timeout_s", "timeout_s"), ("options.max_concurrency", "max_concurrency")):
        if (value := draft.given(f"verifier.{name}")) is not None:
            arguments[argument] = value
    if (rubric := _rubric(draft)) is not None:
        arguments["rubric"] = rubric
    draft.put(
        "scoring.reward.terms",
        [
            {"class_path": LIKELIHOOD, "init_args": {"weight": env}},
            {"class_path": TERM, "init_args": arguments},
        ],
    )
    shares = draft.has("verifier.reward_blend") and abs(env + weight - 1) < 1e-9
    draft.put("scoring.reward.term_weights", "shares" if shares else "nats")
    draft.warnings.append("verifier: with marks in the reward the target is no posterior over programs")


def _refuse(draft: Draft) -> None:
    if draft.given("verifier.reward_blend.event", 0):
        draft.refuse("verifier.reward_blend.event", "0: marks are given to whole programs (outcome)")


def _track_weight(draft: Draft) -> float:
    weights = draft.given("verifier.options.weights", {})
    for track, value in weights.items():
        if track != "outcome":
            draft.problems.append(
                f"verifier.options.weights.{track} is no track that is marked; there is outcome"
            )
        elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            draft.problems.append(
                f"verifier.options.weights.{track} must be a number, at least 0, got {value!r}"
            )
    value = weights.get("outcome", 1)
    return float(value) if isinstance(value, int | float) else 1.0


def _rubric(draft: Draft) -> str | None:
    given = draft.given("verifier.options.rubric_overrides")
    if given is None or isinstance(given, str):
        return given
    for track in given:
        if track != "outcome":
            draft.problems.append(
                f"verifier.options.rubric_overrides.{track} is no track that is marked; there is outcome"
            )
    text = given.get("outcome")
    if text is None or isinstance(text, str):
        return text
    draft.problems.append(f"verifier.options.rubric_overrides.outcome must be a text, got {text!r}")
    return None
