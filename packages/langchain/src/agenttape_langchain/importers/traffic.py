"""Recorded traffic as a cassette: each exchange goes to the importer of its service, and is graded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agenttape_core.integration.importing import Graded, Importing
from agenttape_langchain.importers.chats import import_chat, sends_results
from agenttape_langchain.importers.embeddings import import_embedding
from agenttape_langchain.importers.http_exchanges import Exchange
from agenttape_langchain.importers.requests import History, NotImportableError
from agenttape_langchain.importers.services import Options, addressed, embeds, service_of

NOT_A_MODEL = "it is no chat or embedding of a known service: nothing in LangChain makes such a request"
_FAILED = 400
"""The first status that is an error (RFC 9110 §15)."""


class Traffic:
    """Imports exchanges one after the other.

    Args:
        importing: The cassette.
        options: The user's knowledge of the program.
    """

    def __init__(self, importing: Importing, options: Options) -> None:
        self._importing = importing
        self._options = options
        self._history = History()

    def take(self, exchange: Exchange, retried_in: str = "") -> Graded:
        """Record an exchange, if possible, and grade it.

        Args:
            exchange: The exchange.
            retried_in: The place of the exchange in which the client itself tried again, if it did: the program got
                the outcome of that one, and never knew of this.
        """
        exchange = addressed(exchange)
        if retried_in:
            reason = f"the client itself tried again: {retried_in} holds what the program got"
            return Graded(exchange.place, exchange.what, "exact", reason)
        try:
            loss = self._record(exchange)
        except NotImportableError as error:
            self._importing.missing(_kind(exchange), f"{exchange.what}: {error}")
            return Graded(exchange.place, exchange.what, "missing", str(error))
        return Graded(exchange.place, exchange.what, "lossy" if loss else "exact", loss)

    def _record(self, exchange: Exchange) -> str:
        service = service_of(exchange)
        if service is not None:
            return import_chat(self._importing, exchange, service, self._options, self._history)
        if embeds(exchange):
            return import_embedding(self._importing, exchange, self._options)
        raise NotImportableError(NOT_A_MODEL)


def _kind(exchange: Exchange) -> str:
    if service_of(exchange) is not None:
        return "chat"
    return "embeddings" if embeds(exchange) else "http"


def graded(traffic: Traffic, exchanges: Sequence[Exchange]) -> Iterator[Graded]:
    """Record exchanges in their order, and yield the grade of each."""
    taken: set[int] = set()
    for number, exchange in enumerate(exchanges):
        yield traffic.take(exchange, _retried_in(exchanges, number, taken))


def ignored_paths(exchanges: Sequence[Exchange]) -> tuple[str, ...]:
    """Return the request paths to ignore: those that are not sent with the results of tools."""
    return ("messages[*].name", "messages[*].status") if sends_results(exchanges) else ()


def _retried_in(exchanges: Sequence[Exchange], number: int, taken: set[int]) -> str:
    """Return the place of the exchange in which the client itself sent a failed request again; empty if it did not."""
    failed = exchanges[number]
    if failed.status < _FAILED:
        return ""
    for later in range(number + 1, len(exchanges)):
        again = exchanges[later]
        same = (again.url, again.request_body) == (failed.url, failed.request_body)
        if same and again.retries == failed.retries + 1 and later not in taken:
            taken.add(later)
            return again.place
    return ""
