"""YAML as plain data that knows its lines, and refuses what a reader would overlook: keys that stand twice."""

from __future__ import annotations

from typing import Any

import yaml

from agenttape_core.errors import ConfigurationError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Lines(dict[Any, Any]):
    """A mapping with the lines of its keys, 1-based.

    Args:
        line: Its own line.
    """

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.of: dict[Any, int] = {}


def read_yaml(text: str, path: str) -> Any:
    """Return the data of a YAML document; mappings are `Lines`.

    Args:
        text: The document.
        path: Its file, as messages show it.

    Raises:
        ConfigurationError: If it is no YAML, has a key twice, or contains itself.
    """
    try:
        return _Reader(path).value(yaml.compose(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else path
        raise ConfigurationError(f"{place}: no YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: no YAML that anybody wrote: it is nested too deeply") from None


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._scalars = yaml.constructor.SafeConstructor()
        self._open: set[int] = set()
        self._known: dict[int, Any] = {}

    def value(self, node: Any) -> Any:
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._refuse(node, "a value contains itself")
        if id(node) not in self._known:
            self._open.add(id(node))
            self._known[id(node)] = self._collection(node)
            self._open.discard(id(node))
        return self._known[id(node)]

    def _scalar(self, node: Any) -> Any:
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self._refuse(node, str(getattr(error, "problem", None) or error))

    def _collection(self, node: Any) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        found = Lines(node.start_mark.line + 1)
        for key_node, item in node.value:
            key = self.value(key_node)
            if not isinstance(key, str | int | float | bool | None):
                self._refuse(key_node, "a key isn't text")
            if key in found:
                self._refuse(key_node, f"the key {key!r} stands twice, first on line {found.of[key]}")
            found.of[key] = key_node.start_mark.line + 1
            found[key] = self.value(item)
        return found

    def _refuse(self, node: Any, problem: str) -> Any:
        raise ConfigurationError(f"{self._path}:{node.start_mark.line + 1}: {problem}")
