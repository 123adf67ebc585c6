"""Cassettes as they are named: by an object, a path, or a bare name in the folder of the project."""

from __future__ import annotations

from agenttape_core.lifecycle.project import this_project
from agenttape_core.storage import Cassette, Location, open_cassette


def named_cassette(cassette: str | Location | Cassette) -> Cassette:
    """Return a cassette that was named, opened.

    Raises:
        CassetteError: If there is none, or it cannot be read.
        ConfigurationError: If it is not a name.
    """
    if isinstance(cassette, Cassette):
        return cassette
    project = this_project()
    return open_cassette(project.recording(cassette, project.settings().cassette_dir))
