"""The packages whose versions a cassette records: those that can change a run's requests and answers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from agenttape_core.on_demand import load_late
from agenttape_core.side_effects import register_frameworks

_distributions: dict[str, str] = {
    "agenttape_core": "agenttape-core",
    # Clients of providers belong to no integration: any framework may call them, or the program itself.
    "anthropic": "anthropic",
    "openai": "openai",
}


def register_packages(distributions: Mapping[str, str]) -> None:
    """Name the versions of packages in the header of each cassette that is recorded while they are imported.

    An integration registers itself and the libraries it records, so that `agenttape check --stale` sees changes. The
    content of these packages' objects counts as part of the program: they connect the program's own objects.

    Args:
        distributions: The names of distributions by the modules whose import shows that they are in use.
    """
    _distributions.update(distributions)
    register_frameworks(distributions)


def package_versions() -> dict[str, str]:
    """Return the versions of the registered packages that are imported, by the names of their distributions."""
    load_late()
    imported = sorted({name for module, name in list(_distributions.items()) if module in sys.modules})
    versions = {name: _version(name) for name in imported}
    return {name: number for name, number in versions.items() if number is not None}


@functools.cache  # it reads files: a good part of the time that a session takes
def _version(distribution: str) -> str | None:
    """Return the version of a distribution that is imported; `None` if it was imported from a source tree."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
