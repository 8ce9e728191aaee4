"""The fault that the check of an adapter's version is for: a server with blocks of older weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.policy import Policy
from synthstats_lightning.rollouts.adapter_versions import AdapterVersion, AdapterVersions
from synthstats_lightning.rollouts.transport import Transport
from synthstats_lightning.rollouts.weight_check import checked_programs, gap


class StaleGaps(NamedTuple):
    """What the check of a version finds, in nats a token.

    Attributes:
        first: Of a version as it was published.
        second: Of the same name and path with other weights behind it.
        version: Its name and step.
    """

    first: float
    second: float
    version: AdapterVersion


def stale_gaps(
    policy: Policy,
    versions: AdapterVersions,
    connection: Transport,
    prompt: tuple[int, ...],
    change: Callable[[], None],
) -> StaleGaps:
    """Publishes an adapter, then another one under the same name and the same path, as no run does.

    Args:
        policy: Whose adapter is published.
        versions: The versions that one server has.
        connection: It asks that server, or an engine in this process.
        prompt: Token ids of the prompt of both checks.
        change: Gives the policy other weights.
    """
    version = versions.write(policy, 0)
    versions.load(version)
    call = checked_programs(policy, connection, version.name, prompt)
    first = gap(policy, prompt, call())
    change()
    folder = versions.folder / version.name
    folder.rename(versions.folder / f"{version.name}-before")
    again = versions.write(policy, 0)
    connection.ask(connection.dialect.unload, {"lora_name": version.name})
    versions.load(again)
    return StaleGaps(first, gap(policy, prompt, call()), again)
