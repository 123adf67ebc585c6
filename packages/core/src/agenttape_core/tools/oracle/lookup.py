"""Looking up what a tool answered; what is unknown is drift."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from agenttape_core.errors import ReplayedError, UnrecordedCallError, counted
from agenttape_core.guard import OF_PROGRAM
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.matching import differences
from agenttape_core.redaction import Redactor
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.tools.oracle.entries import Entry, args_hash, entries_of
from agenttape_core.tools.oracle.files import read_oracle

_MAX_SHOWN = 6
_MAX_TEXT = 500
"""The most characters of a name or a line that is kept of an unknown call."""
_MAX_ASKED = 100_000
"""The most different calls that are counted: how often each was made says which of its answers is next."""
_MAX_KEPT = 1_000
"""The most unknown calls that are kept; the others are counted."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A call of a tool that nobody has recorded.

    Args:
        tool_name: The tool.
        args_hash: The hash of its arguments.
        occurrence: Which of the calls with these arguments it was, counted from 1.
        reason: Why there is no answer, in words.
        nearest: The number of the nearest recording, 0 if there is none.
        differences: What its arguments have that those of the call have not, a line each; empty where they are unknown.
    """

    tool_name: str
    args_hash: str
    occurrence: int
    reason: str
    nearest: int = 0
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n  ".join([f"no recording for tool {self.tool_name}: {self.reason}", *self.differences])

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self) | {"differences": list(self.differences)}


class ToolOracle:
    """Answers calls of tools as they were recorded, each recording once, and keeps what it has no answer to.

    Thread-safe. Calls with the same arguments get the recorded answers in their order.

    Args:
        entries: The answers; those of `entries_of` or `read_oracle`.
        redactor: Replaces the secrets of arguments as the recording did, and puts them back in answers.
    """

    def __init__(self, entries: Iterable[Entry], redactor: Redactor | None = None) -> None:
        self.entries = list(entries)
        self.drift: list[Unknown] = []
        """The calls without an answer so far: the first thousand."""
        self.unknown = 0
        """The number of all of them."""
        self.answered = 0
        self._redactor = redactor
        self._known = {(each.tool_name, each.args_hash, each.occurrence): each for each in self.entries}
        self._asked = Counter[tuple[str, str]]()
        self._lock = Lock()

    def look_up(self, tool_name: str, args: Any, occurrence: int | None = None) -> Entry | Unknown:
        """Return the answer to a call, or why there is none.

        Args:
            tool_name: The tool.
            args: Its arguments, as plain data.
            occurrence: Which of the calls with these arguments it is, counted from 1; by default the next one.

        Raises:
            ConfigurationError: If the arguments have no canonical JSON.
        """
        known = self._redactor.value(args) if self._redactor is not None else args
        return self._found(tool_name, known, args_hash(known), occurrence)

    def look_up_hash(self, tool_name: str, hashed: str, occurrence: int | None = None) -> Entry | Unknown:
        """Return the answer to a call of which only the hash of the arguments is known, or why there is none.

        Arguments with secrets have another hash than those of the recording, in which pseudonyms stand.

        Args:
            tool_name: The tool.
            hashed: The hash of its arguments; see `args_hash`.
            occurrence: As for `look_up`.
        """
        return self._found(tool_name, None, hashed, occurrence)

    def _found(self, tool_name: str, known: Any, hashed: str, occurrence: int | None) -> Entry | Unknown:
        with self._lock:
            if occurrence is None and len(self._asked) >= _MAX_ASKED and (tool_name, hashed) not in self._asked:
                occurrence = 1
            elif occurrence is None:
                self._asked[tool_name, hashed] += 1
                occurrence = self._asked[tool_name, hashed]
            entry = self._known.get((tool_name, hashed, occurrence))
            if entry is not None:
                self.answered += 1
                return self._rehydrated(entry)
            unknown = self._unknown(tool_name, known, hashed, occurrence)
            self.unknown += 1
            if len(self.drift) < _MAX_KEPT:
                self.drift.append(unknown)
            return unknown

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return a function for each tool: called with the arguments by name, it returns or raises what was recorded.

        A call that was not recorded raises `UnrecordedCallError`.
        """
        return {name: self._function(name) for name in sorted({entry.tool_name for entry in self.entries})}

    def _function(self, name: str) -> Callable[..., Any]:
        def answer(**args: Any) -> Any:
            found = self.look_up(name, args)
            if isinstance(found, Unknown):
                raise UnrecordedCallError(str(found))
            if found.error is not None:
                raise ReplayedError(found.error["type"], found.error["message"])
            return found.response

        answer.__name__ = answer.__qualname__ = name
        return answer

    def _rehydrated(self, entry: Entry) -> Entry:
        if self._redactor is None:
            return entry
        response, error = self._redactor.rehydrate([entry.response, entry.error])
        return Entry(entry.tool_name, entry.args_hash, entry.occurrence, response, error, entry.args, entry.source)

    def _unknown(self, name: str, args: Any, hashed: str, occurrence: int) -> Unknown:
        name = name[:_MAX_TEXT]
        of_tool = [entry for entry in self.entries if entry.tool_name == name]
        same = [entry for entry in of_tool if entry.args_hash == hashed]
        if same:
            reason = f"it was called so {counted(len(same), 'time')} only"
            return Unknown(name, hashed, occurrence, reason, same[-1].source)
        if not of_tool:
            names = sorted({entry.tool_name for entry in self.entries})
            alike = get_close_matches(name, names, n=1)
            said = f"did you mean {alike[0]}?" if alike else f"recorded are {', '.join(names) or 'no tools'}"
            return Unknown(name, hashed, occurrence, f"this tool was never called; {said}")
        nearest = min(of_tool, key=lambda entry: _distance(entry.args, args))
        found = list(differences(nearest.args, args)) if None not in (nearest.args, args) else []
        shown = (f"{each.path}: recorded {each.recorded}, asked {each.asked}" for each in found[:_MAX_SHOWN])
        lines = [line[:_MAX_TEXT] for line in shown]
        return Unknown(name, hashed, occurrence, "its arguments are others", nearest.source, tuple(lines))


