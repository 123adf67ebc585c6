"""Files of other tools, read as plain data: no part of them is executed or imported, and size and depth are bounded."""

from __future__ import annotations

import ast
import gzip
import json
import keyword
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from agenttape_core.errors import CassetteFormatError, CassetteNotFoundError
from agenttape_core.format.limits import MAX_FOREIGN_BYTES, MAX_PACKED_RATIO

MAX_BYTES = 256 * 1024 * 1024  # size of a foreign file in bytes, after decompression

_GZIP = b"\x1f\x8b"


def read_source(path: Path) -> bytes:
    """Return the content of a file, decompressed if its first bytes are gzip's, whatever its name.

    Raises:
        CassetteNotFoundError: If the file doesn't exist.
        CassetteFormatError: If it can't be read or decompressed, or is larger than `MAX_BYTES`, or than a packed file
            of its size may be.
    """
    limit = MAX_BYTES
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if data.startswith(_GZIP):
            limit = min(MAX_BYTES, max(MAX_FOREIGN_BYTES, len(data) * MAX_PACKED_RATIO))
            with gzip.open(path) as packed:
                data = packed.read(limit + 1)
    except FileNotFoundError:
        raise CassetteNotFoundError(path, "there is no such file to import", remedy="check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise CassetteFormatError(path, f"the file cannot be read: {error}", remedy="restore it") from error
    if len(data) > limit:
        problem = f"the file is larger than the limit of {limit} bytes{', unpacked' if limit < MAX_BYTES else ''}"
        raise CassetteFormatError(path, problem, remedy="split it, and import the parts")
    return data


def parse_yaml(path: Path, data: bytes) -> Any:
    """Return the document of a YAML or JSON file. Raises `CassetteFormatError` if it's neither, or tags an object."""
    try:
        return _load_yaml(_text(path, data))
    except _MalformedYamlError as error:
        remedy = "nothing named in a foreign file is ever executed; export it again as plain data"
        raise CassetteFormatError(path, str(error), remedy=remedy, line=error.line) from None


def parse_json(path: Path, data: bytes) -> Any:
    """Return the value of a JSON file, or the list of the values of a file of JSON lines.

    Raises:
        CassetteFormatError: If it is neither.
    """
    text = _text(path, data)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) > 1 and _is_json(lines[0][1]):
            return [_json_line(path, number, line) for number, line in lines]
        raise CassetteFormatError(path, f"not JSON: {error}", line=getattr(error, "lineno", None)) from None


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json_line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CassetteFormatError(path, f"not JSON: {error}", line=number) from None


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CassetteFormatError(path, f"not UTF-8 text: {error.reason}", line=line) from None


def malformed(path: Path, where: str, expected: str, found: Any) -> CassetteFormatError:
    """Return the error for a file that does not conform to its format.

    Args:
        path: The file.
        where: The place in it: `interactions[2].request`.
        expected: The value that the format has there.
        found: The value that the file has there; the message has only its type, as it may be secret.
    """
    return CassetteFormatError(
        path,
        f"at {where}: expected {expected}, found {type(found).__name__}",
        remedy="import the file as the tool wrote it, and with the importer of that tool",
    )


def expect_mapping(path: Path, where: str, value: Any) -> dict[str, Any]:
    """Return a mapping with string keys.

    Raises:
        CassetteFormatError: If it is none.
    """
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise malformed(path, where, "a mapping", value)
    return value


def expect_list(path: Path, where: str, value: Any) -> list[Any]:
    """Return a list.

    Raises:
        CassetteFormatError: If it is none.
    """
    if not isinstance(value, list):
        raise malformed(path, where, "a list", value)
    return value


# YAML of other tools: plain data, read by PyYAML's safe loader, with bounded depth and bounded aliases.

_MAX_DEPTH = 128  # levels of lists and mappings inside each other

_MAX_VALUES = 20_000_000  # the number of values that a document may have; an alias counts as all the values behind it


class _MalformedYamlError(Exception):
    """A document that isn't YAML of plain data. `line` is 1-based."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(problem)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which one is known at run time
    """PyYAML's safe loader, with the tags by which older tools wrote plain Python strings and tuples."""


_Loader.add_constructor("tag:yaml.org,2002:python/str", lambda loader, node: loader.construct_scalar(node))
_Loader.add_constructor("tag:yaml.org,2002:python/unicode", lambda loader, node: loader.construct_scalar(node))
_Loader.add_constructor("tag:yaml.org,2002:python/tuple", lambda loader, node: loader.construct_sequence(node))


def _load_yaml(text: str) -> Any:
    """Return the value of a document."""
    size = _Size()
    try:
        for event in events_of(text):
            size.take(event)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - it derives from the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        raise _MalformedYamlError(f"not YAML of plain data: {problem}", mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise _MalformedYamlError(f"not YAML of plain data: {error}") from None


def events_of(text: str) -> Iterator[Any]:
    """Yield the parser's events of a document, without building it. Invalid YAML raises PyYAML's errors."""
    events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
    return events


class _Size:
    """Follows the events of a parser, and refuses a document that is too deep or too large before it is built."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        self._anchors: dict[str, int] = {}
        self._values = 0

    def take(self, event: Any) -> None:
        """Take the next event."""
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= _MAX_DEPTH:
                raise _MalformedYamlError(f"nested deeper than {_MAX_DEPTH} levels", line)
            self._open.append((event.anchor, self._values))
            self._values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._anchors[anchor] = self._values - before
        elif isinstance(event, yaml.ScalarEvent):
            self._values += 1
            if event.anchor is not None:
                self._anchors[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self._open):
                raise _MalformedYamlError("a value holds itself", line)
            self._values += self._anchors.get(str(event.anchor), 0)
        if self._values > _MAX_VALUES:
            raise _MalformedYamlError(f"more than {_MAX_VALUES} values", line)


# -- Values as other tools have written them: scalars, arguments, errors.

_SCALARS = (str, int, float, bool, bytes, type(None))
AS_JSON = "agenttape 0.1 made JSON of the result, so its types may be lost"
"""The loss of a value that isn't a scalar."""


def is_scalar(value: Any) -> bool:
    """Return whether a value keeps its type when it is written as JSON."""
    return isinstance(value, _SCALARS)


def literal_arguments(text: str) -> Any:
    """Return the arguments from the text that Python's `str` made of them, or the text if it is none.

    Only literals are read (`ast.literal_eval`); no code is evaluated.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else text


def error_named(module: str, name: str, message: str, attributes: Mapping[str, Any] | None = None) -> Exception:
    """Return an exception of a new class with this name, to be recorded under it. Nothing is imported.

    Args:
        module: The module of the class.
        name: The class.
        message: Its message.
        attributes: Its attributes.
    """
    safe = name if name.isidentifier() and not keyword.iskeyword(name) else "Exception"
    place = module if re.fullmatch(r"\w+(\.\w+)*", module) else "builtins"
    error: Exception = type(safe, (Exception,), {"__module__": place, "__qualname__": safe})(message)
    for key, value in (attributes or {}).items():
        if key.isidentifier() and not key.startswith("_"):
            setattr(error, key, value)
    return error
