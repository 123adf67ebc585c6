"""Cassettes of the older distribution `agenttape` 0.1: YAML or JSON, version 1, with large values beside the file.

It records OpenAI's client and HTTP below frameworks, functions that it decorates, and callbacks of frameworks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from agenttape_core.errors import CassetteFormatError, UnrecordableValueError
from agenttape_core.integration.importing.foreign_files import (
    error_named,
    expect_list,
    expect_mapping,
    literal_arguments,
    malformed,
    parse_json,
    parse_yaml,
    read_source,
)
from agenttape_core.integration.importing.framework import Framework
from agenttape_core.integration.importing.http_exchanges import MAX_BODY_BYTES, Exchange, Headers
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.importing.traffic import Traffic, ignored_paths
from agenttape_core.lifecycle.imported import CallFacts, Graded, Importing, ImportReport
from agenttape_core.redaction import Rule
from agenttape_core.session import ExecutedCall

_ASSET, _BYTES = "__agenttape_asset__", "__agenttape_bytes__"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CALLS = frozenset({"tool", "retrieval"})
_KIND_OF = {"llm": "chat", "tool": "tool", "retrieval": "retrieval", "http": "http"}


def import_agenttape01(
    source: str | Path,
    target: str | Path,
    framework: Framework,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
) -> ImportReport:
    """Make a cassette of a cassette of the older distribution `agenttape` 0.1.

    Args:
        source: The file. Its folder of assets is read if the file refers to it.
        target: The cassette: a bare name under the cassette folder, or a path.
        framework: Makes the calls.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.

    Returns:
        The report, with a grade for each interaction.

    Raises:
        CassetteFormatError: If the source isn't such a cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    path = Path(source)
    cassette = _read(path)
    listed = expect_list(path, "interactions", cassette.get("interactions") or [])
    plain = [expect_mapping(path, f"interactions[{number}]", item) for number, item in enumerate(listed)]
    read = [_read_interaction(path, number, item) for number, item in enumerate(plain)]
    ignored = ignored_paths([item for item in read if isinstance(item, Exchange)])
    clock = _clock(cassette)
    with Importing(target, overwrite=overwrite, redact=redact, tags=tags, ignore=ignored, clock=clock) as importing:
        traffic = Traffic(importing, framework)
        items = [_imported(importing, traffic, framework, item) for item in read]
    return ImportReport(path, importing.path, tuple(items))


def _read(path: Path) -> dict[str, Any]:
    data = read_source(path)
    parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
    cassette = expect_mapping(path, "the top", parse(path, data))
    if str(cassette.get("version")) != "1" or "interactions" not in cassette:
        found = str(cassette.get("version"))[:40]
        problem = f"expected a cassette of agenttape 0.1, with version '1' and interactions; found version {found!r}"
        raise CassetteFormatError(path, problem, remedy="use the importer of the tool that wrote it")
    return cassette


def _clock(cassette: Mapping[str, Any]) -> float | None:
    """Return the time at which the clock of the recorded program was frozen, if it was."""
    meta = cassette.get("meta")
    freeze = meta.get("freeze") if isinstance(meta, dict) else None
    features = freeze.get("features") if isinstance(freeze, dict) else None
    if not isinstance(freeze, dict) or not isinstance(features, list) or "clock" not in features:
        return None
    time = freeze.get("base_time")
    return float(time) if isinstance(time, int | float) and math.isfinite(time) else None


def _read_interaction(path: Path, number: int, plain: dict[str, Any]) -> Exchange | dict[str, Any] | Graded:
    """Return an interaction, as an exchange if it is one; or the grade of one that cannot be read."""
    kind, where = plain.get("kind"), f"interactions[{number}]"
    if not isinstance(kind, str):
        raise malformed(path, f"{where}.kind", "a kind", kind)
    request = expect_mapping(path, f"{where}.request", plain.get("request") or {})
    named = request.get("endpoint") or plain.get("boundary") or request.get("name") or ""
    place, what = f"interaction {number}", f"{kind} {named}".strip()
    try:
        whole = {**plain, "place": place, "what": what}
        whole |= {key: _restored(path, plain.get(key)) for key in ("request", "response", "error")}
        if kind in _CALLS:
            return whole
        return _exchange_of(whole)
    except (NotImportableError, ValueError) as error:
        return Graded(place, what, "missing", str(error))


