"""A tool oracle over HTTP, on this machine alone.

`POST /tool` with `{"tool_name": ..., "args": ...}` answers 200 with an entry as in an oracle file, or 404 with the
closest one. `args_hash` may replace the arguments, and `occurrence` be added, if the caller counts. `GET /unrecorded`
counts the answered requests, and lists the others.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.loopback import LoopbackHandler, LoopbackServer, object_in
from agenttape_core.tools.oracle.lookup import Entry, ToolOracle, Unknown, is_hash

_MAX_CLIENTS = 32


class OracleServer(LoopbackServer):
    """Serves an oracle on the loopback interface; as a context manager, in a separate thread.

    Args:
        oracle: The oracle.
        port: The port; 0 for any that is free.
    """

    def __init__(self, oracle: ToolOracle, port: int = 0) -> None:
        self.oracle = oracle
        super().__init__(_Handler, port, clients=_MAX_CLIENTS)


class _Handler(LoopbackHandler):
    def get(self) -> None:
        """Answer a GET."""
        if self.path.rstrip("/") == "/unrecorded":
            unrecorded = [unknown.plain() for unknown in self._oracle.unrecorded]
            counts = {"answered": self._oracle.answered, "unknown": self._oracle.unknown}
            self.answer(HTTPStatus.OK, {**counts, "unrecorded": unrecorded})
        else:
            self.refuse(HTTPStatus.NOT_FOUND, f"{self.path} is nothing; ask POST /tool, or GET /unrecorded")

    def post(self, body: bytes) -> None:
        """Answer a POST with this body."""
        if self.path.rstrip("/") != "/tool":
            self.refuse(HTTPStatus.NOT_FOUND, f"{self.path} is nothing; ask POST /tool")
            return
        try:
            found = _found(self._oracle, body)
        except (ValueError, RecursionError, ConfigurationError) as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        if isinstance(found, Unknown):
            self.answer(HTTPStatus.NOT_FOUND, {"error": str(found), **found.plain()})
        else:
            self.answer(HTTPStatus.OK, found.plain())

    @property
    def _oracle(self) -> ToolOracle:
        return cast("OracleServer", self.server).oracle


def _found(oracle: ToolOracle, body: bytes) -> Entry | Unknown:
    """Return the answer to the call in the body of a request.

    Raises `ValueError` if it doesn't have the form in the module's docstring, and `ConfigurationError` if the arguments
    have no canonical JSON.
    """
    asked = object_in(body)
    fields = asked if isinstance(asked, dict) else {}
    name, hashed, occurrence = fields.get("tool_name"), fields.get("args_hash"), fields.get("occurrence")
    if not isinstance(name, str) or ("args" in fields) == ("args_hash" in fields):
        raise ValueError('expected {"tool_name": "...", "args": {...}}, or "args_hash" in the place of "args"')
    if occurrence is not None and (type(occurrence) is not int or occurrence < 1):
        raise ValueError(f"expected an occurrence of 1 or more, found {occurrence!r}")
    if "args" in fields:
        return oracle.look_up(name, fields["args"], occurrence)
    if not is_hash(hashed):
        raise ValueError(f"expected an args_hash of 64 hex digits, found {hashed!r}")
    return oracle.look_up_hash(name, str(hashed), occurrence)
