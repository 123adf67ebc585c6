"""Search cassettes for secrets, and rewrite them: without secrets, or in the newest format."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteError, CassetteFormatError, ConfigurationError
from agenttape_core.format.continuation import MESSAGES
from agenttape_core.format.journal_text import read_journal
from agenttape_core.lifecycle.everywhere import ReplacedEverywhere
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.lifecycle.thread_files import Stored, is_thread_file
from agenttape_core.matching import Ignored
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor, Rule
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.everywhere import is_telling
from agenttape_core.redaction.path_placeholders import ALL_PLACES, KINDS_OF_PLACES
from agenttape_core.redaction.pseudonyms import may_hold
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Redaction
from agenttape_core.settings import Settings
from agenttape_core.storage import (
    MAX_FILE_BYTES,
    Cassette,
    Location,
    leftover_journals,
    open_cassette,
    real_location,
    write_cassette,
)
from agenttape_core.storage.atomic import remove_leftovers
from agenttape_core.storage.files import read_bytes
from agenttape_core.storage.lock import locked
from agenttape_core.storage.names import ASSETS
from agenttape_core.storage.stores import store_of
from agenttape_core.storage.writer import compose
from agenttape_core.tools.rewrite.values import (
    SHORTEST_BASE64,
    FoundSecret,
    Record,
    Replacing,
    Values,
    binary_redacted,
    byte_forms,
    changed_strings,
    differing,
)

# -- Search all parts of recordings for secrets, even those that redaction skips.


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


# -- Proof that replaced secrets are gone: from the records, read again, and from each byte of the files.


REPLACED = "replaced-elsewhere"
"""The kind of a value that equals a secret replaced elsewhere, and that its own context doesn't reveal."""
UNREADABLE = "unreadable"  # the kind of a file whose contents are unknown


class Proof:
    """Looks for the secrets that a redactor has replaced, and for `values` that are secret in any context."""

    def __init__(self, redactor: Redactor, values: Sequence[str]) -> None:
        self._secrets = {*values, *filter(is_telling, redactor.secrets)}
        self._rules = (*redactor.rules, *(Rule(REPLACED, literal=secret) for secret in sorted(self._secrets)))
        self._replacing = redactor

    def of_records(self, header: Header, records: Iterable[Record]) -> list[Leak]:
        """Return the secrets left in records that aren't written yet, and in the header that will be."""
        return list(Scan(self._redactor()).leaks(header, records))

    def of_files(self, path: Location) -> list[Leak]:
        """Return the secrets left in the files of a cassette, and in journals next to it."""
        redactor, cassette = self._redactor(), open_cassette(path)
        found = list(Scan(redactor).leaks(cassette.header, cassette.records()))
        found += self._in_bytes(path, self._secrets - redactor.secrets)
        return [*found, *self._in_journals(path)]

    def _in_bytes(self, path: Location, secrets: Iterable[str]) -> Iterator[Leak]:
        forms = [form for secret in secrets for form in byte_forms(secret)]
        for name, data in _files(path):
            if data is None:
                yield Leak("file", name, UNREADABLE)
            elif any(form in data for form in forms) or any(secret in name for secret in secrets):
                yield Leak("file", name, REPLACED)

    def _in_journals(self, path: Location) -> Iterator[Leak]:
        for journal in leftover_journals(path):
            try:
                leaks = Scan(self._redactor()).leaks(*read_leftover(journal))
            except CassetteError:
                yield Leak("file", journal.name, UNREADABLE)
            else:
                yield from (leak._replace(record=f"{journal.name}: {leak.record}") for leak in leaks)

    def _redactor(self) -> Redactor:
        return self._replacing.with_rules(self._rules)


def _files(path: Location) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name and the unpacked bytes of a cassette and of all in its folder of assets, if they can be read."""
    store, key = store_of(path)
    yield path.name if isinstance(path, Path) else key, read_bytes(path)
    folder = f"{key}{ASSETS}"
    for name in store.names(folder):
        try:
            data = store.fetch(f"{folder}/{name}", MAX_FILE_BYTES)
        except OSError:
            data = None
        yield f"{folder}/{name}", data


_SHORTEST = 4  # a shorter value occurs in every other word


class Redacted(NamedTuple):
    """The redaction of one cassette."""

    replaced: tuple[Leak, ...]  # what was replaced, or would be
    left: tuple[Leak, ...]  # what is a secret, or equal to one that was replaced, and still there
    # Whether a text was replaced that held a pseudonym already. A session that redacts the same text in parallel
    # makes another pseudonym of it.
    is_merged: bool


class _Plan(NamedTuple):
    header: Header
    records: list[Record]
    redactor: Redactor
    replaced: list[Leak]

    @property
    def is_merged(self) -> bool:
        return any(may_hold(secret) for secret in self.redactor.secrets)


def check_values(values: Sequence[str]) -> None:
    """Refuse values that would be found everywhere: too short. The `ConfigurationError` doesn't show it."""
    if any(len(value) < _SHORTEST for value in values):
        problem = f"a value to redact has less than {_SHORTEST} characters, so it would be found everywhere"
        raise ConfigurationError(f"{problem}\n  give the whole secret, one in a line")


