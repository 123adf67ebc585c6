"""Cassettes made of the recordings of other tools, and the report on such an import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Self

from agenttape_core.engine import Mode
from agenttape_core.errors import CassetteError, CassetteNotFoundError, ConfigurationError
from agenttape_core.lifecycle.everywhere import ReplacedEverywhere
from agenttape_core.lifecycle.header import finished_header
from agenttape_core.lifecycle.open_session import prepare
from agenttape_core.lifecycle.presence import end
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.lifecycle.start_session import start
from agenttape_core.matching import Position
from agenttape_core.redaction import Rule
from agenttape_core.schema import GAP, Fidelity, Header, Interaction, Step
from agenttape_core.session import Boundary, ExecutedCall, StepEvent, record_step
from agenttape_core.settings import explicit
from agenttape_core.storage import Location, open_cassette


@dataclass(frozen=True, slots=True)
class Graded:
    """The grade of one recording of another tool.

    Args:
        place: Its place in the source: `interaction 3`, `run 0198c3…`.
        what: The recorded call: `POST https://api.openai.com/v1/responses`.
        fidelity: Whether the cassette holds all of it (`exact`), part of it (`lossy`) or none of it (`missing`).
        reason: The loss and its cause; for an exact recording, a note for the reader.
    """

    place: str
    what: str
    fidelity: Fidelity
    reason: str = ""

    def __str__(self) -> str:
        shown = f"{self.fidelity:<8}{self.place}: {self.what}"
        return f"{shown}\n        {self.reason}" if self.reason else shown


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import: a grade for each interaction of the foreign recording. Printable.

    Args:
        source: The file that was read.
        target: The cassette that was written.
        items: The grades, in the order of the source.
    """

    source: Path
    target: Location
    items: tuple[Graded, ...]

    @property
    def exact(self) -> tuple[Graded, ...]:
        """The recordings that replay exactly."""
        return self._of("exact")

    @property
    def lossy(self) -> tuple[Graded, ...]:
        """The recordings that a replay refuses, unless it is opened with `accept={"lossy"}`."""
        return self._of("lossy")

    @property
    def missing(self) -> tuple[Graded, ...]:
        """The recordings that the cassette does not hold."""
        return self._of("missing")

    def _of(self, fidelity: Fidelity) -> tuple[Graded, ...]:
        return tuple(item for item in self.items if item.fidelity == fidelity)

    def __str__(self) -> str:
        counts = f"{len(self.exact)} exact, {len(self.lossy)} lossy, {len(self.missing)} missing"
        reasons = [f"  {line}" for item in self.items if item.reason for line in str(item).splitlines()]
        return "\n".join([f"{self.source.name} -> {self.target.name}: {counts}", *reasons])


