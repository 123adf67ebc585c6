"""Runs begun again from the input in their headers: plain functions, and what is wrong with a source."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Rule, areplay_source, boundary, open_cassette, replay_source, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.storage import leftover_journals, recover

REACHED: list[str] = []


@boundary("tool")
def look_up(city: str) -> str:
    """Reach the outside."""
    REACHED.append(city)
    return f"{city}: {len(REACHED)}"


def weather(city: str, days: int = 1) -> str:
    """A program of plain Python."""
    return " ".join(look_up(city) for _ in range(days))


async def later(city: str, days: int = 1) -> str:
    """The same, awaited."""
    return weather(city, days)


def record(path: Path, given: Any, **options: Any) -> Any:
    """Record a run that says what it was given."""
    with use_cassette(path, mode="all", **options) as cassette:
        cassette.note_input(given)
        return weather(**given) if isinstance(given, dict) else weather(given)


@pytest.mark.parametrize("given", ["Paris", {"city": "Paris", "days": 2}], ids=["value", "arguments"])
@pytest.mark.parametrize("program", [weather, later], ids=["plain", "awaited"])
def test_a_function_runs_again(tmp_path: Path, given: Any, program: Any) -> None:
    """A function gets its recorded argument, or its arguments by their names; nothing is executed."""
    live = record(tmp_path / "run.yaml", given)
    reached = len(REACHED)
    again = replay_source(tmp_path / "run.yaml", program)
    assert (again.answer, again.report.recorded, len(REACHED)) == (live, (), reached)


def test_a_run_begins_again_in_an_event_loop(tmp_path: Path) -> None:
    """In a loop that is running, it is awaited; the other form says so before anything runs."""
    live = record(tmp_path / "run.yaml", "Paris")

    async def both() -> Any:
        with pytest.raises(ConfigurationError, match="await areplay_source"):
            replay_source(tmp_path / "run.yaml", later)
        return (await areplay_source(tmp_path / "run.yaml", later)).answer

    assert asyncio.run(both()) == live


def test_the_first_input_is_kept_redacted(tmp_path: Path) -> None:
    """The header has the first input without secrets, and the id of the run, which its report has."""
    with use_cassette(tmp_path / "run.yaml", mode="all", redact=[Rule("customer", literal="Ms Smith")]) as cassette:
        cassette.note_input({"city": "Ms Smith"})
        cassette.note_input({"city": "Oslo"})
        look_up("Ms Smith")
    header = open_cassette(tmp_path / "run.yaml").header
    assert header.input["city"].startswith("[REDACTED:customer:")
    assert header.volatile.run_id == cassette.report.run_id
    again = replay_source(tmp_path / "run.yaml", weather, redact=[Rule("customer", literal="Ms Smith")])
    assert len(again.report.replayed) == 1, "a pseudonym asks for what the secret asked for"


def test_what_is_recovered_has_its_input(tmp_path: Path) -> None:
    """A recording whose run failed holds the input of the run when it is got back, redacted."""
    rules = [Rule("customer", literal="Ms Smith")]
    path = tmp_path / "run.yaml"
    with pytest.raises(ZeroDivisionError), use_cassette(path, mode="all", redact=rules) as cassette:
        cassette.note_input({"city": "Ms Smith"})
        weather("Ms Smith")
        raise ZeroDivisionError
    (journal,) = leftover_journals(path)
    assert b"Ms Smith" not in journal.read_bytes()
    assert open_cassette(recover(journal)).header.input["city"].startswith("[REDACTED:customer:")
    assert replay_source(path, weather, redact=rules).report.recorded == ()


def test_a_replay_notes_nothing(tmp_path: Path) -> None:
    """A replay, and one that adds to a recording, leave the input as it is; an update takes the new one."""
    path = tmp_path / "run.yaml"
    record(path, "Paris")
    for mode, city in (("none", "Paris"), ("new_episodes", "Oslo")):
        with use_cassette(path, mode=mode, on_unused="ignore") as cassette:
            cassette.note_input(city)
            weather(city)
    assert open_cassette(path).header.input == "Paris"
    with use_cassette(path, mode="update") as cassette:
        cassette.note_input("Rome")
        weather("Rome")
    assert open_cassette(path).header.input == "Rome"


def test_another_input_is_given(tmp_path: Path) -> None:
    """An input in the place of the recorded one is what the program gets."""
    record(tmp_path / "run.yaml", "Paris")
    with pytest.raises(CassetteMissError, match="Oslo"):
        replay_source(tmp_path / "run.yaml", weather, given="Oslo")


def test_a_source_without_input(tmp_path: Path) -> None:
    """A recording that has no input is refused before anything runs, with what to do."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        weather("Paris")
    with pytest.raises(ConfigurationError, match=r"(?s)does not hold the input of its run\n  record it .*note_input"):
        replay_source(tmp_path / "run.yaml", pytest.fail)


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    """What is neither called nor invoked is named."""
    record(tmp_path / "run.yaml", "Paris")
    with pytest.raises(ConfigurationError, match="--app names a int: expected a graph"):
        replay_source(tmp_path / "run.yaml", 3)
