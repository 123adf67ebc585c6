"""The secrets that the requests of a run have held, in a session in which calls may be executed.

What is replayed there may reach a tool that is live. A pseudonym in an answer, which whoever can change the cassette
has chosen, is put back only where a request of the same run has held its secret before, or one that belongs to no run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agenttape_core.locks import Lock
from agenttape_core.matching import KeyedItems
from agenttape_core.schema import Plain

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


_NO_RUN = ""


class HeldSecrets:
    """The secrets that requests have held so far, by run. Thread-safe. `encode` makes plain data of a value."""

    def __init__(self, redactor: Redactor, encode: Callable[[Any], Plain]) -> None:
        self._redactor = redactor
        self._encode = encode
        self._by_run: dict[str, Redactor] = {}
        self._lock = Lock()

    def note(self, address: str, body: Mapping[str, Any], *, begins_run: bool) -> None:
        """Note the secrets in a request; with `begins_run`, the call's code is a run if none is around it."""
        run = _run(address) or (address if begins_run else _NO_RUN)
        self._of(run).value({name: self._plain(value) for name, value in body.items()})

    def put_back(self, address: str, plain: Plain) -> Plain:
        """Return the answer at an address, with the secrets of this run put back."""
        for run in dict.fromkeys((_run(address), _NO_RUN)):
            plain = self._of(run).rehydrate(plain)
        return plain

    def put_back_chunks(self, address: str, chunks: list[Plain]) -> list[Plain]:
        """Return the chunks of a stream in the same way."""
        for run in dict.fromkeys((_run(address), _NO_RUN)):
            chunks = list(self._of(run).rehydrate_chunks(chunks))
        return chunks

    def _of(self, run: str) -> Redactor:
        with self._lock:
            if run not in self._by_run:
                self._by_run[run] = self._redactor.with_rules(self._redactor.rules)
            return self._by_run[run]

    def _plain(self, value: Any) -> Plain:
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        return value.built() if type(value) is KeyedItems else self._encode(value)


def _run(address: str) -> str:
    """Return the outermost run around a call, by its label; empty for a call that no run is around."""
    outermost, slash, _ = address.partition("/")
    return outermost if slash else _NO_RUN
