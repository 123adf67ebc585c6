"""The output of one replay, as plain data that can be compared."""

from __future__ import annotations

import hashlib
import json
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agenttape_core.experiments.verify.child_process import ChildResult
from agenttape_core.schema import Plain

_MAX_TEXT = 1_000_000
"""Bytes of a file beyond which it is compared by its hash and shown as that."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one replay.

    Args:
        outcome: `returned`, `raised` with type and message, or how the process child without saying either.
        failed: Whether the replay itself failed: an error of AgentTape, a crash, no end in time.
        value: The return value as plain data, or its repr.
        calls: What each call asked and what served it, and its fingerprint, by cassette and address.
        order: The addresses of the calls in each branch, branches in no order.
        sessions: What the sessions never asked for, missed and blocked.
        stdout: The standard output; bytes that are no UTF-8 are surrogates.
        stderr: The standard error, as text.
        files: The files in the working directory by their names: their text, or hash and size.
        departures: Where the replay departs from its recording: what was recorded, and what there is now.
        nondeterminism: What the sessions say may not be as it was recorded, a line each: see `Report.nondeterminism`.
        entropy: The part of it that is no order.
        unobserved: What the handler that recorded them could not see, and what the sessions came to, a line each.
        rules: The redaction rules of the sessions.
        earlier: The outputs of the replays before it in its process, without what they printed and wrote.
        explored: The result of the exploration of other orders, as plain data, if there was one.
    """

    outcome: str
    failed: bool
    stdout: str
    stderr: str
    files: dict[str, str]
    value: Plain = None
    calls: dict[str, list[str]] = field(default_factory=dict)
    order: list[list[str]] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    departures: dict[str, list[str]] = field(default_factory=dict)
    nondeterminism: list[str] = field(default_factory=list)
    unobserved: list[str] = field(default_factory=list)
    entropy: list[str] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    earlier: list[Output] = field(default_factory=list)
    explored: dict[str, Any] = field(default_factory=dict)


def output_of(child: ChildResult, folder: Path | None, timeout: float) -> Output:
    """Return the output of a child.

    Args:
        child: The end of the child.
        folder: Its working directory, if it is one of ours, whose files count.
        timeout: The seconds it had.
    """
    files = files_in(folder) if folder is not None else {}
    stdout, stderr = _text(child.stdout), _text(child.stderr)
    report = json.loads(child.report) if child.report else None
    if child.code is None or report is None:
        outcome = (
            f"had not ended after {timeout:g} s" if child.code is None else f"{_exit(child.code)} without a result"
        )
        return Output(outcome, failed=True, stdout=stdout, stderr=stderr, files=files)
    said = Output("", failed=False, stdout=stdout, stderr=stderr, files=files)
    earlier = [_output(each, replace(said, stdout="", stderr="", files={})) for each in report["earlier"]]
    return replace(_output(report, said), earlier=earlier, explored=report.get("explored", {}))


def _output(report: dict[str, Any], said: Output) -> Output:
    sessions = report["sessions"]
    names = _names(sessions)
    return Output(
        report["outcome"],
        failed=report["failed"],
        stdout=said.stdout,
        stderr=said.stderr,
        files=said.files,
        value=report["value"],
        calls={
            f"{name}{at}": call for name, one in zip(names, sessions, strict=True) for at, call in one["calls"].items()
        },
        order=[
            [f"{name}{at}" for at in branch]
            for name, one in zip(names, sessions, strict=True)
            for branch in one["order"]
        ],
        sessions={
            f"{word} of {name or one['cassette']}": "\n".join(one[word])
            for name, one in zip(names, sessions, strict=True)
            for word in ("unused", "missed", "blocked")
        },
        departures={
            f"{what} of {name.strip()}" if name else what: pair
            for name, one in zip(names, sessions, strict=True)
            for what, pair in one["departures"].items()
        },
        nondeterminism=[
            f"{name}{line}" for name, one in zip(names, sessions, strict=True) for line in one["nondeterminism"]
        ],
        unobserved=[f"{name}{line}" for name, one in zip(names, sessions, strict=True) for line in one["unobserved"]],
        entropy=[f"{name}{line}" for name, one in zip(names, sessions, strict=True) for line in one["entropy"]],
        rules=report["rules"],
    )


def unusable(child: ChildResult) -> str | None:
    """Return why the child could not find the function, if it could not."""
    report = json.loads(child.report) if child.report else {}
    return report.get("unusable")


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
