"""The account of why a call was made as it was, and of what may have made its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttape_core.errors import shown_path
from agenttape_core.schema import Interaction
from agenttape_core.tools.reading.summary import MODELS
from agenttape_core.tools.why.flow import RESULT, Edge, Flow

_PLACES = 3
_ALONE = "no recorded answer moves its request: that follows from the program and its input alone"
_ITSELF = "no other recorded answer has brought the text to its request: it comes from this call itself"
_MODEL = "that a model's answer follows from its request is not tested here: it is likely, and not shown"


@dataclass(frozen=True, slots=True)
class Why:
    """The answers that have moved a call.

    Args:
        cassette: The cassette.
        program: The name of the program.
        call: The call in question.
        text: The text in question, if one was given: then only its occurrences were changed.
        flow: All edges between calls that were found.
        replays: How often the program was replayed.
    """

    cassette: Path
    program: str
    call: Interaction
    text: str | None
    flow: Flow
    replays: int

    @property
    def links(self) -> list[Edge]:
        """The edges on all paths that lead into the call, nearest first."""
        return self.flow.behind(self.call.number)

    @property
    def sources(self) -> list[int]:
        """The numbers of the calls from which all of it comes: into those, no recorded answer leads."""
        into = {edge.target for edge in self.flow.edges}
        return sorted({edge.source for edge in self.links} - into)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "cassette": shown_path(self.cassette),
            "program": self.program,
            "call": {"number": self.call.number, **_plain(self.call.kind, self.call.name, self.call.address)},
            "text": self.text,
            "links": [
                {"from": edge.source, "to": edge.target, "way": edge.way, "at": list(edge.at)} for edge in self.links
            ],
            "sources": self.sources,
            "flow": self.flow.to_dict(),
            "replays": self.replays,
        }

    def __str__(self) -> str:
        asked = f", and the text {self.text!r}" if self.text is not None else ""
        lines = [f"{self._named(self.call.number)} of {shown_path(self.cassette)}{asked}"]
        lines += self._tree(self.call.number, "  ", {self.call.number})
        if len(lines) == 1:
            lines.append(f"  {_ALONE if self.text is None else _ITSELF}")
        elif self.call.kind in MODELS:
            lines.append(f"  {_MODEL}")
        return "\n".join(lines)

    def _tree(self, number: int, indent: str, above: set[int]) -> Iterator[str]:
        """Yield the lines of the calls whose answers lead into a call, each with those that lead into it."""
        for edge in self.flow.into(number):
            if edge.source in above:
                continue
            at = ", ".join(edge.at[:_PLACES]) + (", …" if len(edge.at) > _PLACES else "")
            how = f"in {at}" if edge.way == "data" else "through a route: with another answer the call is not made"
            yield f"{indent}← {self._named(edge.source)}: {how}"
            above.add(edge.source)
            yield from self._tree(edge.source, f"{indent}  ", above)

    def _named(self, number: int) -> str:
        if number == RESULT:
            return "the result"
        row = self.flow.calls[number]
        return f"{number} {row.kind} {row.name} at {row.address}"


def _plain(kind: str, name: str, address: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "address": address}
