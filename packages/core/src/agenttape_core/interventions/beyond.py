"""The calls beyond the recorded world: what becomes of those that a change has made new."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Key, Selector
from agenttape_core.schema import IndexRow

ASKING = frozenset({"chat", "completion", "embeddings", "retrieval"})
"""The kinds of calls that only ask. What a call of another kind does after a change is not known before it is done."""

Beyond = Literal["stop", "address"] | Collection[Key]
"""The fate of a call without a recording once a change has landed: a stop, the recording at its address, or a real
call if one of those selects it."""


def checked_beyond(beyond: object) -> Beyond:
    """Return what is to become of calls without a recording.

    Raises:
        ConfigurationError: If it's neither a word for it nor a collection of selectors.
    """
    if isinstance(beyond, str):
        if beyond == "stop":
            return "stop"
        if beyond == "address":
            return "address"
    elif isinstance(beyond, Collection) and beyond:
        return Selector(beyond, option="beyond")
    raise ConfigurationError(
        f"beyond={beyond!r}: expected 'stop', 'address', or the calls that may be executed, such as {{'chat'}}"
    )


def departed(policy: Policy, beyond: Beyond, rows: Sequence[IndexRow]) -> Policy:
    """Return the policy of a session after a change has landed.

    Args:
        policy: The policy before.
        beyond: What becomes of calls without a recording.
        rows: The recorded calls.
    """
    if beyond == "stop":
        return policy
    if beyond == "address":
        return policy if "address" in policy.match_on else replace(policy, match_on=(*policy.match_on, "address"))
    return replace(policy, mode=Mode.ADD, executable=Selector(beyond, rows, option="beyond"))
