"""Recorded answers of models in the wire format of a provider, for programs in any language, on this machine alone.

OpenAI: `POST /v1/chat/completions`, `/v1/responses` and `/v1/embeddings`, `GET /v1/models`. Anthropic: `POST
/v1/messages`. A request without a recording gets 409 in the provider's form, with the nearest recording. `GET
/unrecorded` counts the answered requests, and lists the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, cast

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.schema import PYTHON_VALUES, Outcome
from agenttape_core.tools.compare import named_cassette
from agenttape_core.tools.loopback import LoopbackHandler, LoopbackServer, object_in
from agenttape_core.tools.model_server import wire
from agenttape_core.tools.model_server.answers import (
    OnRepeat,
    RecordedAnswer,
    RecordedAnswers,
    UnknownRequest,
    answers_of,
    asked_in,
)
from agenttape_core.tools.reading.provider_calls import (
    MODELS,
    UNREADABLE,
    given_by,
    path_of_model,
    pieces_in,
    request_to_model,
    response_of,
)
from agenttape_core.transports.bodies import BodyReader

Provider = Literal["openai", "anthropic"]
RUN = "X-Agenttape-Run"
"""The header by which clients are told apart: each gets every recording once."""
_PATHS = {
    "openai": ("/chat/completions", "/responses", "/embeddings"),
    "anthropic": ("/messages",),
}
_MAX_CLIENTS = 1024
_NO_RETRY = {"x-should-retry": "false"}
"""The SDKs of OpenAI and Anthropic repeat requests that get 409, unless the response says otherwise."""


class ModelServer(LoopbackServer):
    """Serves recorded answers of models; as a context manager, in a separate thread.

    Args:
        answers: The recorded answers.
        provider: The provider whose wire format it speaks.
        port: The port; 0 for any that is free.
        pace: The recorded times of answers and of chunks are multiplied by this; 0 for no time.
    """

    def __init__(self, answers: RecordedAnswers, provider: Provider, port: int = 0, *, pace: float = 0.0) -> None:
        self.answers, self.provider, self.pace = answers, provider, pace
        super().__init__(_Handler, port, clients=_MAX_CLIENTS)

    @property
    def base_url(self) -> str:
        """The `base_url` for a client: OpenAI's ends with `/v1`, Anthropic's doesn't."""
        return f"{self.url}/v1" if self.provider == "openai" else self.url


class _Handler(LoopbackHandler):
    max_bytes = 32 * 1024 * 1024

    def get(self) -> None:
        """Answer a GET."""
        answers, path = self._server.answers, self._path
        if path == "/unrecorded":
            unrecorded = [unknown.plain() for unknown in answers.unrecorded]
            counts = {"answered": answers.answered, "unknown": answers.unknown}
            self.answer(HTTPStatus.OK, {**counts, "unrecorded": unrecorded})
        elif path == "/models":
            names = dict.fromkeys(str(answer.asked.get("model")) for answer in answers.answers)
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "recording"} for name in names]
            self.answer(HTTPStatus.OK, {"object": "list", "data": models})
        else:
            self.refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}; send POST to {', '.join(self._paths)}")

    def post(self, body: bytes) -> None:
        """Answer a POST with this body."""
        if self._path not in self._paths:
            self.refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}; send POST to {', '.join(self._paths)}")
            return
        try:
            given = dict(object_in(body))
            asked = asked_in(*request_to_model(self._path, given))
            found = self._server.answers.next(self.headers.get(RUN, ""), asked)
        except UNREADABLE as error:
            self.refuse(HTTPStatus.BAD_REQUEST, f"the request can't be read: {error}")
            return
        if isinstance(found, UnknownRequest):
            self._fail(HTTPStatus.CONFLICT, f"AgentTape: {found}", _NO_RETRY)
            return
        try:
            self._serve(found, given)
        except UNREADABLE as error:  # before the first byte
            self.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"the recording can't be read: {error}")

    def refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answer that a request is wrong, in the provider's form."""
        self._fail(status, problem)

    def _fail(self, status: int, problem: str, headers: Mapping[str, str] | None = None) -> None:
        self.answer(status, wire.problem(self._server.provider, status, problem), headers)

    def _serve(self, found: RecordedAnswer, given: Mapping[str, Any]) -> None:
        offsets, took = self._times(found)
        streamed, outcome = given.get("stream") is True, found.original.outcome
        path, error = path_of_model(found.original), outcome.error
        status, text = response_of(outcome) if path else (HTTPStatus.OK, "")
        is_same = path.removeprefix("/v1").endswith(self._path) and bool(outcome.chunks)
        if is_same and (_is_alike(found, given) or status >= HTTPStatus.BAD_REQUEST):
            self._replay(found, offsets)
        elif error is not None:
            failed = wire.status_of(error)
            self._wait(took)
            if failed is None or path:  # over HTTP, an error is the lack of a response
                self.close_connection = True
            else:
                self._fail(failed, error.message)
        elif status >= HTTPStatus.BAD_REQUEST:
            self._wait(took)
            self._fail(status, wire.said_wrong(text), _kept(_headers(outcome)))
        elif found.call.kind not in MODELS:
            raise TypeError("its answer has no known form, and is sent only to the program's own provider")
        elif streamed and self._path != "/embeddings":
            pieces = [each.encode() for each in self._events(found, given)]
            self._stream("text/event-stream", pieces, offsets or [took])
        else:
            self._wait(took)
            self.answer(HTTPStatus.OK, self._whole(found, given))

    def _whole(self, found: RecordedAnswer, given: Mapping[str, Any]) -> dict[str, Any]:
        model = str(given.get("model") or "")
        if self._path == "/embeddings":
            return wire.embeddings(found.call, model, as_base64=given.get("encoding_format") == "base64")
        made = {"/chat/completions": wire.chat_completion, "/responses": wire.response, "/messages": wire.message}
        return made[self._path](_said(found, model))

    def _events(self, found: RecordedAnswer, given: Mapping[str, Any]) -> Iterable[str]:
        said = _said(found, str(given.get("model") or ""))
        if self._path == "/responses":
            return wire.response_events(said)
        if self._path == "/messages":
            return wire.message_events(said)
        options = given.get("stream_options")
        return wire.chat_completion_events(
            said, with_usage=isinstance(options, Mapping) and options.get("include_usage") is True
        )

    def _replay(self, found: RecordedAnswer, offsets: Sequence[float]) -> None:
        """Answer with the recorded bytes of the same provider."""
        outcome = found.original.outcome
        chunks = list(outcome.chunks or ())[1:]
        if found.redactor is not None:
            chunks = list(found.redactor.rehydrate_chunks(chunks))
        headers = _headers(outcome)
        kind = headers.get("content-type", "application/json")
        reader = BodyReader(kind)
        pieces = [reader.data(chunk) for chunk in PYTHON_VALUES.decode(chunks)]
        self._stream(
            kind, pieces, offsets[1:], response_of(outcome)[0], _kept(headers), breaks=outcome.error is not None
        )

    def _stream(
        self,
        kind: str,
        pieces: Iterable[bytes],
        offsets: Sequence[float],
        status: int = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        *,
        breaks: bool = False,
    ) -> None:
        began = time.monotonic()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {}), "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        for at, piece in enumerate(pieces):
            if offsets:
                self._wait(offsets[min(at, len(offsets) - 1)] - (time.monotonic() - began))
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if breaks:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _times(self, found: RecordedAnswer) -> tuple[list[float], float]:
        """Return the seconds after which the chunks of an answer come, and the whole answer."""
        timing, pace = found.timing, self._server.pace / 1000
        if timing is None or not pace:
            return [], 0.0
        return [offset * pace for offset in timing.offsets_ms], timing.duration_ms * pace

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    @property
    def _path(self) -> str:
        return "/" + self.path.partition("?")[0].strip("/").removeprefix("v1").strip("/")

    @property
    def _paths(self) -> tuple[str, ...]:
        return _PATHS[self._server.provider]

    @property
    def _server(self) -> ModelServer:
        return cast("ModelServer", self.server)


