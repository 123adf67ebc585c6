"""The table of the page `docs/identical.md`, made of the rows."""

from __future__ import annotations

from collections.abc import Iterator

from .table import ROWS, Framework, Row

HEAD = "| the program | run by | replays | equal |\n|---|---|---|---|"
ORDER: tuple[Framework, ...] = ("LangGraph", "LangChain", "LlamaIndex", "plain Python")


def tables() -> str:
    """Return a heading and a table for each framework, as Markdown."""
    return "\n\n".join(f"### {framework}\n\n{HEAD}\n" + "\n".join(_lines(framework)) for framework in ORDER)


def _lines(framework: Framework) -> Iterator[str]:
    for row in ROWS.values():
        if row.framework == framework:
            drivers = ", ".join(
                f"`{driver}`" if framework in {"LangGraph", "LangChain"} else driver for driver in row.drivers
            )
            times = sorted({row.times(driver) for driver in row.drivers}, reverse=True)
            yield f"| {row.says} | {drivers} | {' or '.join(map(str, times))} | {_equal(row)} |"


def _equal(row: Row) -> str:
    if row.missed:
        return "everything; with another hash seed it is a miss that says why"
    but = ", ".join(row.never)
    seeded = f"; with another hash seed but for orders in {', '.join(row.seeded)}" if "spans" in row.seeded else ""
    return (f"everything but {but}" if but else "everything") + seeded
