"""The policy for calls that a change made new, so that the cassette has no recording of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Key, Selector
from agenttape_core.schema import IndexRow

ASKING = frozenset({"chat", "completion", "embeddings", "retrieval"})
"""The kinds of calls that only read, so making one after a change is safe. Other kinds may have side effects."""

OnNewCall = Literal["stop", "address"] | Collection[Key]
"""The answer to a call without a recording, once a change was reached: a miss, the recording at its address, or a real
call if one of the keys selects it."""


def checked_on_new_call(on_new_call: object) -> OnNewCall:
    """Check the option `on_new_call`, and return it.

    Raises `ConfigurationError` if it's neither one of the two words nor a collection of selectors.
    """
    if isinstance(on_new_call, str):
        if on_new_call == "stop":
            return "stop"
        if on_new_call == "address":
            return "address"
    elif isinstance(on_new_call, Collection) and on_new_call:
        return Selector(on_new_call, option="on_new_call")
    raise ConfigurationError(
        f"on_new_call={on_new_call!r}: expected 'stop', 'address', or kinds and names to call, such as {{'chat'}}"
    )


def policy_after_change(policy: Policy, on_new_call: OnNewCall, rows: Sequence[IndexRow]) -> Policy:
    """Return the policy of a session after a change was reached, given its option `on_new_call`."""
    if on_new_call == "stop":
        return policy
    if on_new_call == "address":
        return policy if "address" in policy.match_on else replace(policy, match_on=(*policy.match_on, "address"))
    return replace(policy, mode=Mode.ADD, executable=Selector(on_new_call, rows, option="on_new_call"))
