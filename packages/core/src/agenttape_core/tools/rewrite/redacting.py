"""Redact a cassette in place, and prove that the replaced secrets are gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agenttape_core.errors import CassetteError, ConfigurationError
from agenttape_core.lifecycle.everywhere import ReplacedEverywhere
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.matching import Ignored
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor, Rule
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.everywhere import is_telling
from agenttape_core.redaction.path_placeholders import ALL_PLACES, KINDS_OF_PLACES
from agenttape_core.redaction.pseudonyms import may_hold
from agenttape_core.schema import Header, Redaction
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
from agenttape_core.storage.lock import WriterLock, prepare_beside
from agenttape_core.storage.names import ASSETS
from agenttape_core.storage.stores import store_of
from agenttape_core.tools.rewrite.scanning import Differing, Leak, Scan, plain_header, read_leftover, title
from agenttape_core.tools.rewrite.values import Record, Replacing, Values, byte_forms, differing

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
    prepare_beside(real)
    lock = WriterLock(real, f"{os.getpid()} redaction")
    try:
        plan = _planned(open_cassette(real), settings, values)
        if plan.replaced:
            write_cassette(real, plan.header, plan.records)
        if isinstance(real, Path):
            remove_leftovers(real)
        left = Proof(plan.redactor, values).of_files(real)
    finally:
        lock.release()
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
