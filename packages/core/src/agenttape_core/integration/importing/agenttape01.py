"""Cassettes of the older distribution `agenttape` 0.1: YAML or JSON, version 1, with large values beside the file.

It records OpenAI's client and HTTP below frameworks, functions that it decorates, and callbacks of frameworks.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError, UnrecordableValueError
from agenttape_core.integration.importing.agenttape01_calls import import_call
from agenttape_core.integration.importing.agenttape01_traffic import exchange_of, from_base64
from agenttape_core.integration.importing.foreign_files import (
    expect_list,
    expect_mapping,
    malformed,
    parse_json,
    parse_yaml,
    read_source,
)
from agenttape_core.integration.importing.framework import Framework
from agenttape_core.integration.importing.http_exchanges import MAX_BODY_BYTES, Exchange
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.importing.traffic import Traffic, ignored_paths
from agenttape_core.lifecycle.imported import Graded, Importing, ImportReport
from agenttape_core.redaction import Rule

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
        return exchange_of(whole)
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
        loss = import_call(importing, item, framework)
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
            return from_base64(value[_BYTES], "a value in it")
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
