"""The calls beyond the recorded world: what becomes of those that a change has made new."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import ConfigurationError

ASKING = frozenset({"chat", "completion", "embeddings", "retrieval"})
"""The kinds of calls that only ask. What a call of another kind does after a change is not known before it is done."""

Beyond = Literal["stop", "address"] | Collection[str]
"""The fate of a call without a recording once a change has landed: a stop, the recording at its address, or a real
call if its kind or name is among those."""


def checked_beyond(beyond: object) -> Beyond:
    """Return what is to become of calls without a recording.

    Raises:
        ConfigurationError: If it is no word for it, and no collection of kinds and names.
    """
    if isinstance(beyond, str):
        if beyond == "stop":
            return "stop"
        if beyond == "address":
            return "address"
    elif isinstance(beyond, Collection) and beyond and all(isinstance(name, str) and name for name in beyond):
        return frozenset(beyond)
    raise ConfigurationError(
        f"beyond={beyond!r}: expected 'stop', 'address', or the kinds and names that may be executed, "
        "such as {'chat'}"
    )


def departed(policy: Policy, beyond: Beyond) -> Policy:
    """Return the policy of a session after a change has landed.

    Args:
        policy: The policy before.
        beyond: What becomes of calls without a recording.
    """
    if beyond == "stop":
        return policy
    if beyond == "address":
        return policy if "address" in policy.match_on else policy._replace(match_on=(*policy.match_on, "address"))
    return policy._replace(mode=Mode.NEW_EPISODES, executable=frozenset(beyond))
