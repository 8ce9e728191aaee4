"""From `[vllm]` and `[training.weight_sync]` to the section `rollouts`."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.bundled import POINTS
from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.server_keys import SERVERS_OWN


def translate_server(draft: Draft, on_policy: bool) -> None:
    """Puts where training programs come from.

    Args:
        draft: The configuration in the making.
        on_policy: Whether the objective needs programs of the present policy.
    """
    url = draft.given("vllm.url")
    served = draft.given("rollout.policy_name", "local" if url is None else "vllm") == "vllm"
    for name, option in SERVERS_OWN.items():
        if f"vllm.{name}" in draft.values:
            draft.problems.append(
                f"vllm.{name} is the server's own option: start it with {option} (`serve-policy` prints how)"
            )
    _check_sync(draft)
    if served and url is None:
        draft.problems.append("vllm.url must say where the server is, where rollout.policy_name is 'vllm'")
    if not served and url is not None:
        draft.refuse("rollout.policy_name", "'vllm' where vllm.url is given")
    every = "training.weight_sync_interval"
    if not served:
        if every in draft.values:
            draft.warnings.append(f"{every} has no effect: the trainer samples by its present weights")
        draft.warnings.extend(
            f"{name} has no effect without vllm.url"
            for name in draft.values
            if name.startswith("vllm.") and name.removeprefix("vllm.") not in SERVERS_OWN
        )
        return
    draft.put("rollouts.url", url)
    goes_on = str(draft.given("policy.source", "")).endswith(".ckpt")  # by whatever policy it is of
    if url is not None and not goes_on and draft.get("model.init_args.policy", POINTS) == POINTS:
        draft.problems.append(
            f"vllm.url must be left out for the policy {POINTS!r}, whose tokens stand for columns, which no"
            " server knows; policy.base says another"
        )
    if draft.given("training.weight_sync.enable") is False:
        draft.refuse("training.weight_sync.enable", "true: a server would write by the base model for ever")
    if on_policy:
        if draft.given(every, 1) != 1:
            draft.refuse(every, "1 for policy_gradient, which learns from programs of the present policy")
        draft.put("rollouts.publish_every", 1)


def _check_sync(draft: Draft) -> None:
    if draft.given("training.weight_sync.direct") is False:
        draft.refuse("training.weight_sync.direct", "true: versions go from the trainer to the servers")
    if draft.given("training.weight_sync.verify_every_k", 1) != 1:
        draft.refuse("training.weight_sync.verify_every_k", "1: every version is checked before it is used")