@dataclass(frozen=True, slots=True)
class Importer:
    """A maker of cassettes from the recordings of one other tool, for the command `agenttape import`.

    A package publishes it as an entry point of the group `agenttape.importers`, under the name of the tool.

    Args:
        recognises: Returns whether a file is of that tool; it doesn't raise for any other file.
        run: Imports: takes the source, the target and `overwrite`, as `import_vcr` does.
        names: Returns whether a text that names no file names a recording that the tool keeps elsewhere.
    """

    recognises: Callable[[Path], bool]
    run: Callable[..., ImportReport]
    names: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of a call in a foreign recording, without its request and its outcome.

    Args:
        position: Its place in the run tree; by default below the root.
        parent: The call that was executing around it.
        ids: Run-specific ids of the call that are not part of the request.
        tags: Tags from the program.
        metadata: Metadata from the program.
        duration_ms: Its duration in milliseconds.
        loss: The loss and its cause; empty if the recording is exact.
    """

    position: Position | None = None
    parent: ExecutedCall | None = None
    ids: tuple[str, ...] = ()
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    duration_ms: float = 0.0
    loss: str = ""


class Importing:
    """A cassette in the making, from a foreign recording; a context manager.

    The cassette is written when the block ends, and not at all if it raises.

    Args:
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace one that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        ignore: Paths of requests to ignore on replay, because the foreign recording lacks them.
        clock: The time at which the clock of the recorded program was frozen, in seconds since the epoch.

    Raises:
        CassetteLockedError: If it is being recorded at this moment.
        ConfigurationError: If there is a cassette already, or the path, a rule or a setting is not valid.
    """

    def __init__(
        self,
        target: str | Path,
        *,
        overwrite: bool = False,
        redact: bool | Sequence[Rule] = True,
        tags: Sequence[str] = (),
        ignore: Sequence[str] = (),
        clock: float | None = None,
    ) -> None:
        frozen = () if clock is None else ("clock",)
        prepared = prepare(
            SessionRequest(
                cassette=target,
                options=explicit({"freeze": frozen, "tags": tags or None}),
                added={"ignore": ignore},
                redact=redact,
                mode=Mode.RECORD,
                is_current=False,
                reads=False,
                clock=clock,
            )
        )
        self.path = prepared.path
        if not overwrite:
            _refuse_existing(self.path)
        self._opened = start(prepared)
        self._session = self._opened.session
        self._missing: set[tuple[str, str]] = set()
        self._restored: tuple[Header, Sequence[Interaction | Step]] | None = None

    @property
    def root(self) -> Position:
        """The position above all recorded runs."""
        return self._session.root

    def session_call(
        self, boundary: Boundary, name: str, body: Mapping[str, Any], facts: CallFacts | None = None
    ) -> ExecutedCall:
        """Begin an interaction. `returned`, `raised` or `streamed` of the call ends it.

        Args:
            boundary: The family of the call.
            name: The name within the family: the class of the model, the name of the tool.
            body: The request, exactly as the integration makes it for the same call.
            facts: The other facts in the recording.

        Raises:
            UnrecordableValueError: If the body cannot be written.
        """
        facts = facts or CallFacts()
        position = facts.position or self.root.child(name)
        session_call = self._session.cross(boundary, name, body, position=position, ids=facts.ids, parent=facts.parent)
        assert not session_call.is_replayed  # the session of an import replays nothing
        session_call.tags, session_call.metadata = facts.tags, facts.metadata
        session_call.duration_ms = facts.duration_ms
        session_call.fidelity_note = facts.loss
        return session_call

    def missing(self, kind: str, reason: str) -> None:
        """Note that calls of a kind were recorded that the cassette does not hold; a miss of that kind will say so."""
        if (kind, reason) in self._missing:
            return
        self._missing.add((kind, reason))
        order, began = self.root.moment(), perf_counter()
        event = StepEvent(GAP, "import", "", order, began, missing=reason, data=[kind])
        record_step(self._session, event)

    def restore(self, header: Header, records: Sequence[Interaction | Step]) -> None:
        """Make the cassette of the records of another one.

        Args:
            header: The header of that one, with the timings of its records; without the key of its pseudonyms.
            records: Its interactions and steps, in its order.
        """
        self._restored = header, records

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        end(self._session)
        try:
            if error is None and self._opened.journal is not None:
                header, keep = self._finished()
                finishing = ReplacedEverywhere(self._opened.prepared.redactor, self._session.setup.ignored)
                self._opened.journal.commit(finishing.header(header), keep, finishing=finishing)
        finally:
            self._opened.abandon()
        return False

    def _finished(self) -> tuple[Header, Sequence[Interaction | Step]]:
        header = finished_header(self._opened.prepared.header, {})
        if self._restored is None:
            return header, ()
        other, records = self._restored
        redaction = other.redaction.model_copy(update={"key": header.redaction.key})
        tags = list(dict.fromkeys([*other.tags, *header.tags]))
        return other.model_copy(update={"redaction": redaction, "tags": tags}), records


def _refuse_existing(path: Location) -> None:
    with suppress(CassetteError):
        try:
            open_cassette(path)
        except CassetteNotFoundError:
            return
    raise ConfigurationError(
        f"{path} exists already, and an import would replace it\n  name another target, or pass overwrite=True"
    )