def _said(found: RecordedAnswer, model: str) -> wire.Said:
    streamed = pieces_in(found.original.outcome) if path_of_model(found.original) else ()
    said = wire.said_in(found.call, model, streamed)
    if found.redactor is None:
        return said
    text, pieces, calls = found.redactor.rehydrate([said.text, said.pieces, [list(call) for call in said.calls]])
    return said._replace(text=text, pieces=pieces, calls=[tuple(call) for call in calls])


def _headers(outcome: Outcome) -> dict[str, str]:
    """Return the headers of a recorded response, by their names in lower case."""
    head = outcome.chunks[0] if outcome.chunks else outcome.value
    pairs = head.get("headers", ()) if isinstance(head, Mapping) else ()
    return {name.lower(): str(value) for pair in pairs for name, value in pair.items()}


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers by which clients repeat requests."""
    return {name: headers[name] for name in ("retry-after", "retry-after-ms", "x-should-retry") if name in headers}


def _is_alike(found: RecordedAnswer, given: Mapping[str, Any]) -> bool:
    """Return whether a request wants its answer in the form of the recording."""
    recorded = given_by(found.original.request)
    is_streamed = (given.get("stream") is True) is (recorded.get("stream") is True)
    return is_streamed and given.get("encoding_format") == recorded.get("encoding_format")


__all__ = ["ModelServer", "serve_models"]


def serve_models(
    *cassettes: str | Path,
    provider: Provider = "openai",
    port: int = 0,
    pace: float = 0.0,
    on_repeat: OnRepeat = "fail",
) -> ModelServer:
    """Return a server of the recorded answers of models; as a context manager, it answers in a thread.

    Args:
        cassettes: Bare names under the cassette folder, or paths.
        provider: The provider whose wire format it speaks: `openai` or `anthropic`.
        port: The port; 0 for any that is free.
        pace: The recorded times of answers and chunks are multiplied by this; 0 for no time.
        on_repeat: The answer to a request that a client makes more often than it was recorded.

    Raises:
        CassetteError: If there's no such cassette, or it can't be read.
        ConfigurationError: If none has a call of a model, or the port can't be used.
    """
    opened = [(cassette, shown_path(cassette.path)) for cassette in map(named_cassette, cassettes)]
    answers = answers_of(opened, on_repeat)
    if not answers.answers:
        raise ConfigurationError(
            f"{', '.join(shown for _, shown in opened)}: no call of a model is recorded\n"
            "  record one, or serve its tools without --as"
        )
    return ModelServer(answers, provider, port, pace=pace)
