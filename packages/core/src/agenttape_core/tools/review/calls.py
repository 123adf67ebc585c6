"""A call that waits for review: its differences from the recording, and its key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agenttape_core.locks import cached_property
from agenttape_core.matching import Difference
from agenttape_core.schema import MODEL_KINDS, Interaction, Outcome
from agenttape_core.storage import Cassette
from agenttape_core.tools.compare.comparison import Compared
from agenttape_core.tools.reading.answer import Answer

Sort = Literal["path", "words", "tokens"]
"""The sort of a change: `path` if the run makes other calls, `words` if texts differ, `tokens` if only a provider's
counts or facts about its answer differ."""

SORTS: tuple[Sort, ...] = ("path", "words", "tokens")

_TOLD = re.compile(
    r"(?:^|[.\[])(?:usage|usage_metadata|token_usage|llm_output|response_metadata|generation_info|system_fingerprint|"
    r"additional_kwargs|service_tier|raw|id)(?=[.\[]|$)"
)
"""Places where providers put facts about an answer that aren't part of it."""
_CUT = re.compile(r"outcome\.chunks(?:$|\[\d)")
"""Places that only tell where the same words were cut into chunks: words that differ are at `outcome.chunks[*]`."""
_CALLED = re.compile(r"(?:^|[.\[])tool_calls?(?=[.\[]|$)")


@dataclass(frozen=True, slots=False)
class PendingCall:
    """A call that waits for review."""

    key: str  # its key: the cassette, `::`, and the address of the call. The same as long as it waits
    compared: Compared  # what it is compared with
    before: Interaction | None  # the recorded call; `None` if it is new
    now: Interaction | None  # the call that waits; `None` if it is no longer made

    @property
    def address(self) -> str:
        """The place at which it is made; at which it was made, if it is no longer."""
        return self.compared.other_address or self.compared.address

    @property
    def state(self) -> str:
        """The way it has changed: `changed`, `moved`, `new` or `gone`."""
        return {"only in first": "gone", "only in other": "new"}.get(self.compared.state, self.compared.state)

    @cached_property
    def asks_anew(self) -> bool:
        """True if a replay of the new run needs it: its request changed, it's new, or it's no longer made."""
        if self.before is None or self.now is None:
            return True
        before, now = self.before, self.now
        return (before.kind, before.name, before.fingerprint) != (now.kind, now.name, now.fingerprint)

    @cached_property
    def sort(self) -> Sort:
        """The sort of the change."""
        if self.before is None or self.now is None or self.state == "moved":
            return "path"
        if self.now.kind == "tool" and self.asks_anew:
            return "path"
        if _asked_tools(self.before.outcome, self.now) != _asked_tools(self.now.outcome, self.now):
            return "path"
        told = all(sort_of(found.path) == "tokens" for found in self.compared.differences)
        return "tokens" if told and not self.asks_anew else "words"

    @property
    def differences(self) -> list[Difference]:
        """The places where it differs: the tools that are called, then words, then a provider's data about itself."""
        return sorted(self.compared.differences, key=lambda found: SORTS.index(sort_of(found.path)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        compared = self.compared.to_dict()
        return {
            "key": self.key,
            "state": self.state,
            "change": self.sort,
            "kind": self.compared.kind,
            "name": self.compared.name,
            "address": self.address,
            "before": compared["first"],
            "now": compared["other"],
            "differences": [
                {"path": found.path, "before": found.recorded, "now": found.asked} for found in self.differences
            ],
        }


def sort_of(path: str) -> Sort:
    """Return the sort of a change of a call by the place in its record, as comparisons spell it."""
    if _TOLD.search(path) or _CUT.match(path):
        return "tokens"
    return "path" if _CALLED.search(path) and path.startswith("outcome") else "words"


def calls_of(shown: str, compared: Iterable[Compared], before: Cassette, now: Cassette) -> list[PendingCall]:
    """Return the calls that have changed, in the order of the run. Their keys begin with `shown`."""
    return list(_calls(shown, compared, before, now))


def _calls(shown: str, compared: Iterable[Compared], before: Cassette, now: Cassette) -> Iterator[PendingCall]:
    seen: Counter[str] = Counter()
    for one in compared:
        if one.what != "interaction" or one.state == "same":
            continue
        address = one.other_address or one.address
        seen[address] += 1
        count = f" ({seen[address]})" if seen[address] > 1 else ""
        yield PendingCall(
            f"{shown}::{address}{count}",
            one,
            before.interaction(one.first) if one.first is not None else None,
            now.interaction(one.other) if one.other is not None else None,
        )


def _asked_tools(outcome: Outcome, item: Interaction) -> list[Any]:
    return [tuple(call) for call in Answer(outcome).tool_calls] if item.kind in MODEL_KINDS else []
