"""Detection of the tool that wrote a file, by the outline of its content; no more is read than that takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from agenttape_core.errors import CassetteError
from agenttape_core.integration.importing.foreign_files import events_of, parse_json, read_source
from agenttape_core.named_tuples import NamedTuple

_MOST_EVENTS = 50_000  # the number of YAML events to read at most; the first interaction is enough to know the tool
_LISTS = ("interactions", "runs")
_RESOURCES = frozenset({"resourceSpans", "resource_spans"})
_SPAN_IDS = frozenset({"context", "spanId", "span_id"})


class Outline(NamedTuple):
    """The outline of a file of another tool."""

    top: frozenset[str]  # the keys at its top
    item: frozenset[str]  # the keys of the first of its interactions or runs


_UNKNOWN = Outline(frozenset(), frozenset())


def outline_of(path: Path) -> Outline:
    """Return the outline of a file; an empty one if it is neither JSON nor YAML, or cannot be read."""
    try:
        data = read_source(path)
        if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
            return _of_plain(parse_json(path, data))
        return _of_yaml(data.decode("utf-8-sig"))
    except (CassetteError, UnicodeDecodeError, yaml.YAMLError):
        return _UNKNOWN


def is_of_vcrpy(path: Path) -> bool:
    """Return whether vcrpy wrote a file."""
    top, item = outline_of(path)
    return {"requests", "responses"} <= top or ({"request", "response"} <= item and "kind" not in item)


def is_of_langsmith(path: Path) -> bool:
    """Return whether a file is an export of LangSmith."""
    top, item = outline_of(path)
    return "run_type" in top | item


def is_of_agenttape01(path: Path) -> bool:
    """Return whether the older distribution `agenttape` 0.1 wrote a file."""
    top, item = outline_of(path)
    return "interactions" in top and "kind" in item and "request" in item


def is_of_traces(path: Path) -> bool:
    """Return whether a file holds spans of OpenTelemetry."""
    top, item = outline_of(path)
    if not _RESOURCES.isdisjoint(top | item):
        return True
    return any("attributes" in keys and not _SPAN_IDS.isdisjoint(keys) for keys in (top, item))


def _of_plain(value: Any) -> Outline:
    items = value
    if isinstance(value, dict):
        items = next((value[key] for key in _LISTS if key in value), [])
    first = items[0] if isinstance(items, list) and items else None
    return Outline(_keys(value), _keys(first))


def _keys(value: Any) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, dict) else frozenset()


def _of_yaml(text: str) -> Outline:
    """Follow the events of a parser to the end of the first interaction."""
    top: set[str] = set()
    item: set[str] = set()
    for path in _key_paths(itertools.islice(events_of(text), _MOST_EVENTS)):
        if len(path) == 1:
            top.add(path[0])
        elif path[0] in _LISTS and path[1] != "0":
            break
        elif path[0] in _LISTS and len(path) == 3:  # noqa: PLR2004 - the list, the first item, its key
            item.add(path[2])
    return Outline(frozenset(top), frozenset(item))


def _key_paths(events: Iterator[Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each key; the items of a list have their index as a key."""
    path: list[str] = []
    opened: list[tuple[bool, int]] = []
    for event in events:
        ends = isinstance(event, yaml.CollectionEndEvent)
        if ends:
            opened.pop()
        elif not isinstance(event, yaml.NodeEvent):
            continue
        elif opened and not (opened[-1][0] and opened[-1][1] % 2):
            is_mapping, count = opened[-1]
            path[len(opened) - 1 :] = [str(getattr(event, "value", "")) if is_mapping else str(count)]
            if is_mapping:
                yield tuple(path)
        if not ends and isinstance(event, yaml.CollectionStartEvent):
            opened.append((isinstance(event, yaml.MappingStartEvent), 0))
        elif opened:
            opened[-1] = (opened[-1][0], opened[-1][1] + 1)
