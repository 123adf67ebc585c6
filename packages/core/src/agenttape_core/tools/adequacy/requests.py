"""The texts, tools and schemas that recorded requests hold, to see which edits can reach them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.tools.adequacy.operators import Sought


@dataclass(slots=True)
class Requests:
    """The requests of one cassette.

    Args:
        texts: The texts of each request, keys and values, with single spaces.
        tools: The names of the tools that models were offered.
        schemas: The names of the properties of each schema.
    """

    texts: list[str] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    schemas: set[frozenset[str]] = field(default_factory=set)

    @classmethod
    def of(cls, requests: Iterable[Any]) -> Requests:
        """Return what requests hold.

        Args:
            requests: The requests, as plain data.
        """
        made = cls()
        for request in requests:
            made.texts.append("\0".join(" ".join(text.split()) for text in made._read(request)))
        return made

    def add(self, other: Requests) -> None:
        """Add the requests of another cassette."""
        self.texts += other.texts
        self.tools |= other.tools
        self.schemas |= other.schemas

    def holds(self, sought: Sought) -> bool:
        """Return whether some request holds what an edit would change."""
        if sought.texts:
            return any(all(text in one for text in sought.texts) for one in self.texts)
        if sought.tool and sought.tool in self.tools:
            return True
        return bool(sought.fields) and any(set(sought.fields) <= schema for schema in self.schemas)

    def _read(self, plain: Any) -> Iterator[str]:
        """Yield all texts of plain data, and note the tools and schemas in it."""
        if isinstance(plain, str):
            yield plain
        elif isinstance(plain, list):
            for item in plain:
                yield from self._read(item)
        elif isinstance(plain, dict):
            properties = plain.get("properties")
            if isinstance(properties, dict):
                self.schemas.add(frozenset(map(str, properties)))
            if isinstance(plain.get("name"), str) and plain.keys() & {"description", "parameters", "input_schema"}:
                self.tools.add(plain["name"])
            for key, item in plain.items():
                yield str(key)
                yield from self._read(item)
