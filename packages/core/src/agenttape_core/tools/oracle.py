"""A tool oracle: what tools answered, for agents in any language.

The file is the one of Forge's replay: a JSON array with an entry for each call of a tool.

The server answers on this machine alone. `POST /tool` with `{"tool_name": ..., "args": ...}` answers 200 with an entry
as in an oracle file, or 404 with the closest one. `args_hash` may replace the arguments, and `occurrence` be added, if
the caller counts. `GET /unrecorded` counts the answered requests, and lists the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from agenttape_core.errors import (
    CassetteFormatError,
    CassetteNotFoundError,
    ConfigurationError,
    ReplayedError,
    UnrecordedCallError,
    counted,
)
from agenttape_core.guard import OF_PROGRAM
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.matching import differences
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Interaction, Outcome
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.tools.loopback import LoopbackHandler, LoopbackServer, object_in, without_duplicates
from agenttape_core.tools.reading.messages import bare, joined

__all__ = [
    "Entry",
    "OracleServer",
    "ToolOracle",
    "Unknown",
    "args_hash",
    "entries_of",
    "lines_of",
    "oracle_of",
    "read_oracle",
]


# -- Look up a tool's recorded answers; an unknown call is unrecorded.


# -- The answers of tools, by name and arguments.


EXTRA = "a tool oracle needs the canonical form of JSON\n  pip install 'agenttape-core[oracle]'"


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer of a tool.

    Args:
        tool_name: The tool.
        args_hash: The hash of its arguments; see `args_hash`.
        occurrence: Which of the calls with these arguments it answered, counted from 1.
        response: What the tool returned, as plain data; `None` if it raised.
        error: What it raised, as `{"type": ..., "message": ...}`; `None` if it returned.
        args: The arguments, where they are known; an oracle file does not hold them.
        source: The number of the interaction, or of the entry in its file.
    """

    tool_name: str
    args_hash: str
    occurrence: int
    response: Any = None
    error: Mapping[str, str] | None = None
    args: Any = None
    source: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the entry in the form of an oracle file."""
        ended = {"response": self.response} if self.error is None else {"error": dict(self.error)}
        return {"tool_name": self.tool_name, "args_hash": self.args_hash, "occurrence": self.occurrence, **ended}


def args_hash(args: Any) -> str:
    """Return the hash of the arguments of a tool: SHA-256, in hex, of their canonical JSON (RFC 8785).

    Args:
        args: The arguments as plain data, mostly a mapping by name.

    Raises:
        ConfigurationError: If they have no such form, as an integer beyond 2**53 or a NaN has none, or if the library
            for it is not installed.
    """
    try:
        import rfc8785
    except ModuleNotFoundError:
        raise ConfigurationError(EXTRA) from None
    try:
        return sha256(rfc8785.dumps(args)).hexdigest()
    except rfc8785.CanonicalizationError as error:
        raise ConfigurationError(
            f"arguments of a tool have no canonical JSON (RFC 8785): {error}\n"
            "  pass integers beyond 2**53 and numbers that are not finite as text"
        ) from None


def entries_of(cassette: Cassette) -> list[Entry]:
    """Return the answers of the tools in a recording, in the order of the file.

    The arguments and answers come from the cassette: secrets in them are pseudonyms. Calls that were cancelled, or
    refused, have no answer and are left out.

    Raises:
        CassetteFormatError: If a record is malformed.
        ConfigurationError: If arguments have no canonical form.
    """
    seen, entries = Counter[tuple[str, str]](), []
    for item in cassette.interactions():
        if item.kind == "tool" and item.outcome.status in {"returned", "raised", "streamed"}:
            args = _arguments(item)
            hashed = args_hash(args)
            seen[item.name, hashed] += 1
            ended = _ended(item.outcome)
            entries.append(Entry(item.name, hashed, seen[item.name, hashed], **ended, args=args, source=item.number))
    return entries


def _arguments(item: Interaction) -> Any:
    for key in ("arguments", "args"):
        if key in item.request:
            return item.request[key]
    return item.request


def _ended(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is not None:
        return {"error": {"type": outcome.error.type, "message": outcome.error.message}}
    return {"response": _said(joined(outcome))}


def _said(value: Any) -> Any:
    """Return the text of a tool's answer: the content of a framework's message or output."""
    inner = bare(value)
    if inner is value or not isinstance(inner, Mapping):
        return inner
    return _said(inner["content"]) if "content" in inner else dict(inner)


# -- Oracle files: a JSON array of entries.


_EXPECTED = "expected an array of {tool_name, args_hash, occurrence, response or error}"
_REMEDY = "write it again: agenttape export CASSETTE --format oracle -o FILE"
_HEX = frozenset("0123456789abcdef")
_DIGITS = 64


def lines_of(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of an oracle file: an array, with a line for each entry."""
    lines = [json.dumps(entry.plain()) for entry in entries]
    yield "["
    yield from (f"{line}," for line in lines[:-1])
    yield from lines[-1:]
    yield "]"


