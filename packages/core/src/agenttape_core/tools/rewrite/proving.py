"""Proof that replaced secrets are gone: from the records, read again, and from each byte of the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agenttape_core.errors import CassetteError
from agenttape_core.redaction import Redactor, Rule
from agenttape_core.redaction.everywhere import is_telling
from agenttape_core.schema import Header
from agenttape_core.storage import MAX_FILE_BYTES, Location, leftover_journals, open_cassette
from agenttape_core.storage.asset_files import SUFFIX
from agenttape_core.storage.files import read_bytes
from agenttape_core.storage.stores import store_of
from agenttape_core.tools.rewrite.replacing import Record
from agenttape_core.tools.rewrite.scanning import Leak, Scan, read_leftover
from agenttape_core.tools.rewrite.values import byte_forms

REPLACED = "replaced-elsewhere"
"""The kind of what equals a secret that was replaced at another place, and that nothing there gives away."""
UNREADABLE = "unreadable"
"""The kind of a file of which nobody can say what is in it."""


class Proof:
    """Looks for what a redactor has replaced, and for what is secret by itself.

    Args:
        redactor: What has replaced it.
        values: What was to go in any case.
    """

    def __init__(self, redactor: Redactor, values: Sequence[str]) -> None:
        self._secrets = {*values, *filter(is_telling, redactor.secrets)}
        self._rules = (*redactor.rules, *(Rule(REPLACED, literal=secret) for secret in sorted(self._secrets)))
        self._replacing = redactor

    def of_records(self, header: Header, records: Iterable[Record]) -> list[Leak]:
        """Return what is left in records that are not written yet.

        Args:
            header: The header that will stand before them.
            records: All of the cassette.
        """
        return list(Scan(self._redactor()).leaks(header, records))

    def of_files(self, path: Location) -> list[Leak]:
        """Return what is left in the files of a cassette, and in journals beside it."""
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
    folder = f"{key}{SUFFIX}"
    for name in store.names(folder):
        try:
            data = store.fetch(f"{folder}/{name}", MAX_FILE_BYTES)
        except OSError:
            data = None
        yield f"{folder}/{name}", data
