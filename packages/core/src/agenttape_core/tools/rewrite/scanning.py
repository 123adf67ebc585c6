"""Search all parts of recordings for secrets, even those that redaction skips."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError
from agenttape_core.format.continuation import MESSAGES
from agenttape_core.format.journal_text import read_journal
from agenttape_core.lifecycle.everywhere import ReplacedEverywhere
from agenttape_core.lifecycle.thread_files import Stored, is_thread_file
from agenttape_core.matching import Ignored
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Header, Interaction
from agenttape_core.storage import leftover_journals
from agenttape_core.tools.rewrite.values import (
    SHORTEST_BASE64,
    FoundSecret,
    Record,
    Replacing,
    Values,
    binary_redacted,
    changed_strings,
    differing,
)

_JOURNALS = ".*.journal"
_THREADS = (".sqlite", ".sqlite3", ".db")
_OF_NAMES = ("kind", "name", "address")
_RANDOM = {"ids", "fingerprint"}  # kinds of values that look like secrets and are none by nature


class Leak(NamedTuple):
    """A secret in a recording. It never holds the secret."""

    record: str  # `header`, `interaction 3` or `step 2`
    place: str  # the path to it
    kind: str  # what it is: `email`, `openai`, the name of a rule


class Scan:
    """Looks for secrets. The redactor detects them. Give each cassette its own."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._replacing = Replacing(redactor, Ignored.of(()), Values((), redactor))

    def leaks(self, header: Header, records: Iterable[Record]) -> Iterator[Leak]:
        """Yield the secrets of a cassette or a journal, record by record."""
        text = self._redactor.text
        new_header = self._replacing.header(header)
        pairs = list(self._replacing.records(records))
        if elsewhere := ReplacedEverywhere(self._redactor, Ignored.of(())):
            new_header = elsewhere.header(new_header)
            pairs = [(record, elsewhere.record(replaced)) for record, replaced in pairs]
        after = plain_header(new_header)
        for key in ("turns", "schedule", "readings"):
            after["volatile"][key] = changed_strings(after["volatile"][key], text)
        after = self._looked({**after, "name": text(header.name)})
        yield from (Leak("header", *place) for place in differing(plain_header(header), after))
        found = Differing()
        for record, replaced in pairs:
            before = plain_record(record)
            redacted = before if replaced == record else plain_record(replaced)
            after = self._looked({**redacted, **{key: text(redacted[key]) for key in _OF_NAMES}})
            yield from (Leak(title(record), *place) for place in found.places(before, after))

    def _looked(self, after: dict[str, Any]) -> dict[str, Any]:
        """Return a record in which binary data is redacted as well."""
        base64 = self._redactor.base64

        def looked(text: str) -> str:
            return text if len(text) < SHORTEST_BASE64 else binary_redacted(text, base64)

        found: dict[str, Any] = changed_strings(after, looked)
        return found


def journals_in(path: Path) -> list[Path]:
    """Return what recordings that were cut off have left below a folder, or of the cassette at a path."""
    return sorted(path.rglob(_JOURNALS)) if path.is_dir() else leftover_journals(path)


def thread_files_in(paths: Iterable[str]) -> list[Path]:
    """Return the files of threads that paths mean: named ones, and those below a folder; by default below this one."""
    found: dict[Path, None] = {}
    for path in map(Path, tuple(paths) or (".",)):
        files = (file for file in path.rglob("*") if file.name.endswith(_THREADS)) if path.is_dir() else (path,)
        found.update((file, None) for file in sorted(files) if file.is_file() and is_thread_file(file))
    return list(found)


def leaks_of_threads(stored: Iterable[Stored], redactor: Redactor) -> Iterator[Leak]:
    """Yield the secrets of threads, each place of a thread once: its next checkpoint repeats those in the last one."""
    seen: set[tuple[str, str, str]] = set()
    for record, plain in stored:
        for place in differing(plain, redactor.value(plain)):
            key = (record.partition(", checkpoint ")[0], *place)
            if key not in seen:
                seen.add(key)
                yield Leak(redactor.text(record), *place)


def read_leftover(journal: Path) -> tuple[Header, list[Record]]:
    """Return the content of a journal. Raises `CassetteFormatError` if it cannot be read."""
    try:
        content = journal.read_bytes()
    except OSError as error:
        raise CassetteFormatError(journal, f"the journal cannot be read: {error.strerror or error}") from error
    header, lines = read_journal(journal, content)
    return header, [line.record for line in lines]


class Differing:
    """The places of the records of one cassette, each message once: a request repeats what those before it asked."""

    def __init__(self) -> None:
        self._messages: set[bytes] = set()

    def places(self, before: dict[str, Any], after: dict[str, Any]) -> list[FoundSecret]:
        """Return the places in which a record differs after redaction."""
        old, new = (part.get("request", {}).get(MESSAGES) for part in (before, after))
        if not isinstance(old, list) or old == new:
            return differing(before, after)
        digests = [marshal.dumps(message, 2) for message in old]
        fresh = [old[n] if digest in self._messages else new[n] for n, digest in enumerate(digests)]
        self._messages.update(digests)
        return differing(before, {**after, "request": {**after["request"], MESSAGES: fresh}})


def title(record: Record) -> str:
    """Return the display name of a record."""
    return f"{'interaction' if isinstance(record, Interaction) else 'step'} {record.number}"


def plain_header(header: Header) -> dict[str, Any]:
    """Return all of a header that a program or a person wrote: not its key and its times."""
    volatile = {"timings", "steps", "clock", "created"}
    return header.model_dump(exclude={"redaction": True, "freeze": {"seed"}, "volatile": volatile})


def plain_record(record: Record) -> dict[str, Any]:
    """Return all of a record that can hold a secret."""
    return record.model_dump(exclude=_RANDOM)