def read_oracle(path: Path | str) -> list[Entry]:
    """Return the entries of an oracle file.

    `occurrence` may be missing where no call is repeated. Further keys are ignored.

    Raises:
        CassetteNotFoundError: If the file doesn't exist.
        CassetteFormatError: If it isn't an array of entries, or two of them answer the same call.
    """
    try:
        found = json.loads(Path(path).read_bytes(), object_pairs_hook=without_duplicates)
    except FileNotFoundError:
        raise CassetteNotFoundError(path, "there is no such oracle file", remedy=_REMEDY) from None
    except (ValueError, RecursionError) as error:
        raise CassetteFormatError(path, f"this isn't JSON: {error}", remedy=_REMEDY) from None
    if not isinstance(found, list):
        raise CassetteFormatError(path, f"{_EXPECTED}, found {_sort(found)}", remedy=_REMEDY)
    entries: dict[tuple[str, str, int], Entry] = {}
    for number, raw in enumerate(found, 1):
        entry = _entry(path, number, raw)
        same = entries.setdefault((entry.tool_name, entry.args_hash, entry.occurrence), entry)
        if same is not entry:
            raise CassetteFormatError(
                path,
                f"entries {same.source} and {number} both answer call {entry.occurrence} of {entry.tool_name} with the"
                f" arguments {entry.args_hash}",
                remedy="keep one of them, or number them as occurrence 1, 2, ...",
            )
    return list(entries.values())


def _entry(path: Path | str, number: int, raw: Any) -> Entry:
    fields = raw if isinstance(raw, Mapping) else {}
    name, hashed, occurrence = fields.get("tool_name"), fields.get("args_hash"), fields.get("occurrence", 1)
    problems = [
        (not isinstance(raw, Mapping), f"is {_sort(raw)}"),
        (not isinstance(name, str) or not name, "has no tool_name"),
        (not is_hash(hashed), "has no args_hash of 64 hex digits"),
        (type(occurrence) is not int or occurrence < 1, f"has the occurrence {occurrence!r}, expected 1 or more"),
        (("response" in fields) == ("error" in fields), "needs either a response or an error"),
        ("error" in fields and not _is_error(fields["error"]), "has an error without type and message"),
    ]
    problem = next((said for is_so, said in problems if is_so), None)
    if problem is not None:
        raise CassetteFormatError(path, f"entry {number} {problem}; {_EXPECTED}", remedy=_REMEDY)
    return Entry(str(name), str(hashed), occurrence, fields.get("response"), fields.get("error"), source=number)


def is_hash(value: Any) -> bool:
    """Return whether a value is a hash of arguments: 64 hex digits."""
    return isinstance(value, str) and len(value) == _DIGITS and set(value) <= _HEX


def _is_error(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("type", "message"))


def _sort(value: Any) -> str:
    sorts = {dict: "an object", list: "an array", str: "a text", bool: "a truth value", type(None): "null"}
    return sorts.get(type(value), "a number")


_MAX_SHOWN = 6
_MAX_TEXT = 500  # the most characters of a name or a line that is kept of an unknown call
_MAX_ASKED = 100_000  # the most different calls that are counted: the count of each one selects its next answer
_MAX_KEPT = 1_000  # the most unknown calls that are kept; the others are counted