def would_redact(cassette: Cassette, settings: Settings, values: Sequence[str] = ()) -> Redacted:
    """Return the changes that `redact` would make. Takes and raises the same, and writes no file."""
    plan = _planned(cassette, settings, values)
    left = Proof(plan.redactor, values).of_records(plan.header, plan.records)
    return Redacted(tuple(plan.replaced), tuple(left), plan.is_merged)


def redact(path: Location, settings: Settings, values: Sequence[str] = ()) -> Redacted:
    """Replace the secrets in a cassette and its assets by pseudonyms made with its own key, and prove them gone.

    If no secret is found, the cassette isn't touched. A changed one is written atomically; then all its bytes are read
    again and searched for the replaced secrets.

    The settings have the rules, and the key if the cassette has none; `values` are further secrets, wherever they are.
    Returns the secrets replaced, and the ones left. Raises `CassetteError` if it can't be read or written, or is being
    recorded, and `ConfigurationError` if its key is not given, or a value is too short; then it's unchanged.
    """
    real = real_location(path)
    open_cassette(real)  # what is not there gets no lock beside it
    with locked(real, "redaction"):
        plan = _planned(open_cassette(real), settings, values)
        if plan.replaced:
            write_cassette(real, plan.header, plan.records)
        if isinstance(real, Path):
            remove_leftovers(real)
        left = Proof(plan.redactor, values).of_files(real)
    return Redacted(tuple(plan.replaced), tuple(left), plan.is_merged)


def _planned(cassette: Cassette, settings: Settings, values: Sequence[str]) -> _Plan:
    check_values(values)
    redactor = _redactor(cassette, settings, values)
    header = cassette.header
    ignored = Ignored.of(header.ignore)
    replacing = Replacing(redactor, ignored, Values(values, redactor))
    new_header = replacing.header(header)
    before, found = list(cassette.records()), Differing()
    after = [new for _, new in replacing.records(before)]
    if elsewhere := ReplacedEverywhere(redactor, ignored):
        new_header, after = elsewhere.header(new_header), [elsewhere.record(new) for new in after]
    replaced = [Leak("header", *place) for place in differing(plain_header(header), plain_header(new_header))]
    for record, new in zip(before, after, strict=True):
        if new != record:
            pair = (each.model_dump(exclude={"fingerprint"}) for each in (record, new))
            replaced += [Leak(title(record), *place) for place in found.places(*pair)]
    rules = [*header.redaction.rules, *(rule.name for rule in settings.redaction_rules if not rule.keep)]
    kept = {rule.name for rule in settings.redaction_rules if rule.keep}
    off = sorted({*header.redaction.off} & {*kept, ALL_PLACES, *KINDS_OF_PLACES})
    redaction = header.redaction.model_copy(update={"rules": list(dict.fromkeys(rules)), "off": off})
    return _Plan(new_header.model_copy(update={"redaction": redaction}), after, redactor, replaced)


def _redactor(cassette: Cassette, settings: Settings, values: Sequence[str]) -> Redactor:
    """Return a redactor with the key of the cassette; its own rules have been applied, and aren't needed."""
    was = cassette.preface.redaction
    off = [rule.name for rule in settings.redaction_rules if rule.keep]
    redaction = Redaction(key=was.key, off=off, forms=was.forms, places=was.places)
    prior = cassette.preface.model_copy(update={"redaction": redaction})
    redactor = redactor_for(cassette.path, prior, True, settings)
    literals = tuple(Rule(SECRET, literal=value) for value in values)
    return redactor.with_rules((*literals, *redactor.rules)) if literals else redactor


# -- Cassettes of an older format, brought to the newest that they need.


class Migration(NamedTuple):
    """The migration of one cassette."""

    version: int  # the version of its format
    needed: int  # the version in which this AgentTape would write it: the oldest with all its features
    gets_stamps: bool = False  # whether its records hold stamps, which this AgentTape writes into the volatile block

    @property
    def is_due(self) -> bool:
        """True if the file is older than the format that this AgentTape writes."""
        return self.version < self.needed or self.gets_stamps


def migration_of(cassette: Cassette) -> Migration:
    """Return what `migrate` would do with a cassette. Raises as reading all of it does."""
    if cassette.has_stamps:
        return Migration(cassette.version, FORMAT_VERSION)
    composed = compose(cassette.path, cassette.header, list(cassette.records()))
    return Migration(cassette.version, max(cassette.version, composed.version), composed.has_stamps)


def migrate(path: Location) -> Migration:
    """Rewrite a cassette if its format is older than the one it would be written in now. Others are not touched.

    What it holds stays the same. Raises `CassetteVersionError` if it is of a newer format than is known, and
    `CassetteError` if it cannot be read or written, or it is being recorded; it doesn't change.
    """
    real = real_location(path)
    if not (found := migration_of(open_cassette(real))).is_due:
        return found
    with locked(real, "migration"):
        cassette = open_cassette(real)
        found = migration_of(cassette)
        write_cassette(real, cassette.header, list(cassette.records()))
        if isinstance(real, Path):
            remove_leftovers(real)
    return found
