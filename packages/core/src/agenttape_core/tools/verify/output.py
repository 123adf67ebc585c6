"""What one replay produced, as plain data that can be compared."""

from __future__ import annotations

import hashlib
import json
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.schema import Plain
from agenttape_core.tools.verify.child_process import Ended

_MAX_TEXT = 1_000_000
"""Bytes of a file beyond which it is compared by its hash and shown as that."""


@dataclass(frozen=True, slots=True)
class Produced:
    """What one replay produced.

    Args:
        outcome: `returned`, `raised` with type and message, or how the process ended without saying either.
        failed: Whether the replay itself failed: an error of AgentTape, a crash, no end in time.
        value: The return value as plain data, or its repr.
        unencodable: The type of a return value that only has a repr.
        calls: What each call asked and what served it, and its fingerprint, by cassette and address.
        order: The addresses of the calls in each strand, strands in no order.
        sessions: What the sessions never asked for, missed and blocked.
        stdout: The standard output; bytes that are no UTF-8 are surrogates.
        stderr: The standard error, likewise.
        files: The files in the working directory by their names: their text, or hash and size.
        rules: The redaction rules of the sessions.
    """

    outcome: str
    failed: bool
    stdout: str
    stderr: str
    files: dict[str, str]
    value: Plain = None
    unencodable: str = ""
    calls: dict[str, list[str]] = field(default_factory=dict)
    order: list[list[str]] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)


def produced_by(ended: Ended, folder: Path | None, timeout: float) -> Produced:
    """Return what a child produced.

    Args:
        ended: How it ended.
        folder: Its working directory, if it is one of ours, whose files count.
        timeout: The seconds it had.
    """
    files = files_in(folder) if folder is not None else {}
    stdout, stderr = _text(ended.stdout), _text(ended.stderr)
    told = json.loads(ended.told) if ended.told else None
    if ended.code is None or told is None:
        outcome = (
            f"had not ended after {timeout:g} s" if ended.code is None else f"{_exit(ended.code)} without a result"
        )
        return Produced(outcome, failed=True, stdout=stdout, stderr=stderr, files=files)
    sessions = told["sessions"]
    names = _names(sessions)
    return Produced(
        told["outcome"],
        failed=told["failed"],
        stdout=stdout,
        stderr=stderr,
        files=files,
        value=told["value"],
        unencodable=told["type"],
        calls={
            f"{name}{at}": call for name, one in zip(names, sessions, strict=True) for at, call in one["calls"].items()
        },
        order=[
            [f"{name}{at}" for at in strand]
            for name, one in zip(names, sessions, strict=True)
            for strand in one["order"]
        ],
        sessions={
            f"{word} of {name or one['cassette']}": "\n".join(one[word])
            for name, one in zip(names, sessions, strict=True)
            for word in ("unused", "missed", "blocked")
        },
        rules=told["rules"],
    )


def unusable(ended: Ended) -> str | None:
    """Return why the child could not find the function, if it could not."""
    told = json.loads(ended.told) if ended.told else {}
    return told.get("unusable")


def _names(sessions: list[dict[str, Any]]) -> list[str]:
    """Return what tells the calls of several sessions apart; of a single one, nothing."""
    if len(sessions) == 1:
        return [""]
    return [f"{Path(one['cassette']).name} ({n}) " for n, one in enumerate(sessions, start=1)]


def _exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def files_in(folder: Path) -> dict[str, str]:
    """Return the files below a folder by their names: text, or hash and size; links are not followed."""
    return {path.relative_to(folder).as_posix(): _content(path) for path in sorted(folder.rglob("*"))}


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"(link to {path.readlink()})"
    if path.is_dir():
        return "(folder)"
    if not path.is_file():
        return "(no regular file)"
    if path.stat().st_size <= _MAX_TEXT:
        return _text(path.read_bytes())
    with path.open("rb") as file:
        return f"({path.stat().st_size} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()})"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
