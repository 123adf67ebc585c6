"""Cassettes by name: an open one, a path, or a bare name in the folder of the project."""

from __future__ import annotations

from agenttape_core.lifecycle.project import this_project
from agenttape_core.storage import Cassette, Location, open_cassette


def named_cassette(cassette: str | Location | Cassette) -> Cassette:
    """Return the opened cassette of a name.

    Raises `CassetteError` if the cassette doesn't exist, or can't be read, and `ConfigurationError` if the name is
    malformed.
    """
    if isinstance(cassette, Cassette):
        return cassette
    project = this_project()
    return open_cassette(project.recording(cassette, project.settings().cassette_dir))
