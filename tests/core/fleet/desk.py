"""A desk that looks up a city and answers; its behavior varies by `how`, as after a change of its code."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from agenttape_core import boundary, use_cassette

how = "as recorded"
SECRET = "canary-5309"  # in each message and argument of each recording


@boundary("tool")
def look_up(city: str) -> str:
    """Tell the weather."""
    if "Atlantis" in city:
        raise LookupError(f"{SECRET} has sunk")
    return f"{city}: sunny, {SECRET}"


@boundary("tool")
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"{amount} {SECRET}"


@boundary("chat")
def ask(prompt: str) -> str:
    """Answer a prompt."""
    return f"{prompt}, {SECRET}"


def answer(city: str) -> str:
    """Answer a question about a city."""
    if how == "raises":
        raise ValueError(f"{SECRET} is wrong")
    if how == "skips":
        return ask(f"Weather of {city}? {SECRET}")
    if how == "is interrupted" and city == "Oslo":
        os.kill(os.getpid(), signal.SIGINT)  # as a terminal does: the main thread gets it
    facts = look_up(f"{city} {SECRET}")
    if "refund" in city:
        refund(3)
    return ask(f"Please: {facts}?" if how == "asks otherwise" else f"{facts}?")


def record(folder: Path | str, cities: list[str]) -> Path:
    """Record a run for each city, and return the folder."""
    for number, city in enumerate(cities):
        with use_cassette(f"{folder}/{number:03}.yaml", mode="record", redact=False) as cassette:
            cassette.note_input({"city": city})
            answer(city)
    return Path(folder)
