"""The journal: it writes every finished interaction to disk right away, and replaces the cassette at the end.

A journal is JSON lines beside the cassette: the header, then one line per interaction in the order in which they
ended. Its requests are continuations as well, so it grows as the cassette does and not with the square of the turns.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agenttape_core.errors import CassetteWriteError, SessionStateError, UnrecordableValueError, counted
from agenttape_core.format.assembly import Retaken, assemble
from agenttape_core.format.continuation import Compactor
from agenttape_core.format.journal_text import read_own_journal
from agenttape_core.format.json_text import dump_line
from agenttape_core.format.plain import check_plain
from agenttape_core.format.records import header_to_dict, version_of
from agenttape_core.format.timings import MAX_MS
from agenttape_core.garbage import collecting_late
from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage.atomic import remove_leftovers
from agenttape_core.storage.files import file_kind
from agenttape_core.storage.lock import (
    WriterLock,
    beside,
    elsewhere,
    prepare_beside,
    prepare_elsewhere,
    real_location,
    tidy_elsewhere,
)
from agenttape_core.storage.writer import stored_record, stored_step, write_cassette

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agenttape_core.format.records import AnyRecord
    from agenttape_core.schema import Header, Interaction, Step, StepTiming, Timing
    from agenttape_core.storage.location import Location


class Carried(NamedTuple):
    """An interaction of another cassette that becomes part of a recording.

    Args:
        interaction: The interaction, with its number and its parent's number there.
        timing: When it happened, in milliseconds.
        order: Where it belongs in the cassette, as for `Journal.append`.
        source: The number of the other cassette, from 1, where interactions of several are carried.
        inside: The number, in this recording, of the call that it lies inside now; 0 if that is the one of before.
    """

    interaction: Interaction
    timing: Timing
    order: tuple[Any, ...]
    source: int = 1
    inside: int = 0


class Finishing(Protocol):
    """A change to the recorded calls, made when the run is over."""

    def are_in(self, lines: bytes) -> bool:
        """Return True if there may be something to change in the lines of a journal."""

    def written(self, record: AnyRecord) -> AnyRecord:
        """Return a record in its written form."""


class Journal:
    """One recording in progress. It ends with `commit` or `abandon`; after either it is closed.

    Args:
        target: The cassette that `commit` will replace. Missing folders are created.
        header: What is known of the header now, for a recovery after a crash.
        is_unique: Whether the name of the cassette was drawn for this recording, so that there are no leftovers of an
            earlier one, and its folder needn't be searched.
        is_quiet: Whether records that have no room anywhere are kept in memory without an error, until `commit`.

    Raises:
        CassetteLockedError: Another session records to the same cassette.
        CassetteWriteError: The folder cannot be written to.
        ConfigurationError: The suffix of the target is not known.
    """

    def __init__(self, target: Location, header: Header, *, is_unique: bool = False, is_quiet: bool = False) -> None:
        file_kind(target)
        self.is_unique = is_unique
        self._is_quiet = is_quiet
        self.target = real_location(target)
        name = f".{self.target.name}.{os.getpid()}-{secrets.token_hex(4)}.journal"
        path = beside(self.target, name)
        self._mutex = Lock()
        self._compactor = Compactor()
        self._size = 0
        self._known = b""
        stored = header_to_dict(header, version=version_of(header, ()))
        check_plain(stored)
        prepare_beside(self.target)
        self._lock = WriterLock(self.target, f"{os.getpid()} {name}")
        try:
            self._file = JournalFile(path, self.target, _line(stored))
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        self._is_open = True

    @property
    def path(self) -> Path:
        """The file. It's next to the cassette, unless there was no space."""
        return self._file.path

    @property
    def unkept(self) -> int:
        """The number of records that are only in memory, because there was no space on disk."""
        return self._file.held

    def append(
        self, interaction: Interaction, timing: Timing, order: tuple[Any, ...], *, has_begun: bool = False
    ) -> None:
        """Keep one finished interaction. When this returns, it outlives the process.

        Thread-safe.

        Args:
            interaction: What happened. Its number is provisional: any number that is unique in this session, by
                which the `parent` of others may name it.
            timing: When it happened, in milliseconds.
            order: Where it belongs in the cassette: a tuple of integers, strings and such tuples. Interactions of
                equal order stay in the order in which they were appended.
            has_begun: Whether it isn't finished: the next one with its number replaces it.

        Raises:
            UnrecordableValueError: If a part of it isn't plain data; in that case no byte was written.
            CassetteWriteError: There's no room for it beside the cassette. It is kept elsewhere, with all before it.
            SessionStateError: The journal is closed, or of the process that this one was forked from.
        """
        self._append_interaction(interaction, timing, order, has_begun=has_begun)

    def carry(self, carried: Carried) -> None:
        """Keep an interaction of another cassette in this recording. Raises as `append` does.

        Its number and its parent's number belong to the other cassette, and are never confused with the numbers of
        appended interactions: `commit` numbers all of them.
        """
        self._append_interaction(*carried)

    def _append_interaction(
        self,
        interaction: Interaction,
        timing: Timing,
        order: tuple[Any, ...],
        source: int = 0,
        inside: int = 0,
        *,
        has_begun: bool = False,
    ) -> None:
        times = _checked_times(timing.duration_ms, *timing.offsets_ms)
        start = {} if timing.start_ms is None else {"start": _checked_times(timing.start_ms)[0]}
        began = {} if timing.moment is None else {"moment": timing.moment, "nonce": timing.nonce}
        self._refuse_fork()
        with self._mutex:
            self._refuse_closed()
            record = stored_record(self._compactor, interaction, self._file.numbered + 1)
            facts = {"carried": source, "inside": inside, "begun": has_begun}
            carried = {key: fact for key, fact in facts.items() if fact}
            line = {"order": list(order), **carried, **start, **began, "timing": times, "record": record}
            self._append(_line(line), is_numbered=True)
            self._compactor.confirm()

    def append_step(self, step: Step, timing: StepTiming, order: tuple[Any, ...]) -> None:
        """Keep one step, as `append` does an interaction. Its number is ignored: steps are numbered at the end."""
        times = _checked_times(timing.start_ms, timing.duration_ms)
        self._refuse_fork()
        with self._mutex:
            self._refuse_closed()
            self._append(_line({"order": list(order), "timing": times, "step": stored_step(step)}), is_numbered=False)

    def note_header(self, header: Header) -> None:
        """Keep new facts for the header, together with the next record: without records, there is no run to recover."""
        line = _line({"header": header_to_dict(header, version=version_of(header, ()))})
        with self._mutex:
            self._known = line

    @property
    def size(self) -> int:
        """The number of bytes that were appended."""
        return self._size

    def _append(self, line: bytes, *, is_numbered: bool) -> None:
        line, self._known = self._known + line, b""
        self._size += len(line)
        try:
            self._file.append(line, is_numbered=is_numbered)
        except OSError as error:
            if self._is_quiet:
                return
            kept, held = self._file.lines - self._file.held, self._file.held
            in_memory = f", {held} in memory until there is room" if held else ""
            raise self._failure(error, f"; {counted(kept, 'record')} kept in {self.path}{in_memory}") from error

    def _refuse_closed(self) -> None:
        if not self._is_open:
            raise SessionStateError(f"{self.path.name} is closed: nothing more can be recorded to it")

    @property
    def is_empty(self) -> bool:
        """True if no call has been recorded yet."""
        return self._file.numbered == 0

    def commit(
        self,
        header: Header,
        keep: Sequence[Interaction | Step] = (),
        standing_for: Mapping[int, int] | None = None,
        retaken: Retaken | None = None,
        *,
        stays_open: bool = False,
        finishing: Finishing | None = None,
    ) -> None:
        """Replace the cassette by the recorded calls, then remove the journal.

        The interactions are sorted by their order and numbered from 1; parents that were not recorded are dropped.

        Args:
            header: The header of the cassette. Its timings are from `keep`, by their old numbers.
            keep: Interactions and steps of an earlier cassette that stay, before all others and in this order.
            standing_for: Numbers that name parents of appended records, with the numbers, in the earlier cassette, of
                the interactions they mean.
            retaken: The part that the kept records had in this run, as for `assemble`; `None` if they had none.
            stays_open: True if you call this again, or `abandon`, where the cassette could not be written.
            finishing: Changes recorded calls according to facts that only became known later in the run.

        Raises:
            CassetteWriteError: The cassette couldn't be written; it's unchanged, and the journal holds the
                recording for `recover`.
            SessionStateError: The journal is closed, or of the process that this one was forked from.
        """
        self._refuse_fork()
        with self._mutex:
            if not self._is_open:
                raise SessionStateError(f"{self.path.name} is closed: it was committed or abandoned before")
            written = False
            is_kept_open = False
            try:
                with collecting_late(stays=False):  # all records at once: the collector would look at all there is
                    content = self._file.content()
                    lines = read_own_journal(self.path, content)
                    if finishing is not None and finishing.are_in(content):
                        lines = [line._replace(record=finishing.written(line.record)) for line in lines]
                    full_header, records = assemble(header, keep, lines, standing_for, retaken)
                    write_cassette(self.target, full_header, records, kept_in=self.path, are_plain=True)
                    del content, lines, records
                if isinstance(self.target, Path) and not self.is_unique:
                    remove_leftovers(self.target)
                written = True
            except CassetteWriteError:
                is_kept_open = stays_open
                raise
            finally:
                if not is_kept_open:
                    self._close(remove=written)

    def abandon(self, *, keep: bool) -> Path | None:
        """End without touching the cassette. Has no effect if the journal is closed.

        Args:
            keep: Whether to leave the journal for `recover`; one without interactions is removed anyway.

        Returns:
            The journal that was left, if any.
        """
        if self._is_open and not self._lock.is_held:
            return None  # as in `_refuse_fork`
        with self._mutex:
            if not self._is_open:
                return self.path if self.path.exists() else None
            kept = keep and not self.is_empty
            if kept:
                self._file.settle()
            self._close(remove=not kept)
            return self.path if kept else None

    def _refuse_fork(self) -> None:
        """Two processes that write one journal would each count its lines alone.

        Nothing is locked for this: in a fork, a lock that another thread held stays locked for ever.
        """
        if self._is_open and not self._lock.is_held:
            raise SessionStateError(
                f"{self.target} is being recorded by the process that this one was forked from\n"
                "  open a separate cassette in the forked process, or start it with spawn"
            )

    def _failure(self, error: OSError, kept: str = "") -> CassetteWriteError:
        problem = f"the journal could not be written: {error.strerror or error}{kept}"
        return CassetteWriteError.of_system(
            self.target, problem, remedy="free space or fix the permissions of its folder"
        )

    def _close(self, *, remove: bool) -> None:
        self._is_open = False
        self._file.close(remove=remove)
        self._lock.release()


