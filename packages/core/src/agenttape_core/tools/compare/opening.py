"""Cassettes as they are named: by an object, a path, or a bare name in the folder of the project."""

from __future__ import annotations

from agenttape_core.settings import cassette_path, in_project, load_settings
from agenttape_core.storage import Cassette, Location, open_cassette


def named_cassette(cassette: str | Location | Cassette) -> Cassette:
    """Return a cassette that was named, opened.

    Raises:
        CassetteError: If there is none, or it cannot be read.
        ConfigurationError: If it is not a name.
    """
    if isinstance(cassette, Cassette):
        return cassette
    return open_cassette(in_project(cassette_path(cassette, load_settings().cassette_dir)))
