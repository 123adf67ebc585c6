"""The table: programs, the ways to run them, and how often each is replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agenttape_core.testing import Program

from .outside import Outside

Framework = Literal["LangGraph", "LangChain", "LlamaIndex", "plain Python"]
Driver = Callable[[Any], Program]
"""Makes a program of what a row makes: it runs that in its own way."""


RACES = 20
"""How often a program is replayed whose branches run at once."""
LARGE_RACES = 6
"""How often one that is large, and like others."""
ONCE_OR_TWICE = 2
"""How often one that does one thing after the other."""


@dataclass(frozen=True)
class Row:
    """A program of the table.

    Args:
        name: The name of the function that makes it.
        says: What it does, as the page shows it.
        framework: What it is written with.
        make: Makes what the drivers run, with the world that it reaches.
        drivers: The ways to run it, by name.
        replays: How often it is replayed in one process, by the drivers that show most.
        never: Why parts are not equal, by part, as the page says it.
        seeded: Why the order in parts is another in a process with another hash seed, by part, as the page says it.
        missed: Words of the miss in a process with another hash seed, if it cannot be replayed there.
        fails: Whether it ends with an error.
    """

    name: str
    says: str
    framework: Framework
    make: Callable[[Outside], Any]
    drivers: Mapping[str, Driver]
    replays: int = ONCE_OR_TWICE
    never: Mapping[str, str] = field(default_factory=dict)
    seeded: Mapping[str, str] = field(default_factory=dict)
    missed: str = ""
    fails: bool = False

    def times(self, driver: str) -> int:
        """Return how often the program is replayed in one process by a driver."""
        return self.replays if driver not in NARROW else (self.replays > ONCE_OR_TWICE) + 1

    def program(self, driver: str, world: Outside) -> Program:
        """Return the program, made anew in each run, as a user's test makes it."""
        return self.drivers[driver](lambda: self.make(world))


ROWS: dict[str, Row] = {}
"""Every row, by name."""

NARROW = {"invoke", "ainvoke", "stream_events v3", "astream_events v1", "astream_events v2", "astream_events v3"}
"""The drivers that show less than `stream` and `astream`, which are replayed more often."""

VERSIONS = {"saver": "LangGraph writes the versions of channels into checkpoints in the order of a set"}
"""Of graphs: the values are equal, their bytes are not."""
TRACEBACKS = {
    "tracebacks": "a tracer keeps the traceback of an error as text; the frames inside of a replayed call are not there"
}
"""Of programs in which a replayed call raises."""


def row(
    framework: Framework,
    drivers: Mapping[str, Driver],
    *only: str,
    replays: int = ONCE_OR_TWICE,
    never: Mapping[str, str] | None = None,
    seeded: Mapping[str, str] | None = None,
    missed: str = "",
    fails: bool = False,
) -> Callable[[Callable[[Outside], Any]], Callable[[Outside], Any]]:
    """Put a program into the table; its docstring is what the page says of it.

    Args:
        framework: What it is written with.
        drivers: The ways to run it.
        only: The names of those that it can be run in, if not all.
        replays: How often it is replayed in one process.
        never: Why parts cannot be equal.
        seeded: Why the order in parts cannot be equal in a process with another hash seed.
        missed: Words of the miss in such a process.
        fails: Whether it ends with an error.
    """

    def put(make: Callable[[Outside], Any]) -> Callable[[Outside], Any]:
        words = (make.__doc__ or " ").removesuffix(".")
        says = words[0].lower() + words[1:]
        chosen = {name: drivers[name] for name in only or drivers}
        ROWS[make.__name__] = Row(
            make.__name__,
            says,
            framework,
            make,
            chosen,
            replays,
            never=never or {},
            seeded=seeded or (VERSIONS if framework == "LangGraph" else {}),
            missed=missed,
            fails=fails,
        )
        return make

    return put


def cells(*frameworks: Framework) -> list[tuple[str, str]]:
    """Return the names of the rows of some frameworks, or of all, each with each of its drivers."""
    rows = [(name, each) for name, each in ROWS.items() if not frameworks or each.framework in frameworks]
    return [(name, driver) for name, each in rows for driver in each.drivers]