def _imported(
    importing: Importing, traffic: Traffic, framework: Framework, item: Exchange | dict[str, Any] | Graded
) -> Graded:
    if isinstance(item, Exchange):
        return traffic.take(item)
    if isinstance(item, Graded):
        importing.missing(_KIND_OF.get(item.what.partition(" ")[0], "memory"), f"{item.what}: {item.reason}")
        return item
    try:
        loss = _import_call(importing, item, framework)
    except (NotImportableError, UnrecordableValueError) as error:
        importing.missing(item["kind"], f"{item['what']}: {error}")
        return Graded(item["place"], item["what"], "missing", str(error))
    return Graded(item["place"], item["what"], "lossy" if loss else "exact", loss)


def _restored(path: Path, value: Any) -> Any:
    """Return a value together with the bytes and large texts that are written apart from it."""
    if isinstance(value, dict):
        if _ASSET in value:
            return _asset(path, value)
        if value.keys() == {_BYTES}:
            return _from_base64(value[_BYTES], "a value in it")
        return {key: _restored(path, item) for key, item in value.items()}
    return [_restored(path, item) for item in value] if isinstance(value, list) else value


def _asset(path: Path, reference: Mapping[str, Any]) -> Any:
    """Return the value of a reference. It names a file by its hash, so neither another nor a changed file is read."""
    digest = reference[_ASSET]
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise NotImportableError("its reference to a file next to it isn't a SHA-256 digest")
    file = path.with_name(f"{path.stem}.assets") / digest.replace(":", "-")
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BODY_BYTES + 1)
    except OSError as error:
        raise NotImportableError(f"{file.name} beside it cannot be read: {error.strerror}") from None
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
        raise NotImportableError(f"{file.name} beside it was changed: its hash differs")
    try:
        return data if reference.get("encoding") == "base64" else data.decode()
    except UnicodeDecodeError:
        raise NotImportableError(f"{file.name} beside it isn't text") from None


# Tools and retrievers that `agenttape` 0.1 recorded, as interactions.

_ERROR = "of its error, agenttape 0.1 kept the type, the message and few attributes"


def _import_call(importing: Importing, plain: Mapping[str, Any], framework: Framework) -> str:
    """Record a call of a tool or a retriever."""
    redacted = _REDACTED if _PLACEHOLDER in repr((plain["request"], plain["response"])) else ""
    error, loss = plain["error"], ""
    value: Any = None
    if isinstance(error, dict):
        loss = "" if _is_whole(error) else _ERROR
    elif plain["kind"] == "tool":
        value, loss = framework.tool_value(plain["response"])
    else:
        value, loss = framework.documents(plain["response"]), ""
    loss = "; ".join(filter(None, (redacted, loss)))
    session_call = _session_call(importing, plain, framework, value, loss)
    if isinstance(error, dict):
        attributes = error.get("attrs") if isinstance(error.get("attrs"), dict) else {}
        module, name = str(error.get("module")), str(error.get("type"))
        session_call.raised(error_named(module, name, str(error.get("message")), attributes))
    else:
        session_call.returned(value)
    return loss


def _session_call(
    importing: Importing, plain: Mapping[str, Any], framework: Framework, value: Any, loss: str
) -> ExecutedCall:
    request = plain["request"]
    listed = plain.get("tags")
    tags = [str(tag) for tag in listed] if isinstance(listed, list) else []
    facts = CallFacts(ids=framework.ids_of(value), tags=tags, duration_ms=_latency_of(plain), loss=loss)
    name = str(plain.get("boundary") or request.get("name") or plain["kind"])
    if plain["kind"] == "tool":
        boundary, body = framework.tool_request(name, _arguments(request))
    else:
        boundary, body = framework.retrieval_request(_query(request))
    return importing.session_call(boundary, name, body, facts)


def _arguments(request: Mapping[str, Any]) -> Any:
    """Return the arguments of a tool: by name from a decorated function, as Python's text of them from a callback."""
    if "args" in request:
        return request["args"]
    given = request.get("input")
    if given is None:
        raise NotImportableError("the arguments of the tool are not recorded")
    return literal_arguments(given) if isinstance(given, str) else given


def _query(request: Mapping[str, Any]) -> str:
    given = request.get("args", request)
    if isinstance(given, dict):
        texts = [value for value in given.values() if isinstance(value, str)]
        given = given.get("query", texts[0] if len(texts) == 1 else None)
    if not isinstance(given, str):
        raise NotImportableError("it is not recorded which of its arguments was the query")
    return given


def _is_whole(error: Mapping[str, Any]) -> bool:
    """Return whether an error is a built-in one that has only its message."""
    made = f"{error.get('type')}({error.get('message')!r})"
    return error.get("module") == "builtins" and error.get("repr") == made and not error.get("attrs")


# OpenAI's client and HTTP as `agenttape` 0.1 recorded them, as exchanges.

_PLACEHOLDER = "***REDACTED***"  # written by 0.1 instead of secrets
_REDACTED = f"agenttape 0.1 wrote {_PLACEHOLDER} over parts of it, which are lost"

