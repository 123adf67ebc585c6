"""The names of the cassettes of tests."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePath

from agenttape_core.storage import SUFFIXES

FOLDER = "cassettes"
_UNSAFE = re.compile(r"[^\w.\-\[\]=+,]", re.ASCII)
_LONGEST = 120
"""The most characters of a name: longer names of journals and assets beside it must fit into 255 bytes."""


def cassette_of(module: Path, names: tuple[str, ...]) -> Path:
    """Return the cassette of a test without a given name: beside its module, in a folder named after the module.

    Args:
        module: The file of the test.
        names: The classes around the test, outermost first, and the test with its parameters: `test_a[1-x]`.
    """
    return module.parent / FOLDER / module.stem / f"{safe('.'.join(names))}.yaml"


def named_cassette(module: Path, name: str | Path) -> Path | str:
    """Return the cassette that a marker names: a bare name beside the module; a path, starting from its folder.

    Args:
        module: The file of the test.
        name: A name, a path that ends with one of `SUFFIXES`, or a URL.
    """
    if "://" in str(name):
        return str(name)
    folder = module.parent
    return folder / name if PurePath(name).suffix in SUFFIXES else folder / FOLDER / f"{name}.yaml"


def safe(name: str) -> str:
    """Return a name that is valid on any file system; a changed name ends with a hash of the original."""
    plain = _UNSAFE.sub("-", name)[:_LONGEST]
    if plain == name and not name.endswith("."):
        return plain
    return f"{plain}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