@dataclass(frozen=True, slots=True)
class Unknown:
    """A call of a tool that isn't recorded.

    Args:
        tool_name: The tool.
        args_hash: The hash of its arguments.
        occurrence: Which of the calls with these arguments it was, counted from 1.
        reason: The reason why there's no answer.
        nearest: The number of the nearest recording, 0 if there is none.
        differences: The differences between its arguments and the call's, a line each; empty if they're unknown.
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
    """Answers calls of tools from their recordings, each recording once, and keeps the calls it can't answer.

    Thread-safe. Calls with the same arguments get the recorded answers in their order.

    Args:
        entries: The answers, from `entries_of` or `read_oracle`.
        redactor: Replaces the secrets of arguments as the recording did, and puts them back in answers.
    """

    def __init__(self, entries: Iterable[Entry], redactor: Redactor | None = None) -> None:
        self.entries = list(entries)
        self.unrecorded: list[Unknown] = []
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

        Arguments with secrets hash differently than in the recording, which has pseudonyms.

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
            if len(self.unrecorded) < _MAX_KEPT:
                self.unrecorded.append(unknown)
            return unknown

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return a function for each tool: called with named arguments, it returns or raises the recorded outcome.

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
    """Return the oracle of a recording: it recognizes secrets in arguments, and puts them back in answers.

    Args:
        cassette: The recording.
        settings: The settings of the project, with its redaction rules; by default from the working directory.

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

    `where` is a file that `agenttape export --format oracle` has written, or the URL of `agenttape serve`. Raises
    `ConfigurationError` if the file can't be read.
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


# -- A tool oracle over HTTP, on this machine alone.


_MAX_CLIENTS = 32


class OracleServer(LoopbackServer):
    """Serves an oracle on the loopback interface; as a context manager, in a separate thread.

    Args:
        oracle: The oracle.
        port: The port; 0 for any that is free.
    """

    def __init__(self, oracle: ToolOracle, port: int = 0) -> None:
        self.oracle = oracle
        super().__init__(_Handler, port, clients=_MAX_CLIENTS)


class _Handler(LoopbackHandler):
    def get(self) -> None:
        """Answer a GET."""
        if self.path.rstrip("/") == "/unrecorded":
            unrecorded = [unknown.plain() for unknown in self._oracle.unrecorded]
            counts = {"answered": self._oracle.answered, "unknown": self._oracle.unknown}
            self.answer(HTTPStatus.OK, {**counts, "unrecorded": unrecorded})
        else:
            self.refuse(HTTPStatus.NOT_FOUND, f"{self.path} is nothing; ask POST /tool, or GET /unrecorded")

    def post(self, body: bytes) -> None:
        """Answer a POST with this body."""
        if self.path.rstrip("/") != "/tool":
            self.refuse(HTTPStatus.NOT_FOUND, f"{self.path} is nothing; ask POST /tool")
            return
        try:
            found = _found(self._oracle, body)
        except (ValueError, RecursionError, ConfigurationError) as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        if isinstance(found, Unknown):
            self.answer(HTTPStatus.NOT_FOUND, {"error": str(found), **found.plain()})
        else:
            self.answer(HTTPStatus.OK, found.plain())

    @property
    def _oracle(self) -> ToolOracle:
        return cast("OracleServer", self.server).oracle


def _found(oracle: ToolOracle, body: bytes) -> Entry | Unknown:
    """Return the answer to the call in the body of a request.

    Raises `ValueError` if it doesn't have the form in the module's docstring, and `ConfigurationError` if the arguments
    have no canonical JSON.
    """
    asked = object_in(body)
    fields = asked if isinstance(asked, dict) else {}
    name, hashed, occurrence = fields.get("tool_name"), fields.get("args_hash"), fields.get("occurrence")
    if not isinstance(name, str) or ("args" in fields) == ("args_hash" in fields):
        raise ValueError('expected {"tool_name": "...", "args": {...}}, or "args_hash" in the place of "args"')
    if occurrence is not None and (type(occurrence) is not int or occurrence < 1):
        raise ValueError(f"expected an occurrence of 1 or more, found {occurrence!r}")
    if "args" in fields:
        return oracle.look_up(name, fields["args"], occurrence)
    if not is_hash(hashed):
        raise ValueError(f"expected an args_hash of 64 hex digits, found {hashed!r}")
    return oracle.look_up_hash(name, str(hashed), occurrence)
