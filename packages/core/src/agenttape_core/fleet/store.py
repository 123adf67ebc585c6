"""The store of a fleet: the plans that are worked on, and an outcome for each item that is done."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from agenttape_core.errors import CassetteNotFoundError, shown_path
from agenttape_core.fleet.items import Plan, read_plan
from agenttape_core.fleet.outcomes import Outcome, key_of, read_outcome
from agenttape_core.storage import Stored, below, create_once, list_files, location_of, read_ahead
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.stores import store_of


def store_plan(plan: Plan, output: str | Path) -> None:
    """Write a plan to a store, unless it's there. Raises `CassetteWriteError` if it can't be written."""
    create_once(below(location_of(output), f"plans/{plan.id}.jsonl"), plan.text().encode())


def plans_in(store: str | Path) -> Iterator[Plan]:
    """Yield the plans whose outcomes a store has. Raises `CassetteError` if it can't be read."""
    for file, read in read_ahead(_files(store, "plans", ".jsonl")):
        yield read_plan(read().decode(), shown_path(file.location))


def store_outcome(outcome: Outcome, output: str | Path) -> Outcome:
    """Write an outcome to a store, and return it, or the one that is there already. A damaged one is replaced.

    Raises:
        CassetteWriteError: If it can't be written.
        ConfigurationError: If the one that is there has another format.
    """
    place = below(location_of(output), outcome.key)
    if create_once(place, outcome.to_bytes()):
        return outcome
    if (known := outcome_in(output, outcome.item)) is not None:
        return known
    store, key = store_of(place)
    store.save(key, outcome.to_bytes())
    return outcome


def outcome_in(store: str | Path, item: str) -> Outcome | None:
    """Return the outcome of an item in a store; `None` if there's none, or it's damaged.

    Raises:
        CassetteError: If it can't be read.
        ConfigurationError: If it has another format.
    """
    place = below(location_of(store), key_of(item))
    try:
        return read_outcome(packed_bytes(place), shown_path(place), item)
    except (CassetteNotFoundError, ValueError):
        return None


def outcomes_in(store: str | Path, items: Container[str], damaged: set[str] | None = None) -> Iterator[Outcome]:
    """Yield the outcomes in a store, of the items with these ids.

    Args:
        store: The store.
        items: The ids.
        damaged: Gets the names of files that aren't the outcome of the item they're named after.

    Raises:
        CassetteError: If the store can't be read.
        ConfigurationError: If an outcome has another format.
    """
    files = [file for file in _files(store, "results", ".json") if _item_of(file) in items]
    for file, read in read_ahead(files):
        name = shown_path(file.location)
        try:
            yield read_outcome(read(), name, _item_of(file))
        except ValueError:
            if damaged is not None:
                damaged.add(name)


def _item_of(file: Stored) -> str:
    return file.location.name.removesuffix(".json")


def _files(store: str | Path, folder: str, suffix: str) -> list[Stored]:
    try:
        return list_files(below(location_of(store), folder), lambda name: name.endswith(suffix))
    except CassetteNotFoundError:
        return []
