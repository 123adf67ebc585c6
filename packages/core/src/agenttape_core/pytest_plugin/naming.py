"""The names of the cassettes of tests."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from agenttape_core.storage import Location, below, cassette_path, in_its_format

FOLDER = "cassettes"
_UNSAFE = re.compile(r"[^\w.\-\[\]=+,]", re.ASCII)
_LONGEST = 120  # the most characters of a name: longer names of journals and assets beside it must fit into 255 bytes


def folder_of(module: Path, given: Location | None, root: Path) -> Location:
    """Return the folder of the cassettes that are named after the tests of a module.

    That is `cassettes/MODULE` next to the module. Below a folder that the project names, it has the path of the module,
    so that modules of one name stay apart: from the folder around the project's, or else from the root. `given` is the
    folder that a marker, a variable or a setting names.
    """
    if given is None:
        return module.parent / FOLDER / module.stem
    starts = [given, given.parent, root] if isinstance(given, Path) else [root]
    start = next((folder for folder in starts if module.is_relative_to(folder)), module.parent)
    inside = module.relative_to(start).with_suffix("")
    return below(given, inside.as_posix())


def cassette_of(folder: Location, names: tuple[str, ...]) -> Location:
    """Return the cassette of a test without a given name.

    `folder` is the module's, of `folder_of`; `names` are the classes around the test, outermost first, and the test
    with its parameters: `test_a[1-x]`. Raises `ConfigurationError` if there are several of its name, in several
    formats.
    """
    name = f"{safe('.'.join(names))}.yaml"
    return in_its_format(folder / name) if isinstance(folder, Path) else folder.joined(name)


def named_cassette(module: Path, given: Location | None, name: str | Path) -> Location:
    """Return the cassette that a marker names: a path starts from the folder of the module, or is a URL.

    `given` is the folder of bare names, by default `cassettes` next to the module; `name` is a bare name, a path that
    ends with one of `SUFFIXES`, or a URL. Raises `ConfigurationError` if it names no cassette, or several.
    """
    return cassette_path(name, given if given is not None else FOLDER, module.parent)


def safe(name: str) -> str:
    """Return a name that is valid on any file system; a changed name ends with a hash of the original."""
    plain = _UNSAFE.sub("-", name)[:_LONGEST]
    if plain == name and not name.endswith("."):
        return plain
    return f"{plain}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
