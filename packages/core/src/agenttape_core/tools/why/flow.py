"""The flow of data through a program: which recorded answer moves which later request. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agenttape_core.schema import IndexRow

RESULT = 0
"""The number of what the program returns or raises, which no call has."""

Way = Literal["data", "route"]
"""The way in which an answer moves a request: it is in it, or the program takes another way and makes no such call."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An answer that moves a request: shown by a replay in which it was another one.

    Args:
        source: The number of the call that answered.
        target: The number of the call whose request moves; `RESULT` for what the program returns.
        way: The way in which it moves.
        at: The places of the request that were others, such as `messages[2].content`.
    """

    source: int
    target: int
    way: Way
    at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """The edges between the calls of a run.

    Args:
        calls: The calls, by number.
        edges: The edges, by source and target.
        fixed: The numbers of calls with nothing in their answer that could be another.
    """

    calls: Mapping[int, IndexRow]
    edges: Sequence[Edge]
    fixed: Sequence[int] = field(default=())

    def into(self, target: int) -> list[Edge]:
        """Return the edges into a call, those of data first."""
        return sorted((edge for edge in self.edges if edge.target == target), key=lambda edge: (edge.way, edge.source))

    def behind(self, target: int) -> list[Edge]:
        """Return the edges on all paths that lead into a call, nearest first; each once."""
        found: dict[tuple[int, int], Edge] = {}
        waiting = [target]
        while waiting:
            for edge in self.into(waiting.pop(0)):
                key = (edge.source, edge.target)
                if key not in found:
                    found[key] = edge
                    if edge.source not in waiting and edge.source != target:
                        waiting.append(edge.source)
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "calls": [
                {"number": row.number, "kind": row.kind, "name": row.name, "address": row.address}
                for row in self.calls.values()
            ],
            "edges": [
                {"from": edge.source, "to": edge.target, "way": edge.way, "at": list(edge.at)} for edge in self.edges
            ],
            "fixed": list(self.fixed),
        }
