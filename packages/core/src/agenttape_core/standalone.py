"""Sessions that are nobody's current one: a production run that is only observed, a model made of a cassette."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from agenttape_core.config import cassette_path, checked_option, in_project, load_settings
from agenttape_core.engine import Mode, Policy
from agenttape_core.matching import Exhausted, Ignored
from agenttape_core.recorder import EMPTY, finished_header, new_header, redactor_for
from agenttape_core.redaction import Rule
from agenttape_core.schema import Interaction
from agenttape_core.session import Session
from agenttape_core.storage import Cassette, Journal, open_cassette


def open_replay(
    name_or_path: str | Path, *, exhausted: Exhausted = "fail", redact: bool | Sequence[Rule] = True
) -> Session:
    """Return a session that replays a cassette for one object; it is never the current session of a context.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        exhausted: What to do when a request is asked more often than it was recorded.
        redact: The rules that the cassette was recorded with, beyond the built-in ones.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it was recorded with a redaction key or rules that are not given now.
    """
    settings = load_settings()
    path = in_project(cassette_path(name_or_path, settings.cassette_dir))
    cassette = open_cassette(path)
    return Session(
        path,
        policy=Policy(Mode.NONE, recorded=True, exhausted=exhausted),
        redactor=redactor_for(path, cassette.preface, redact, settings.redaction_key),
        source=cassette,
        sink=None,
        remedy=lambda: ["record the agent again, and replay the new cassette"],
        ignored=Ignored.of(cassette.preface.ignore),
    )


class Observation:
    """The recording of what a handler observes. It starts at the first interaction and can be flushed many times.

    Args:
        name_or_path: The cassette; what is there already is replaced at the first flush.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.

    Raises:
        ConfigurationError: If the suffix of the path, a rule or a setting is not valid.
    """

    def __init__(
        self, name_or_path: str | Path, *, redact: bool | Sequence[Rule] = True, tags: Sequence[str] = ()
    ) -> None:
        self._settings = load_settings().chosen({"freeze": (), "tags": checked_option("tags", tags)})
        self.path = path = cassette_path(name_or_path, self._settings.cassette_dir)
        self._lock = Lock()
        self._redact = redact
        self._redactor = redactor_for(path, None, redact, self._settings.redaction_key)
        self._header = new_header(path, None, self._settings, self._redactor, replaces=True)
        self._journal: Journal | None = None
        self._session: Session | None = None
        self._written: Cassette | None = None

    @property
    def session(self) -> Session:
        """The session that interactions are to be recorded in now."""
        with self._lock:
            if self._session is None:
                self._session = self._open()
            return self._session

    def _open(self) -> Session:
        self._journal = Journal(self.path, self._header)
        return Session(
            self.path,
            policy=Policy(Mode.ALL, recorded=False),
            redactor=self._redactor,
            source=EMPTY,
            sink=self._journal,
            remedy=list,
            ambient=False,
        )

    def flush(self) -> None:
        """Write all that was observed so far; what is observed later is added to it.

        Raises:
            CassetteWriteError: If the file cannot be written; the message says where the recording is kept.
        """
        with self._lock:
            session, journal = self._session, self._journal
            self._session = self._journal = None
            if session is None or journal is None:
                return
            session.closed = True
            keep: list[Interaction] = list(self._written.interactions()) if self._written is not None else []
            header = self._written.header if self._written is not None else self._header
            journal.commit(finished_header(header, header.volatile.timings), keep)
            self._written = open_cassette(self.path)
