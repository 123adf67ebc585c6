"""Cassettes of vcrpy, version 1: YAML or JSON, even compressed, even in the form of `langchain-tests`.

The form: https://vcrpy.readthedocs.io/. Bodies are text, bytes, or the result of a filter.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError
from agenttape_core.integration.importing.foreign_files import (
    expect_list,
    expect_mapping,
    malformed,
    parse_yaml,
    read_source,
)
from agenttape_core.integration.importing.framework import Framework
from agenttape_core.integration.importing.http_exchanges import Exchange, Headers, decoded
from agenttape_core.integration.importing.traffic import Traffic, graded, ignored_paths
from agenttape_core.lifecycle.imported import Graded, Importing, ImportReport
from agenttape_core.redaction import Rule


def import_vcr(
    source: str | Path,
    target: str | Path,
    framework: Framework,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
) -> ImportReport:
    """Make a cassette of a vcrpy cassette.

    Args:
        source: The file: YAML or JSON, also compressed by gzip.
        target: The cassette: a bare name under the cassette folder, or a path.
        framework: Makes the calls.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.

    Returns:
        The report, with a grade for each exchange.

    Raises:
        CassetteFormatError: If the source isn't a vcrpy cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    path = Path(source)
    read, unread = _exchanges(path)
    with Importing(target, overwrite=overwrite, redact=redact, tags=tags, ignore=ignored_paths(read)) as importing:
        items = [*graded(Traffic(importing, framework), read), *unread]
        for item in unread:
            importing.missing("http", f"{item.what}: {item.reason}")
    order = {f"interaction {number}": number for number in range(1, len(items) + 1)}
    return ImportReport(path, importing.path, tuple(sorted(items, key=lambda item: order[item.place])))


def _exchanges(path: Path) -> tuple[list[Exchange], list[Graded]]:
    """Return the exchanges of a file, and the grades of those that cannot be read."""
    pairs = _pairs(path, parse_yaml(path, read_source(path)))
    read: list[Exchange] = []
    unread: list[Graded] = []
    for number, (request, response) in enumerate(pairs, 1):
        place, where = f"interaction {number}", f"interactions[{number - 1}]"
        try:
            read.append(_exchange(path, place, where, request, response))
        except ValueError as error:
            what = f"{request.get('method')} {str(request.get('uri')).partition('?')[0]}"
            unread.append(Graded(place, what, "missing", str(error)))
    return read, unread


def _pairs(path: Path, data: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    if isinstance(data, list):
        problem = "it was written by vcrpy before 1.0"
        raise CassetteFormatError(path, problem, remedy="migrate it: python -m vcr.migration PATH")
    plain = expect_mapping(path, "the top", data)
    if "requests" in plain:  # as `langchain-tests` writes them
        requests = expect_list(path, "requests", plain["requests"])
        responses = expect_list(path, "responses", plain.get("responses"))
        if len(requests) != len(responses):
            problem = f"it has {len(requests)} requests, but {len(responses)} responses"
            raise CassetteFormatError(path, problem, remedy="restore it, or record it again")
        found = list(zip(requests, responses, strict=True))
    else:
        if plain.get("version", 1) != 1:
            problem = f"expected version 1 of vcrpy's format, found {str(plain['version'])[:40]!r}"
            raise CassetteFormatError(path, problem, remedy="record it with a version of vcrpy that writes version 1")
        listed = enumerate(expect_list(path, "interactions", plain.get("interactions")))
        both = [expect_mapping(path, f"interactions[{number}]", item) for number, item in listed]
        found = [(item.get("request"), item.get("response")) for item in both]
    return [
        (
            expect_mapping(path, f"interactions[{number}].request", request),
            expect_mapping(path, f"interactions[{number}].response", response),
        )
        for number, (request, response) in enumerate(found)
    ]


def _exchange(path: Path, place: str, where: str, request: dict[str, Any], response: dict[str, Any]) -> Exchange:
    """Return one exchange. Raises `CassetteFormatError` if it isn't vcrpy's, and `ValueError` for a bad body."""
    if not isinstance(request.get("uri"), str) or not isinstance(request.get("method"), str):
        raise malformed(path, f"{where}.request", "a method and a uri", request.get("uri"))
    sent, got = _headers(path, where, request), _headers(path, where, response)
    return Exchange(
        place=place,
        method=request["method"].upper(),
        url=request["uri"],
        request_headers=sent,
        request_body=decoded(_bytes(path, f"{where}.request.body", request.get("body")), dict(sent)),
        status=_status(path, where, response),
        headers=got,
        body=decoded(_bytes(path, f"{where}.response.body", _response_body(response)), dict(got)),
    )


def _status(path: Path, where: str, response: dict[str, Any]) -> int:
    status = response.get("status", response.get("status_code"))
    code = status.get("code") if isinstance(status, dict) else status
    if type(code) is not int:
        raise malformed(path, f"{where}.response.status", "a status code", code)
    return code


def _response_body(response: dict[str, Any]) -> Any:
    """Return the body: under `body`, or under `content` as some versions of vcrpy wrote it for httpx."""
    return response["content"] if "content" in response and "body" not in response else response.get("body")


def _bytes(path: Path, where: str, body: Any) -> bytes:
    if isinstance(body, dict) and body.keys() & {"string", "base64_string"}:
        if "base64_string" in body:
            return _from_base64(path, where, body["base64_string"])
        body = body["string"]
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, bytes):
        return body
    if isinstance(body, dict | list):  # parsed by a filter
        try:
            return json.dumps(body).encode()
        except (TypeError, ValueError):
            raise malformed(path, where, "text, bytes or JSON", body) from None
    raise malformed(path, where, "text, bytes or JSON", body)


def _from_base64(path: Path, where: str, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise malformed(path, where, "base64", text) from None


def _headers(path: Path, where: str, side: dict[str, Any]) -> Headers:
    plain = side.get("headers")
    if isinstance(plain, list):  # pairs
        pairs = [pair for pair in plain if isinstance(pair, list | tuple) and len(pair) == 2]  # noqa: PLR2004
    else:
        pairs = list(expect_mapping(path, f"{where}.headers", plain or {}).items())
    listed = ((str(name).lower(), value if isinstance(value, list) else [value]) for name, value in pairs)
    return tuple((name, _header(value)) for name, values in listed for value in values)


def _header(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
