"""The outcome of an item: a small JSON object without a byte of a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Literal

from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.items import Experiment, hash_of
from agenttape_core.matching import canonical_json

FORMAT = 1  # the version of the format of outcomes

Verdict = Literal["same", "changed", "broken", "failed", "unreadable"]
VERDICTS: tuple[Verdict, ...] = ("same", "changed", "broken", "failed", "unreadable")


def trajectory_of(calls: Iterable[tuple[str, str]]) -> str:
    """Return the hash of the kinds and names of the calls of a run, in the order of its recording."""
    return hash_of([[kind, name] for kind, name in calls])


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
    """Return the outcome that `to_bytes` has written.

    Args:
        data: The bytes.
        name: The name of the file in messages.
        item: The id of its item.

    Raises:
        ConfigurationError: If it has another format.
        ValueError: If it isn't the outcome of the item.
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