def _checked_times(*times: float) -> list[float]:
    if not all([abs(ms) < MAX_MS for ms in times]):  # noqa: C419 - a generator costs more than it saves
        raise UnrecordableValueError("timing", float, "a duration is a finite number of milliseconds")
    return list(times)


def _line(value: dict[str, Any]) -> bytes:
    return dump_line(value).encode() + b"\n"


# The file of a journal: it only grows, and what does not fit in goes elsewhere rather than being lost.

_CHUNK = 1 << 20


class _Held(NamedTuple):
    line: bytes
    is_numbered: bool


class _Written(NamedTuple):
    """The content of the file."""

    size: int
    lines: int
    numbered: int

    def plus(self, size: int, lines: list[_Held]) -> _Written:
        numbered = self.numbered
        for held in lines:
            numbered += held.is_numbered
        return _Written(self.size + size, self.lines + len(lines), numbered)


class JournalFile:
    """A file of lines.

    There is no file yet; `target`, the cassette that it belongs to, shows where to go when there's no room. Raises
    `OSError` if the file cannot be made, or has no room for the first line.
    """

    def __init__(self, path: Path, target: Location, first: bytes) -> None:
        self.path = path
        self._target = target
        self._held: list[_Held] = []
        self._written = _Written(0, 0, 0)
        self._descriptor = _created(path)
        try:
            self._put([_Held(first, is_numbered=False)])
        except BaseException:
            self.close(remove=True)
            raise

    @property
    def lines(self) -> int:
        """The number of lines after the first, those in memory too."""
        return self._written.lines - 1 + len(self._held)

    @property
    def numbered(self) -> int:
        """The number of lines that have a number."""
        return self._written.numbered + sum(held.is_numbered for held in self._held)

    @property
    def held(self) -> int:
        """The number of lines that are in memory only, because there was no space on any disk."""
        return len(self._held)

    def append(self, line: bytes, *, is_numbered: bool) -> None:
        """Write a line, and before it those that had no room. It is there or not, whatever interrupts this.

        Raises `OSError` if there's no room here; the line is kept: in a file elsewhere, where `path` is from now on, or
        in memory.
        """
        self._held.append(_Held(line, is_numbered))
        self._flush()

    def content(self) -> bytes:
        """All lines, those in memory too. The file is read even if someone has removed its name."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        chunks = []
        while chunk := os.read(self._descriptor, _CHUNK):
            chunks.append(chunk)
        return b"".join([*chunks, *(held.line for held in self._held)])

    def settle(self) -> None:
        """Sync the file to disk, and write the lines held in memory if there is space now."""
        if self._held:
            with contextlib.suppress(OSError):
                self._flush()
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)

    def close(self, *, remove: bool = False) -> None:
        """Close the file, and perhaps remove it."""
        os.close(self._descriptor)
        if remove:
            _remove(self.path)

    def _flush(self) -> None:
        try:
            self._put(self._held)
        except OSError:
            self._move()
            raise

    def _put(self, lines: list[_Held]) -> None:
        """Write with one call. What could not be written whole is taken back, also when an interruption comes."""
        data = b"".join([held.line for held in lines])
        left = memoryview(data)
        written = self._written.plus(len(data), lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._written.size)
            raise
        self._written, self._held = written, []  # nothing is called here, so nothing can come in between

    def _move(self) -> None:
        """Go to the first folder that has room for everything; stay if none has."""
        for folder in elsewhere(self._target):
            path = folder / self.path.name
            if path != self.path:
                try:
                    prepare_elsewhere(folder, self._target)
                    moved = JournalFile(path, self._target, self.content())
                except OSError:
                    tidy_elsewhere(folder)
                    continue  # no room or no right there either
                written = self._written.plus(moved._written.size - self._written.size, self._held)
                self.close(remove=True)
                self.path, self._descriptor, self._written, self._held = path, moved._descriptor, written, []
                return


def _created(path: Path) -> int:
    # O_BINARY exists where the system would translate the ends of lines.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
    # An append to the page cache does not block. The flag says so to tools such as blockbuster, which guard
    # the event loops that interactions are recorded in; on a regular file it has no other effect.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
