"""The project that the sessions of a process belong to: its settings, and where its cassettes lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import CassetteUrl, Location, cassette_path

_REPLAY: Mapping[str, Any] = {"mode": "none", "live": (), "pace": 0.0}


@dataclass(frozen=True, slots=True)
class Project:
    """The project that sessions belong to.

    Args:
        folder: The folder whose settings hold and from which relative paths of recordings start; by default the
            current folder, whichever that is when a cassette is opened.
        replays_only: Whether its cassettes may only be replayed, whatever calls and settings say.
    """

    folder: Path | None = None
    replays_only: bool = False

    def settings(self, options: Mapping[str, Any] | None = None) -> Settings:
        """Return the settings of the project, with the options of a call in their place.

        Raises:
            ConfigurationError: If a setting or an option is not valid.
        """
        forced = _REPLAY if self.replays_only else {}
        return load_settings(self.folder).chosen({**(options or {}), **forced})

    def recording(self, name_or_path: str | Path, cassette_dir: str) -> Location:
        """Return the file of a cassette to read: a relative path starts from the folder of the project.

        Raises:
            ConfigurationError: If it names no file.
        """
        path = cassette_path(name_or_path, cassette_dir)
        return path if self.folder is None or isinstance(path, CassetteUrl) else self.folder / path


_process = Project()


def this_project() -> Project:
    """Return the project of this process."""
    return _process


def project_settings() -> Settings:
    """Return the settings that hold for every session of this process.

    Raises:
        ConfigurationError: If a setting is not valid.
    """
    return _process.settings()


def confine_process(project: Project) -> None:
    """Let all sessions of this process belong to one project, wherever the process works.

    For child processes that prove a replay. It is not passed to each session, because the program that runs there
    opens its own: a `mode="once"` in its code must not record, and a relative path must not depend on the scratch
    folder that the child works in.

    Args:
        project: The project.
    """
    global _process  # noqa: PLW0603 - it holds for the process
    _process = project