_LONGEST = 1e12  # a longer duration, in milliseconds, is not to be believed

_PATHS = {"chat.completions": "/v1/chat/completions", "responses": "/v1/responses", "embeddings": "/v1/embeddings"}
_NO_BODY = "agenttape 0.1 kept no answer: it recorded the raw response that LangChain's client uses without its body"
_PROMPTS = "it is from a callback, which gave agenttape 0.1 the messages as one text, and no other part of the request"
_STATE = (
    "agenttape 0.1 kept the input and the last state of a graph, but no call inside it; a replay runs the graph itself"
)
_MEMORY = "it is a function that was decorated as memory, which no framework calls"


def _exchange_of(plain: Mapping[str, Any]) -> Exchange:
    """Return an interaction of the kind `llm` or `http` as an exchange."""
    kind, request = plain["kind"], plain["request"]
    if kind == "llm":
        if str(request.get("endpoint")) not in _PATHS:
            raise NotImportableError(_PROMPTS if "prompts" in request else "its endpoint is unknown")
        return _of_client(plain, request)
    if kind == "http":
        return _of_http(plain, request)
    raise NotImportableError(_STATE if plain.get("boundary") == "graph_state" else _MEMORY)


def _latency_of(plain: Mapping[str, Any]) -> float:
    """Return the duration of an interaction in milliseconds; 0 if it is not recorded."""
    latency = plain.get("latency_ms")
    return float(latency) if isinstance(latency, int | float) and 0 <= latency < _LONGEST else 0.0


def _of_client(plain: Mapping[str, Any], request: Mapping[str, Any]) -> Exchange:
    status, headers, answer = _outcome(plain)
    body = {key: value for key, value in request.items() if key != "endpoint"}
    redacted = _PLACEHOLDER in _json([body, answer]).decode()
    return Exchange(
        place=plain["place"],
        method="POST",
        url="https://api.openai.com" + _PATHS[request["endpoint"]],
        request_headers=(),
        request_body=_json(body),
        status=status,
        headers=headers,
        body=_json(answer),
        duration_ms=_latency_of(plain),
        doubt=_REDACTED if redacted else "",
    )


def _outcome(plain: Mapping[str, Any]) -> tuple[int, Headers, Any]:
    error, answer = plain.get("error"), plain.get("response")
    as_json = (("content-type", "application/json"),)
    if isinstance(error, dict):
        response = error.get("response") or {}
        status = response.get("status_code") if isinstance(response, dict) else None
        if type(status) is not int:
            raise NotImportableError(f"it failed without an answer: {str(error.get('type'))[:80]}")
        return status, _pairs(response.get("headers")) or as_json, {"error": error.get("body")}
    if not isinstance(answer, dict) or "http_response" in answer:
        raise NotImportableError(_NO_BODY)
    return 200, as_json, answer


def _of_http(plain: Mapping[str, Any], request: Mapping[str, Any]) -> Exchange:
    response = plain.get("response")
    if not isinstance(response, dict) or type(response.get("status_code")) is not int:
        raise NotImportableError("it failed without an answer")
    if not isinstance(request.get("url"), str):
        raise NotImportableError("its request has no URL")
    sent, answered = _body(request), _body(response)
    redacted = _PLACEHOLDER.encode() in sent + answered
    return Exchange(
        place=plain["place"],
        method=str(request.get("method")).upper(),
        url=request["url"],
        request_headers=_pairs(request.get("headers")),
        request_body=sent,
        status=response["status_code"],
        headers=_pairs(response.get("headers")),
        body=answered,
        duration_ms=_latency_of(plain),
        doubt=_REDACTED if redacted else "",
    )


def _pairs(headers: Any) -> Headers:
    if not isinstance(headers, dict):
        return ()
    listed = ((str(name).lower(), value if isinstance(value, list) else [value]) for name, value in headers.items())
    return tuple((name, str(value)) for name, values in listed for value in values)


def _body(side: Mapping[str, Any]) -> bytes:
    """Return a body: its bytes if they were kept, or else made of the data that it was parsed into."""
    for key in ("raw_b64", "body_b64"):
        if key in side:
            return _from_base64(side[key], "its body")
    if "json" in side:
        return _json(side["json"])
    if isinstance(side.get("form"), dict):
        return urlencode(side["form"], doseq=True).encode()
    text = side.get("text", side.get("content", ""))
    return text if isinstance(text, bytes) else str(text).encode()


def _from_base64(text: Any, what: str) -> bytes:
    """Return the bytes that a text holds."""
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise NotImportableError(f"{what} is not base64") from None


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        raise NotImportableError(f"it holds a value that isn't JSON: {error}") from None
