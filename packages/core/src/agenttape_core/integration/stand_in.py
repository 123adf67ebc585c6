"""The recordings of one part of an agent, for the object that stands for it.

A stand-in does not know the settings of what it stands for: they are taken from the recording. What a call itself
gives must be equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.replay_only import open_replay
from agenttape_core.session import Boundary, Crossing, Report, Session, value_codec

Exhausted = Literal["fail", "last", "cycle"]
"""What to do when a request is asked more often than it was recorded."""

Pace = Literal["none", "recorded"] | float | None
"""How long an answer takes: no time, as long as it was recorded, or that times a factor; else as the settings say."""


class Options(TypedDict, total=False):
    """How a stand-in replays.

    Args:
        exhausted: What to do when a request is asked more often than it was recorded: `fail`, `last`, `cycle`.
        pace: How long an answer takes.
    """

    exhausted: Exhausted
    pace: Pace


Settings = Mapping[str, Any]
"""What of a request belongs to the object and not to the call."""


class RecordedPart:
    """The recordings of one part of an agent. Each instance replays them once from the start.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        kinds: The kinds of its interactions.
        settings_in: Reads the settings of a recorded request; gives nothing for one of another sort of object.
        name: Its recorded name, where the cassette holds several.
        choice: What else chooses among several: settings that must be equal.
        options: How it replays.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it holds no recording of that sort, or none so chosen.
    """

    def __init__(
        self,
        cassette: str | Path,
        kinds: frozenset[str],
        settings_in: Callable[[Mapping[str, Any]], Settings | None],
        *,
        name: str | None = None,
        choice: Settings | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._session = open_replay(cassette, **options)
        self._kinds = kinds
        found = list(self._found(settings_in))
        wanted = {key: value for key, value in (choice or {}).items() if value is not None}
        mine = [(each, held) for each, held in found if name in {None, each} and wanted.items() <= held.items()]
        if not mine:
            raise self._nothing(found, name, wanted)
        self.name = mine[0][0]
        """The recorded name: of the first, if they have several."""
        self.settings = list({json.dumps(held, sort_keys=True): held for _, held in mine}.values())
        """Each distinct set of settings, in recorded order."""

    def __deepcopy__(self, memo: dict[int, object]) -> RecordedPart:
        """Return itself: a copy of a stand-in goes on in the cassette where the original is."""
        return self

    def _found(self, settings_in: Callable[[Mapping[str, Any]], Settings | None]) -> Iterator[tuple[str, Settings]]:
        source = self._session.source
        for row in source.entries:
            if row.kind in self._kinds:
                settings = settings_in(source.interaction(row.number).request)
                if settings is not None:
                    yield row.name, settings

    def _nothing(self, found: list[tuple[str, Settings]], name: str | None, wanted: Settings) -> ConfigurationError:
        kinds = " or ".join(sorted(self._kinds))
        if not found:
            return ConfigurationError(
                f"{self._session.path} holds no {kinds} of this sort, so nothing can stand for it\n"
                "  record a run that calls it, or name another cassette"
            )
        asked = " and ".join([*([repr(name)] if name else []), *(f"{key} {value!r}" for key, value in wanted.items())])
        held = sorted({f"{each} {json.dumps({k: s.get(k) for k in wanted}) if wanted else ''}" for each, s in found})
        return ConfigurationError(
            f"{self._session.path} holds no {kinds} of {asked}; it holds {', '.join(map(str.strip, held))}\n"
            "  name one of them"
        )

    @property
    def report(self) -> Report:
        """What was served so far."""
        return self._session.report

    @property
    def session(self) -> Session:
        """The session that serves; it is never the current one."""
        return self._session

    def cross(
        self,
        boundary: Boundary,
        body: Callable[[Settings], dict[str, Any]],
        given: Settings | None = None,
        ids: tuple[str, ...] = (),
    ) -> Crossing:
        """Begin the crossing of a call.

        Args:
            boundary: Its family.
            body: Makes the request of settings.
            given: The settings that the call itself gives.
            ids: Run-specific ids of the call that are not part of what is asked.

        Raises:
            CassetteMissError: If there is no recording of it.
        """
        asked = self.plain(given or {})
        fitting = [held for held in self.settings if asked.items() <= held.items()]
        bodies = [body(held) for held in fitting or [{**self.settings[0], **asked}]]
        known = [each for each in bodies if self._session.times_recorded(boundary, each)]
        left = (each for each in known if self._session.times_left(boundary, each))
        return self._session.cross(boundary, self.name, next(left, (known or bodies)[0]), owner=self, ids=ids)

    def plain(self, value: Any) -> Any:
        """Return a value in the form in which recorded ones are: plain and redacted."""
        return self._session.redactor.value(value_codec().encode(value))


def settings_of_method(methods: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Settings | None]:
    """Return what reads the settings of a request of one of several methods."""
    return lambda request: request.get("settings", {}) if request.get("method") in methods else None
