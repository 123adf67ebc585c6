"""The outcome of an item, a small JSON object without a byte of a message, and the store of all outcomes of a plan."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from agenttape_core.errors import CassetteNotFoundError, ConfigurationError, shown_path
from agenttape_core.fleet.items import Experiment, Plan, read_plan
from agenttape_core.matching import canonical_json
from agenttape_core.storage import Stored, below, create_once, list_files, location_of, read_ahead
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.stores import store_of

FORMAT = 1  # the version of the format of outcomes

Verdict = Literal["same", "changed", "broken", "failed", "unreadable"]
VERDICTS: tuple[Verdict, ...] = ("same", "changed", "broken", "failed", "unreadable")


def versions() -> dict[str, str]:
    """Return the versions that an outcome depends on."""
    return {"format": str(FORMAT), "agenttape": version("agenttape-core")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an item. Texts are names and places, never content.

    Args:
        item: The id of the item.
        cassette: Its recording.
        experiment: Its experiment.
        verdict: `broken` if a rule of yours is, `failed` if the program raised, `unreadable` if the recording is
            damaged or of an unknown format, `changed` if a request has no recording or recordings aren't used.
        candidate: The other model.
        sample: The number of the sample.
        weight: The number of recorded runs that it represents.
        trajectory: The hash of the kinds and names of the recorded calls, in order: the class of the run.
        cause: The hash of the place of the first new request and of what differs in it; empty if there is none.
        where: That in words.
        rules: The names of the broken rules.
        cases: The places of the cases in your rules that a turn of the run belongs to, as `file:line`.
        passed: Whether the sample of a candidate passed; `None` for other experiments, and if it isn't evidence.
        calls: The number of calls.
        tokens: The number of tokens.
        dollars: The cost of the calls in US dollars; `None` if it isn't known.
        seconds: The time of the calls, as recorded; for a candidate, the time of the calls in the sample.
        versions: The versions on which it depends.
    """

    item: str
    cassette: str
    experiment: Experiment
    verdict: Verdict
    candidate: str = ""
    sample: int = 0
    weight: float = 1.0
    trajectory: str = ""
    cause: str = ""
    where: str = ""
    rules: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    passed: bool | None = None
    calls: int = 0
    tokens: int = 0
    dollars: float | None = None
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=versions)

    @property
    def key(self) -> str:
        """The place of its file in a store."""
        return key_of(self.item)

    def to_bytes(self) -> bytes:
        """Return it as canonical JSON."""
        return f"{canonical_json(asdict(self))}\n".encode()


def key_of(item: str) -> str:
    """Return the place of the outcome of an item in a store, from the id of the item."""
    return f"results/{item[:2]}/{item}.json"


def read_outcome(data: bytes, name: str, item: str) -> Outcome:
    """Return the outcome that `to_bytes` has written. `name` is the name of the file in messages.

    Raises `ConfigurationError` if it has another format, and `ValueError` if it isn't the outcome of the item.
    """
    try:
        plain = json.loads(data)
        found = plain["versions"]["format"]
        if found != str(FORMAT):
            raise ConfigurationError(
                f"{name}: an outcome of format {found}, and this version reads format {FORMAT}\n"
                "  read it with the version of agenttape that wrote it"
            )
        outcome = Outcome(**{**plain, "rules": tuple(plain["rules"]), "cases": tuple(plain["cases"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"{name}: not an outcome") from error
    if outcome.item != item:
        raise ValueError(f"{name}: the outcome of another item")
    return outcome


# -- The store of a fleet: the plans that are worked on, and an outcome for each item that is done.


def store_plan(plan: Plan, output: str | Path) -> None:
    """Write a plan to a store, unless it's there. Raises `CassetteWriteError` if it can't be written."""
    create_once(below(location_of(output), f"plans/{plan.id}.jsonl"), plan.text().encode())


def plans_in(store: str | Path) -> Iterator[Plan]:
    """Yield the plans whose outcomes a store has. Raises `CassetteError` if it can't be read."""
    for file, read in read_ahead(_files(store, "plans", ".jsonl")):
        yield read_plan(read().decode(), shown_path(file.location))


def store_outcome(outcome: Outcome, output: str | Path) -> Outcome:
    """Write an outcome to a store, and return it, or the one that is there already. A damaged one is replaced.

    Raises `CassetteWriteError` if it can't be written, and `ConfigurationError` if the one that is there has another
    format.
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

    Raises as `outcomes_in` does.
    """
    place = below(location_of(store), key_of(item))
    try:
        return read_outcome(packed_bytes(place), shown_path(place), item)
    except (CassetteNotFoundError, ValueError):
        return None


def outcomes_in(store: str | Path, items: Container[str], damaged: set[str] | None = None) -> Iterator[Outcome]:
    """Yield the outcomes in a store, of the items with these ids.

    `damaged` gets the names of files that aren't the outcome of the item they're named after. Raises `CassetteError` if
    the store can't be read, and `ConfigurationError` if an outcome has another format.
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
