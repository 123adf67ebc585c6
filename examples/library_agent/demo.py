"""Record the library's agent, take its service away, replay it, and break it.

From the folder `examples`: `python -m library_agent.demo`. It writes to a temporary folder only.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

from agenttape_core import Session, use_cassette
from agenttape_core.errors import CassetteMissError
from weather_agent.server import OpenAILoopback

from .agent import INSTRUCTIONS, LibraryAgent

QUESTION = "I want to read about the first programmer. Reserve a book for me."


def run(folder: Path) -> bool:
    """Tell the story in a folder; whether all of it was true."""
    reservations = folder / "reservations.txt"
    with OpenAILoopback() as server:
        recorded, session = perform("once", folder, server.base_url, reservations)
        lines = reservations.read_text("utf-8")
    print(f"RECORD   {session.report}; {len(lines.splitlines())} book reserved\n         {recorded[0]}")
    for row in session.interactions:
        print(f"         {row.number:>2} {row.kind:<11}{row.name}{f', below {row.parent}' if row.parent else ''}")

    replayed, session = perform("none", folder, server.base_url, reservations)
    equal = replayed == recorded and reservations.read_text("utf-8") == lines and not session.report.recorded
    print(f"REPLAY   {session.report}; the service is gone, nothing was reserved")
    print(f"         answer and {len(replayed[1])} streamed events are {'equal' if equal else 'NOT EQUAL'}")

    print("BREAK    the instructions change by one word")
    missed = broken(folder, server.base_url, reservations)
    print(indent(missed or "no miss", "         "))
    return equal and "- You are a librarian." in missed


def perform(
    mode: str, folder: Path, base_url: str, reservations: Path, instructions: str = INSTRUCTIONS
) -> tuple[tuple[str, list[str]], Session]:
    """Build the agent and ask it, in a session."""
    with use_cassette("library", mode=mode, cassette_dir=folder) as session:
        answer = asyncio.run(LibraryAgent(base_url, reservations, instructions).ask(QUESTION))
    return answer, session


def broken(folder: Path, base_url: str, reservations: Path) -> str:
    """Replay an agent with other instructions; what the miss says."""
    try:
        perform("none", folder, base_url, reservations, INSTRUCTIONS.replace("librarian", "bookseller"))
    except CassetteMissError as miss:
        return str(miss).replace(f"{folder}{os.sep}", "")
    return ""


def main() -> int:
    """Run the demonstration; the exit code."""
    for variable in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        del os.environ[variable]  # the story is the same whatever mode its reader has set
    with TemporaryDirectory(prefix="agenttape-demo-") as folder:
        return 0 if run(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
