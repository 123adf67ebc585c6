"""Read any YAML document as plain data, strictly: JSON-like scalars and collections, without YAML's other features.

The values are built here from PyYAML's parser events. Its constructors and resolvers never run, so no tag can make
an object, no `yes` becomes a boolean, no alias can blow up, and depth is bounded before memory is.
"""

from __future__ import annotations

from typing import Any

import yaml

from agenttape_core.format.limits import MAX_DEPTH, MAX_FOREIGN_BYTES, MAX_FOREIGN_VALUES, MAX_INT_DIGITS
from agenttape_core.format.malformed import Malformed
from agenttape_core.lazy_patterns import Lazy

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = Lazy(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = Lazy(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, Any] = {"": None, "null": None, "true": True, "false": False}
_NO_KEY: Any = object()
_TOO_DEEP = "exceeded maximum nesting depth"
"""The words of libyaml for more than 1,000 levels since PyYAML 6.0.4: it reads ahead of the events counted here."""


def load_yaml(raw: bytes, loader: Any = _LOADER) -> Any:
    """Parse one document.

    `raw` has no `---` line. Raises `Malformed` if it isn't YAML, or uses a part of YAML that a cassette never has.
    """
    if len(raw) > MAX_FOREIGN_BYTES:
        raise Malformed(f"a record is larger than {MAX_FOREIGN_BYTES} bytes, in YAML that AgentTape has not laid out")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start)
        raise Malformed(f"not UTF-8 text: {error.reason}", line) from None
    builder = _Builder()
    try:
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            if number > MAX_FOREIGN_VALUES:
                raise Malformed(f"more than {MAX_FOREIGN_VALUES} values in YAML that AgentTape has not laid out")
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
        found = f"nested deeper than {MAX_DEPTH} levels" if problem == _TOO_DEEP else f"not YAML: {problem}"
        raise Malformed(found, mark.line if mark else 0) from None
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        raise Malformed(f"not YAML: {error.reason}", text.count("\n", 0, position)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Malformed(f"not YAML: {error}") from None
    return builder.result()


class _Builder:
    """Builds one value from events, without recursion."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._keys: list[Any] = []
        self._roots: list[Any] = []

    def take(self, event: yaml.Event) -> None:
        """Take the next event of the parser."""
        if isinstance(event, yaml.ScalarEvent):
            _refuse_extras(event)
            self._add(_scalar(event), event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._start({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._start([], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
            self._keys.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise Malformed("a cassette has no YAML aliases", _line(event))
        elif isinstance(event, yaml.DocumentStartEvent) and self._roots:
            raise Malformed("a second document begins without a `---` line", _line(event))

    def result(self) -> Any:
        """The value of the document, `None` for an empty one."""
        return self._roots[0] if self._roots else None

    def _start(self, value: Any, event: Any) -> None:
        _refuse_extras(event)
        if len(self._open) >= MAX_DEPTH:
            raise Malformed(f"nested deeper than {MAX_DEPTH} levels", _line(event))
        self._add(value, event)
        self._open.append(value)
        self._keys.append(_NO_KEY)

    def _add(self, value: Any, event: Any) -> None:
        if not self._open:
            self._roots.append(value)
        elif isinstance(self._open[-1], list):
            self._open[-1].append(value)
        elif self._keys[-1] is _NO_KEY:
            self._keys[-1] = self._key(value, event)
        else:
            self._open[-1][self._keys[-1]] = value
            self._keys[-1] = _NO_KEY

    def _key(self, key: Any, event: Any) -> str:
        line = _line(event)
        if not isinstance(key, str) or (key == "<<" and not event.style):
            raise Malformed(f"a key must be a string; quote it ({type(key).__name__} found)", line)
        if key in self._open[-1]:
            raise Malformed(f"the key {key[:80]!r} appears twice", line)
        return key


def _line(event: yaml.Event) -> int:
    return event.start_mark.line if event.start_mark else 0


def _refuse_extras(event: Any) -> None:
    if event.anchor is not None:
        raise Malformed("a cassette has no YAML anchors", _line(event))
    if event.tag is not None:
        raise Malformed(f"a cassette has no YAML tags such as {event.tag[:80]!r}", _line(event))


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if event.style:
        if not text.isascii():
            _refuse_surrogates(event)
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_INT_DIGITS:
            raise Malformed(f"a number has more than {MAX_INT_DIGITS} digits", _line(event))
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise Malformed(f"the number {text[:40]} is out of range", _line(event))
        return number
    return text


def _refuse_surrogates(event: yaml.ScalarEvent) -> None:
    try:
        event.value.encode()
    except UnicodeEncodeError:
        raise Malformed("a string holds a lone surrogate", _line(event)) from None
