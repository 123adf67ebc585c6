"""The tests that reach a mutant: the selection that makes it affordable to try many."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteError
from agenttape_core.experiments.strategies.mutants.edits import Mutant
from agenttape_core.experiments.strategies.mutants.running import Facts, Reply
from agenttape_core.experiments.strategies.mutants.sites import Sought
from agenttape_core.matching import Ignored
from agenttape_core.storage import open_cassette


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
        """Return the texts, tools and schemas in requests."""
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
        """Return whether some request holds the text that an edit would change."""
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


NO_REQUEST = "in no recorded request"
NO_LINE = "no test runs this line"
NO_IMPORT = "no test imports this file"


@dataclass(frozen=True, slots=True)
class Reaching:
    """The tests that reach a mutant.

    Args:
        mutant: The mutant.
        tests: The tests, the quickest first.
        why: Why there are none; empty if that is not worth a line.
    """

    mutant: Mutant
    tests: tuple[str, ...] = ()
    why: str = ""


@dataclass(slots=True)
class Evidence:
    """The lines and texts that each test reaches without an edit.

    Args:
        facts: The facts of the tests that take part.
        lines: The lines that were run, by the part of the run and the file.
        requests: The recorded requests by the tests.
        compared: The same without the ignored paths.
    """

    facts: Mapping[str, Facts]
    lines: Mapping[str, Mapping[str, Sequence[int]]]
    requests: dict[str, Requests] = field(default_factory=dict)
    compared: dict[str, Requests] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Mapping[str, Facts], reply: Reply) -> Evidence:
        """Return the evidence of the tests that take part."""
        made = cls(facts, reply.lines)
        read: dict[tuple[str, tuple[str, ...]], Requests] = {}
        for name, one in facts.items():
            made.requests[name] = _requests_of(one.cassettes, (), read)
            made.compared[name] = _requests_of(one.cassettes, one.ignored, read)
        return made

    def reaching(self, mutant: Mutant, path: Path) -> Reaching:
        """Return the tests that reach a mutant."""
        file = str(path)
        if not any(file in files for files in self.lines.values()):
            return Reaching(mutant, (), NO_IMPORT)
        running = [name for name in self.facts if self._runs(name, file, mutant)]
        holding = [name for name in self.facts if mutant.sought and self.requests[name].holds(mutant.sought)]
        if mutant.in_function:
            both = [name for name in running if name in holding]
            return self._found(mutant, both) if both else Reaching(mutant, (), "" if running else NO_LINE)
        if holding:
            return self._found(mutant, holding)
        return Reaching(mutant, (), NO_REQUEST if mutant.is_evident else "")

    def hidden(self, mutant: Mutant, tests: Iterable[str]) -> str:
        """Return the setting that keeps requests with an edit from being compared; empty if there is none."""
        if mutant.sought:
            for name in tests:
                if self.requests[name].holds(mutant.sought) and not self.compared[name].holds(mutant.sought):
                    return f"ignore hides it: {', '.join(self.facts[name].ignored)}"
        return ""

    def _runs(self, name: str, file: str, mutant: Mutant) -> bool:
        first, last = mutant.lines
        return any(first <= line <= last for line in self.lines.get(name, {}).get(file, ()))

    def _found(self, mutant: Mutant, names: Sequence[str]) -> Reaching:
        return Reaching(mutant, tuple(sorted(names, key=lambda name: (self.facts[name].seconds, name))))

    @property
    def files(self) -> list[str]:
        """The files of the project that were imported."""
        return sorted({file for files in self.lines.values() for file in files})


def _requests_of(
    cassettes: Sequence[str], ignored: tuple[str, ...], read: dict[tuple[str, tuple[str, ...]], Requests]
) -> Requests:
    found = Requests()
    for path in cassettes:
        if (path, ignored) not in read:
            stripped = Ignored.of(ignored).stripped
            try:
                cassette = open_cassette(Path(path))
                plain = (stripped(cassette.interaction(row.number).request) for row in cassette.entries)
                read[path, ignored] = Requests.of(plain)
            except (CassetteError, OSError):  # one in a folder that is gone, which the test has made for itself
                read[path, ignored] = Requests()
        found.add(read[path, ignored])
    return found


def sampled(reaching: Sequence[Reaching], most: int, seed: int) -> list[Reaching]:
    """Return so many mutants, drawn by chance, in the order of their lines; of each line one before others follow.

    Args:
        reaching: All of them.
        most: The number.
        seed: The seed of the draw.
    """
    if len(reaching) <= most:
        return list(reaching)
    places = list(range(len(reaching)))
    random.Random(seed).shuffle(places)  # noqa: S311 - a draw, no secret
    seen: dict[tuple[str, int], int] = {}
    turns: list[tuple[int, int, int]] = []
    for place in places:
        at = (reaching[place].mutant.file, reaching[place].mutant.line)
        seen[at] = seen.get(at, 0) + 1
        turns.append((seen[at], len(turns), place))
    chosen = sorted(place for _, _, place in sorted(turns)[:most])
    return [reaching[place] for place in chosen]
