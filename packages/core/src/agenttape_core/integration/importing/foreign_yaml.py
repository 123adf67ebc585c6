"""YAML of other tools: plain data, read by PyYAML's safe loader, with bounded depth and bounded aliases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 128
"""Levels of lists and mappings inside each other."""

MAX_VALUES = 20_000_000
"""The number of values that a document may have; an alias counts as all the values behind it."""


class MalformedYamlError(Exception):
    """A document that isn't YAML of plain data.

    Args:
        problem: The problem.
        line: The 1-based line of the problem.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(problem)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which one is known at run time
    """PyYAML's safe loader, with the tags by which older tools wrote plain Python strings and tuples."""


_Loader.add_constructor("tag:yaml.org,2002:python/str", lambda loader, node: loader.construct_scalar(node))
_Loader.add_constructor("tag:yaml.org,2002:python/unicode", lambda loader, node: loader.construct_scalar(node))
_Loader.add_constructor("tag:yaml.org,2002:python/tuple", lambda loader, node: loader.construct_sequence(node))


def load_yaml(text: str) -> Any:
    """Return the value of a document.

    Raises:
        MalformedYamlError: If it isn't YAML, is nested too deeply, is too large, or has a tag for an object.
    """
    size = _Size()
    try:
        for event in events_of(text):
            size.take(event)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - it derives from the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        raise MalformedYamlError(f"not YAML of plain data: {problem}", mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise MalformedYamlError(f"not YAML of plain data: {error}") from None


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
            if len(self._open) >= MAX_DEPTH:
                raise MalformedYamlError(f"nested deeper than {MAX_DEPTH} levels", line)
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
                raise MalformedYamlError("a value holds itself", line)
            self._values += self._anchors.get(str(event.anchor), 0)
        if self._values > MAX_VALUES:
            raise MalformedYamlError(f"more than {MAX_VALUES} values", line)
