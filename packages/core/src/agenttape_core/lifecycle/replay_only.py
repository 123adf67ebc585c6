"""Sessions that are nobody's current one: of a model that is made of a cassette, of a cache that is on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agenttape_core.engine import Mode, Policy, parse_mode
from agenttape_core.errors import CassetteNotFoundError
from agenttape_core.lifecycle.header import EMPTY, finished_header, new_header, redactor_for
from agenttape_core.matching import Exhausted, Ignored
from agenttape_core.redaction import Rule
from agenttape_core.session import Pace, Session
from agenttape_core.settings import Pacing, cassette_path, checked_option, in_project, load_settings
from agenttape_core.storage import Cassette, Journal, Location, open_cassette


def open_replay(
    name_or_path: str | Path,
    *,
    exhausted: Exhausted = "fail",
    redact: bool | Sequence[Rule] = True,
    pace: Pacing | float | None = None,
) -> Session:
    """Return a session that replays a cassette for one object; it is never the current session of a context.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        exhausted: What to do when a request is asked more often than it was recorded.
        redact: The rules that the cassette was recorded with, beyond the built-in ones.
        pace: How long it takes, as in `use_cassette`; by default as the project's settings say.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it was recorded with a redaction key or rules that are not given now, or the pace is
            not valid.
    """
    settings = load_settings().chosen({} if pace is None else {"pace": pace})
    path = in_project(cassette_path(name_or_path, settings.cassette_dir))
    cassette = open_cassette(path)
    return Session(
        path,
        policy=Policy(Mode.NONE, recorded=True, exhausted=exhausted, lossy=settings.lossy),
        redactor=redactor_for(path, cassette.preface, redact, settings),
        source=cassette,
        sink=None,
        remedy=lambda: ["record the agent again, and replay the new cassette"],
        ignored=Ignored.of(cassette.preface.ignore),
        pace=Pace(settings.pace, cassette.header.volatile.timings) if settings.pace else None,
    )


class Recording:
    """A cassette that one object serves from and records to, beside all sessions. End it with `close`.

    What it says of the modes is what sessions say, except that nothing is frozen, guarded or judged unused.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        mode: As in `use_cassette`; by default as the project's settings say.
        exhausted: What to do when a request is asked more often than it was recorded.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
        remedy: Says how to record what is missing, a line each.

    Raises:
        CassetteError: If there is nothing to replay, it cannot be read, or it is being recorded elsewhere.
        ConfigurationError: If an option, a rule or a setting is not valid.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        mode: str | Mode | None,
        exhausted: Exhausted,
        redact: bool | Sequence[Rule],
        tags: Sequence[str],
        remedy: Sequence[str],
    ) -> None:
        options = {"freeze": (), "tags": checked_option("tags", tags), "exhausted": exhausted}
        settings = load_settings().chosen({**options, **({"mode": checked_option("mode", mode)} if mode else {})})
        path = in_project(cassette_path(name_or_path, settings.cassette_dir))
        self._cassette = cassette = _opened(path, parse_mode(settings.mode), remedy)
        policy = Policy(parse_mode(settings.mode), recorded=cassette is not None, exhausted=exhausted)
        prior = cassette.preface if cassette is not None else None
        redactor = redactor_for(path, prior if policy.serves else None, redact, settings)
        self._header = new_header(path, prior, settings, redactor, replaces=policy.replaces)
        self._journal = Journal(path, self._header) if policy.records else None
        self.session = Session(
            path,
            policy=policy,
            redactor=redactor,
            source=cassette if cassette is not None else EMPTY,
            sink=self._journal,
            remedy=lambda: list(remedy),
            ambient=False,
            ignored=Ignored.of(self._header.ignore),
        )

    def close(self) -> None:
        """Write what was recorded; without anything recorded the file is left as it is. Once is enough.

        Raises:
            CassetteWriteError: If the file cannot be written; the message says where the recording is kept.
        """
        journal, self._journal = self._journal, None
        self.session.closed = True
        if journal is None:
            return
        if journal.is_empty:
            journal.abandon(keep=False)
        elif self._cassette is None or self.session.policy.replaces:
            journal.commit(finished_header(self._header, {}))
        else:
            before = self._cassette.header.volatile
            journal.commit(finished_header(self._header, before.timings, before.steps), list(self._cassette.records()))

    def abandon(self) -> None:
        """End without touching the cassette, and forget what was recorded."""
        journal, self._journal = self._journal, None
        self.session.closed = True
        if journal is not None:
            journal.abandon(keep=False)


def _opened(path: Location, mode: Mode, remedy: Sequence[str]) -> Cassette | None:
    try:
        return open_cassette(path)
    except CassetteNotFoundError:
        if mode is not Mode.NONE:
            return None
        told = "\n  ".join(remedy)
        raise CassetteNotFoundError(path, "there is no such cassette to replay", remedy=told) from None
