"""Files of other tools, read as plain data: no part of them is executed or imported, and size and depth are bounded."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError, CassetteNotFoundError
from agenttape_core.format.limits import MAX_FOREIGN_BYTES, MAX_PACKED_RATIO
from agenttape_core.integration.importing.foreign_yaml import MalformedYamlError, load_yaml

MAX_BYTES = 256 * 1024 * 1024
"""Size of a foreign file in bytes, after decompression."""

_GZIP = b"\x1f\x8b"


def read_source(path: Path) -> bytes:
    """Return the content of a file, decompressed if its first bytes are gzip's, whatever its name.

    Raises:
        CassetteNotFoundError: If the file doesn't exist.
        CassetteFormatError: If it can't be read or decompressed, or is larger than `MAX_BYTES`, or than a packed file
            of its size may be.
    """
    limit = MAX_BYTES
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if data.startswith(_GZIP):
            limit = min(MAX_BYTES, max(MAX_FOREIGN_BYTES, len(data) * MAX_PACKED_RATIO))
            with gzip.open(path) as packed:
                data = packed.read(limit + 1)
    except FileNotFoundError:
        raise CassetteNotFoundError(path, "there is no such file to import", remedy="check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise CassetteFormatError(path, f"the file cannot be read: {error}", remedy="restore it") from error
    if len(data) > limit:
        problem = f"the file is larger than the limit of {limit} bytes{', unpacked' if limit < MAX_BYTES else ''}"
        raise CassetteFormatError(path, problem, remedy="split it, and import the parts")
    return data


def parse_yaml(path: Path, data: bytes) -> Any:
    """Return the one document of a YAML file. JSON is valid YAML.

    Raises:
        CassetteFormatError: If it isn't YAML, or has a tag for a Python object.
    """
    try:
        return load_yaml(_text(path, data))
    except MalformedYamlError as error:
        remedy = "nothing named in a foreign file is ever executed; export it again as plain data"
        raise CassetteFormatError(path, str(error), remedy=remedy, line=error.line) from None


def parse_json(path: Path, data: bytes) -> Any:
    """Return the value of a JSON file, or the list of the values of a file of JSON lines.

    Raises:
        CassetteFormatError: If it is neither.
    """
    text = _text(path, data)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) > 1 and _is_json(lines[0][1]):
            return [_json_line(path, number, line) for number, line in lines]
        raise CassetteFormatError(path, f"not JSON: {error}", line=getattr(error, "lineno", None)) from None


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json_line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CassetteFormatError(path, f"not JSON: {error}", line=number) from None


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CassetteFormatError(path, f"not UTF-8 text: {error.reason}", line=line) from None


def malformed(path: Path, where: str, expected: str, found: Any) -> CassetteFormatError:
    """Return the error for a file that does not conform to its format.

    Args:
        path: The file.
        where: The place in it: `interactions[2].request`.
        expected: The value that the format has there.
        found: The value that the file has there; the message has only its type, as it may be secret.
    """
    return CassetteFormatError(
        path,
        f"at {where}: expected {expected}, found {type(found).__name__}",
        remedy="import the file as the tool wrote it, and with the importer of that tool",
    )


def expect_mapping(path: Path, where: str, value: Any) -> dict[str, Any]:
    """Return a mapping with string keys.

    Raises:
        CassetteFormatError: If it is none.
    """
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise malformed(path, where, "a mapping", value)
    return value


def expect_list(path: Path, where: str, value: Any) -> list[Any]:
    """Return a list.

    Raises:
        CassetteFormatError: If it is none.
    """
    if not isinstance(value, list):
        raise malformed(path, where, "a list", value)
    return value