def oracle_of(cassette: Cassette, settings: Settings | None = None) -> ToolOracle:
    """Return the oracle of a recording: it knows secrets in arguments again, and puts them back in answers.

    Args:
        cassette: The recording.
        settings: The settings of the project, with its redaction rules; by default those of the working directory.

    Raises:
        CassetteFormatError: If a record is malformed.
        ConfigurationError: If the recording was made with redaction rules that the project does not have.
    """
    redactor = redactor_for(cassette.path, cassette.preface, redact=True, settings=settings or load_settings())
    return ToolOracle(entries_of(cassette), redactor)


def _distance(recorded: Any, asked: Any) -> int:
    if not isinstance(recorded, Mapping) or not isinstance(asked, Mapping):
        return int(json.dumps(recorded, sort_keys=True) != json.dumps(asked, sort_keys=True))
    return sum(1 for _ in differences(dict(recorded), dict(asked)))


def fakes_of(where: str, cassettes: Iterable[Path | str | None]) -> dict[str, Any]:
    """Return options of `use_cassette` with which an oracle answers calls of tools without a recording.

    Args:
        where: A file that `agenttape export --format oracle` has written, or the URL of `agenttape serve`.
        cassettes: The recordings, whose tools a server is asked for.

    Raises:
        ConfigurationError: If the file can't be read.
    """
    if "://" not in where:
        return {"fakes": ToolOracle(read_oracle(where)).functions()}
    opened = [open_cassette(path) for path in cassettes if path is not None]
    names = {row.name for cassette in opened for row in cassette.entries if row.kind == "tool"}
    return {"fakes": {name: _asking(where, name) for name in sorted(names)}, "allow_hosts": _host_of(where)}


def _host_of(url: str) -> tuple[str, ...]:
    found = urlsplit(url)
    return (f"{OF_PROGRAM}{found.hostname}" + (f":{found.port}" if found.port else ""),)


def _asking(url: str, name: str) -> Callable[..., Any]:
    def answer(**args: Any) -> Any:
        body = json.dumps({"tool_name": name, "args": args}).encode()
        request = Request(f"{url.rstrip('/')}/tool", body, {"Content-Type": "application/json"})  # noqa: S310 - given
        try:
            with urlopen(request) as answered:  # noqa: S310 - the user's own
                found = json.load(answered)
        except HTTPError as error:
            raise UnrecordedCallError(json.load(error).get("error", str(error))) from None
        if found.get("error") is not None:
            raise ReplayedError(found["error"]["type"], found["error"]["message"])
        return found.get("response")

    return answer
