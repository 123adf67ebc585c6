"""What every observer of a framework has in common: what it writes when, and its own errors."""

from __future__ import annotations

import logging
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from time import perf_counter

from agenttape_core.lifecycle.observed import Observation
from agenttape_core.redaction import Rule
from agenttape_core.schema import Plain
from agenttape_core.session import Happening, Session, plain_value, record_step

_log = logging.getLogger("agenttape")


@dataclass(frozen=True, slots=True)
class Unseen:
    """What a framework does not tell its observers of.

    Args:
        by: What they are told by.
        kinds: The kinds of calls that they are not told of.
        note: What a replay says of such a call, and what to do instead.
    """

    by: str
    kinds: Sequence[str]
    note: str


class Observer:
    """Records what a framework tells of, without ever disturbing it. Thread-safe.

    Who builds on it knows what is going on, and says so by `is_busy`, `before_writing` and `cut_off`.

    Args:
        name: What the user calls the observer.
        path: The cassette.
        unseen: What it is not told of; noted in the cassette before anything else.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.

    Raises:
        CassetteLockedError: If another handler or session is recording to the cassette at this moment.
        ConfigurationError: If the path names no file, or a rule or setting is not valid.
    """

    def __init__(
        self, name: str, path: str | Path, unseen: Unseen, *, redact: bool | Sequence[Rule], tags: Sequence[str]
    ) -> None:
        self._observation = Observation(path, redact=redact, tags=tags)
        self._shown = name
        self._unseen: Unseen | None = unseen
        self._must_flush = False
        self._gate = RLock()  # nothing begins between the end of the last thing and the writing of the file
        self.errors: list[Exception] = []
        weakref.finalize(self, _finish, self._observation, name)

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observation.path

    # -- what goes on ------------------------------------------------------------------------------------------

    @abstractmethod
    def is_busy(self) -> bool:
        """Whether anything that is observed goes on."""

    def before_writing(self) -> None:
        """Record what has ended and was not told of yet."""

    @abstractmethod
    def cut_off(self) -> None:
        """Record what goes on as it stands, and forget it."""

    # -- writing -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all that was observed to the cassette: now, or when what goes on has ended.

        Raises:
            CassetteError: If it cannot be written; the message says where the recording is kept.
        """
        with self._gate:
            self.before_writing()
            self._must_flush = self.is_busy()
            if not self._must_flush:
                self._observation.flush()

    def close(self) -> None:
        """Write all that was observed to the cassette, and observe no more. What goes on is cut off here.

        Raises:
            CassetteError: If it cannot be written; the message says where the recording is kept.
        """
        with self._gate:
            self.before_writing()
            self.cut_off()
            self._observation.close()

    def nothing_goes_on(self) -> None:
        """Write the cassette, if there is enough to write or somebody asked for it.

        Raises:
            CassetteError: As of `flush`.
        """
        write = self._observation.flush if self._must_flush else self._observation.run_ended
        self._must_flush = False
        write()

    # -- recording ---------------------------------------------------------------------------------------------

    def session(self) -> Session:
        """Return the session that interactions and steps are to be recorded in now."""
        session = self._observation.session
        with self._gate:
            unseen, self._unseen = self._unseen, None
        if unseen is not None:
            gap = Happening("gap", unseen.by, "", (), perf_counter(), missing=unseen.note, data=list(unseen.kinds))
            record_step(session, gap)
        return session

    def input_of(self, value: object) -> Plain:
        """Return what an outermost run was given as plain data, and keep the first one for who starts it again."""
        given = plain_value(value)
        self._observation.note_input(given)
        return given

    # -- errors ------------------------------------------------------------------------------------------------

    @contextmanager
    def noting(self, *, again: bool = False) -> Iterator[None]:
        """Keep our errors out of the observed run, and not lose them.

        Args:
            again: Whether what fails here has failed before, and is known.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
            if not again:
                self.could_not_record(error)

    def could_not_record(self, error: Exception) -> str:
        """Note what could not be recorded, and return why in a line; what was logged says the rest."""
        self.errors.append(error)
        _log.error("%s(%s) could not record a call: %s", self._shown, self.path, error)
        return f"it could not be recorded: {str(error).partition(chr(10))[0]}"


def _finish(observation: Observation, name: str) -> None:
    """Write what is left when an observer is forgotten, or at the end of the program."""
    try:
        observation.flush()
    except Exception as error:  # noqa: BLE001 - nobody is there to be told but the log
        _log.error("%s(%s) could not write its cassette: %s", name, observation.path, error)
