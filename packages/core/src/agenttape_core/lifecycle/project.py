"""The project that the sessions of a process belong to: its settings, and where its cassettes lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Mode
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import Location, cassette_path

if TYPE_CHECKING:
    from agenttape_core.session import Session

_REPLAY: Mapping[str, Any] = {"mode": "replay", "live": (), "pace": 0.0}


class Project(NamedTuple):
    """The project that sessions belong to."""

    # The folder whose settings hold and from which relative paths of recordings start; by default the current folder,
    # whichever that is when a cassette is opened.
    folder: Path | None = None
    replays_only: bool = False  # whether its cassettes may only be replayed, whatever calls and settings say
    live: tuple[str, ...] = ()  # the kinds and names of calls that are executed in these replays all the same
    # Called with each session of a run that is opened, before its run begins.
    on_open: Callable[[Session], object] | None = None

    def settings(self, options: Mapping[str, Any] | None = None) -> Settings:
        """Return the settings of the project, with the options of a call in their place.

        While a test runs, they are those around its module, in whatever folder it was started; unless it has changed to
        the folder of another project. Raises `ConfigurationError` if a setting or an option is not valid.
        """
        forced = {**_REPLAY, "live": self.live} if self.replays_only else {}
        chosen = {**(options or {}), **forced}
        return self._around().chosen(chosen) if chosen else self._around()

    def forced_mode(self, path: Location) -> Mode | None:
        """Return the mode that a command line gives to a cassette whose session was given none, if it gives one."""
        test = this_test()
        return test.mode_of(path) if test is not None and not self.replays_only else None

    def recording(self, name_or_path: str | Path, cassette_dir: str) -> Location:
        """Return the file of a cassette to read, in the project. Raises `ConfigurationError` if it names no file."""
        return cassette_path(name_or_path, cassette_dir, self.folder)

    def written(self, name_or_path: str | Path, cassette_dir: str) -> Location:
        """Return the file of a cassette that is written and not read: where the program works.

        A child process that checks a replay must not replace a file of the project, which its settings name. Raises
        `ConfigurationError` if it names no file.
        """
        if self.folder is not None and Path(cassette_dir).is_absolute():
            common = os.path.commonpath([self.folder, cassette_dir])
            cassette_dir = os.path.relpath(cassette_dir, common)
        return cassette_path(name_or_path, cassette_dir)

    def _around(self) -> Settings:
        test = this_test()
        if test is None:
            return load_settings(self.folder)
        if Path.cwd() == test.started_in:
            return load_settings(test.folder, otherwise=self.folder or test.started_in)
        return load_settings(self.folder, otherwise=test.folder)


_process = Project()
_replays_only: ContextVar[bool] = ContextVar("agenttape_replays_only", default=False)
_replaying_everywhere: set[object] = set()
"""The blocks in which each session of this process only replays. They may overlap."""


def this_project() -> Project:
    """Return the project of this process."""
    return _process._replace(replays_only=True) if _replays_only.get() or _replaying_everywhere else _process


def project_settings() -> Settings:
    """Return the settings that hold for every session of this process.

    Raises:
        ConfigurationError: If a setting is not valid.
    """
    return this_project().settings()


def confine_process(project: Project) -> None:
    """Let all sessions of this process belong to one project, wherever the process works.

    For child processes that check a replay. It is not passed to each session, because the program that runs there
    opens its own: a `mode="once"` in its code must not record, and a relative path must not depend on the scratch
    folder that the child works in.
    """
    global _process  # noqa: PLW0603 - it holds for the process
    _process = project


@contextmanager
def replaying_only(*, everywhere: bool) -> Iterator[None]:
    """Let every session that is opened in the block replay, whatever calls, settings and options say.

    `everywhere` means the whole process, and not only this context and what inherits it: a test has the process to
    itself, and its runner may have tasks that are older than the block.
    """
    token = _replays_only.set(True)
    block = object()
    if everywhere:
        _replaying_everywhere.add(block)
    try:
        yield
    finally:
        _replays_only.reset(token)
        _replaying_everywhere.discard(block)
