"""The options of a test's cassette: from its markers, the fixture `cassette_config`, and the command line."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Mode, parse_mode
from agenttape_core.errors import CassetteError, ConfigurationError
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.pytest_plugin.naming import cassette_of, folder_of, named_cassette
from agenttape_core.redaction.path_placeholders import BASETEMP, TMP_PATH
from agenttape_core.settings import given_cassette_dir
from agenttape_core.storage import Location, derived_path, location_of, open_cassette
from agenttape_core.tools.upkeep.age import age_of, parse_age

if TYPE_CHECKING:
    import pytest

_DERIVED = "agenttape-derived"
_OPTIONS = frozenset(inspect.signature(use_cassette).parameters) - {"name_or_path", "cassette_dir"}


class Chosen(NamedTuple):
    """The cassette of a test, and the options that it is opened with."""

    path: Location  # the file, or a URL
    is_named: bool  # whether a marker named it, so that several tests may share it
    options: dict[str, Any]  # options of `use_cassette`
    own: frozenset[str] = frozenset()  # the names of those that a marker gives


def chosen_by(item: pytest.Item, config: Mapping[str, Any]) -> Chosen:
    """Return the choice of the fixture and the markers of a test, of which the nearest wins.

    Raises `ConfigurationError` if a marker has an unknown option or more than a name.
    """
    name: str | Path | None = None
    if "cassette_dir" in config:
        raise ConfigurationError(
            "the fixture cassette_config: cassette_dir is known before fixtures run\n"
            "  give it to the marker, or set cassette_dir in [tool.agenttape] or AGENTTAPE_CASSETTE_DIR"
        )
    options, marked = dict(config), set[str]()
    if options:
        _refuse_unknown(options, "the fixture cassette_config")
    for _, marker in reversed(list(item.iter_markers_with_node("cassette"))):
        own = dict(marker.kwargs)
        if len(marker.args) > 1 or ("name" in own and marker.args):
            raise ConfigurationError(f"pytest.mark.cassette{marker.args}: expected at most one name, then options")
        name = own.pop("name", marker.args[0] if marker.args else None) or name
        own.pop("cassette_dir", None)
        if own:
            _refuse_unknown(own, "pytest.mark.cassette")
        options.update(own)
        marked |= own.keys()
    path = named_cassette(item.path, given_dir(item), name) if name is not None else own_cassette(item)
    return Chosen(path, name is not None, options, frozenset(marked))


def derived_to(config: pytest.Config, path: Location) -> Location | None:
    """Return where a replay with something live writes what happened: into pytest's cache, not among the tests.

    If the cassette is not below the root of the tests, the derived one is beside it.
    """
    root = config.rootpath
    if not isinstance(path, Path) or not path.absolute().is_relative_to(root):
        return None
    cache: pytest.Cache | None = getattr(config, "cache", None)
    folder = cache.mkdir(_DERIVED) if cache is not None else Path(tempfile.mkdtemp(prefix=f"{_DERIVED}-"))
    return derived_path(folder / path.absolute().relative_to(root))


def places_of(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the temporary folders of a test by the names of their fixtures: they are others in each run."""
    used = getattr(request.node, "fixturenames", ())
    names = [name for name in ("tmp_path_factory", "tmp_path") if name in used]
    return places_among({name: request.getfixturevalue(name) for name in names})


def places_among(fixtures: Mapping[str, Any]) -> dict[str, str]:
    """Return the temporary folders among the fixtures of a test, by their names."""
    found: dict[str, str] = {}
    if "tmp_path_factory" in fixtures:
        found[BASETEMP] = str(fixtures["tmp_path_factory"].getbasetemp())
    if "tmp_path" in fixtures:
        found[TMP_PATH] = str(fixtures["tmp_path"])
    return found


def own_cassette(item: pytest.Item) -> Location:
    """Return the file of a test whose marker has no name. Raises `ConfigurationError` if several have its name."""
    chain = item.listchain()
    inside = [node.name for node in chain[:-1] if node.path == item.path and "::" in node.nodeid]
    return cassette_of(module_folder(item), (*inside, item.name))


def module_folder(item: pytest.Item) -> Location:
    """Return the folder of the cassettes that are named after the tests of an item's module."""
    return folder_of(item.path, given_dir(item), item.config.rootpath)


def given_dir(item: pytest.Item) -> Location | None:
    """Return the folder that holds the cassettes of a test: of its nearest marker, a variable or a setting, if any.

    A relative one starts from the folder of the module in a marker, and from the working folder in a variable.
    """
    for marker in item.iter_markers("cassette"):
        if (own := marker.kwargs.get("cassette_dir")) is not None:
            return _from_folder(item.path.parent, own)
    started_in = item.config.invocation_params.dir
    given = given_cassette_dir(item.path.parent, started_in)
    return _from_folder(started_in, given) if given is not None else None


def _from_folder(start: Path, folder: str | Path) -> Location:
    where = location_of(folder)
    return start / where if isinstance(where, Path) else where


def _refuse_unknown(options: Mapping[str, Any], where: str) -> None:
    unknown = options.keys() - _OPTIONS - {"name"}
    if unknown:
        raise ConfigurationError(
            f"{where}: unknown option {', '.join(sorted(unknown))}; options are {', '.join(sorted(_OPTIONS))}"
        )


def mode_of(item: pytest.Item, path: Location | str) -> Mode | None:
    """Return the mode that the command line gives to a cassette that a test opens, if it gives one.

    Raises `ConfigurationError` if the options of the command line contradict each other.
    """
    option = item.config.option
    again, mode = option.rerecord, option.cassette_mode
    if again is not None and mode is not None:
        raise ConfigurationError("--rerecord and --cassette-mode exclude each other")
    if again == "all" or (again == "failed" and item.nodeid in failed_last_time(item.config)):
        return Mode.RECORD
    if again == "changed":
        return Mode.REPLAY if option.cassette_plans else Mode.UPDATE
    limit = option.cassette_max_age
    if again == "stale" and limit is not None and too_old(path, limit) is not None:
        return Mode.RECORD
    return parse_mode(mode) if mode is not None else None


def too_old(path: Location | str, limit: str) -> timedelta | None:
    """Return the age of a cassette that is older than it may be. `path` may be a URL; `limit` is like `90d`."""
    allowed = parse_age(limit)
    try:
        age = age_of(open_cassette(path).preface.volatile.created)
    except CassetteError:  # there is none, or opening the session will say what is wrong with it
        return None
    return age if age is not None and age > allowed else None


def failed_last_time(config: pytest.Config) -> Mapping[str, bool]:
    """Return the tests that failed last, by pytest's cache. Raises `ConfigurationError` without one."""
    if getattr(config, "cache", None) is None:
        raise ConfigurationError("--rerecord=failed needs pytest's cache of the last run; it is switched off here")
    failed: Mapping[str, bool] = config.cache.get("cache/lastfailed", {})
    return failed
