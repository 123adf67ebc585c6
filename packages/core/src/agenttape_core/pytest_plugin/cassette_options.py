"""The options of a test's cassette: from its markers, the fixture `cassette_config`, and the command line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.engine import Mode, parse_mode
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.pytest_plugin.naming import cassette_of, named_cassette

if TYPE_CHECKING:
    import pytest

_OPTIONS = frozenset(inspect.signature(use_cassette).parameters) - {"name_or_path", "cassette_dir"}


class Chosen(NamedTuple):
    """The cassette of a test, and the options that it is opened with.

    Args:
        path: The file, or a URL.
        is_named: Whether a marker named it, so that several tests may share it.
        options: Options of `use_cassette`.
    """

    path: Path | str
    is_named: bool
    options: dict[str, Any]


def chosen_by(item: pytest.Item, config: Mapping[str, Any]) -> Chosen:
    """Return the choice of the fixture and the markers of a test, of which the nearest wins.

    Raises:
        ConfigurationError: If a marker has an unknown option or more than a name.
    """
    name: str | Path | None = None
    options = _known(dict(config), "the fixture cassette_config")
    for _, marker in reversed(list(item.iter_markers_with_node("cassette"))):
        own = dict(marker.kwargs)
        if len(marker.args) > 1 or ("name" in own and marker.args):
            raise ConfigurationError(f"pytest.mark.cassette{marker.args}: expected at most one name, then options")
        name = own.pop("name", marker.args[0] if marker.args else None) or name
        options.update(_known(own, "pytest.mark.cassette"))
    path = named_cassette(item.path, name) if name is not None else own_cassette(item)
    return Chosen(path, name is not None, options)


def own_cassette(item: pytest.Item) -> Path:
    """Return the file of a test without a name in its marker."""
    chain = item.listchain()
    inside = [node.name for node in chain[:-1] if node.path == item.path and "::" in node.nodeid]
    return cassette_of(item.path, (*inside, item.name))


def _known(options: dict[str, Any], where: str) -> dict[str, Any]:
    unknown = options.keys() - _OPTIONS - {"name"}
    if unknown:
        raise ConfigurationError(
            f"{where}: unknown option {', '.join(sorted(unknown))}; options are {', '.join(sorted(_OPTIONS))}"
        )
    return options


def mode_of(item: pytest.Item, *, is_too_old: bool) -> Mode | None:
    """Return the mode that the command line gives, if it gives one.

    Raises:
        ConfigurationError: If the options of the command line contradict each other.
    """
    option = item.config.option
    again, mode = option.rerecord, option.cassette_mode
    if again is not None and mode is not None:
        raise ConfigurationError("--rerecord and --cassette-mode exclude each other")
    if again == "all" or (again == "failing" and item.nodeid in failed_last_time(item.config)):
        return Mode.ALL
    if again == "stale" and is_too_old:
        return Mode.ALL
    return parse_mode(mode) if mode is not None else None


def failed_last_time(config: pytest.Config) -> Mapping[str, bool]:
    """Return the tests that failed in the last run, as pytest's own cache has them.

    Raises:
        ConfigurationError: If there is no such cache.
    """
    if getattr(config, "cache", None) is None:
        raise ConfigurationError("--rerecord=failing needs pytest's cache of the last run; it is switched off here")
    failed: Mapping[str, bool] = config.cache.get("cache/lastfailed", {})
    return failed
