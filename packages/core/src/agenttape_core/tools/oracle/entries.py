"""The answers of tools, by name and arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import Interaction, Outcome
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.answer import bare, joined

EXTRA = "a tool oracle needs the canonical form of JSON\n  pip install 'agenttape-core[oracle]'"


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer of a tool.

    Args:
        tool_name: The tool.
        args_hash: The hash of its arguments; see `args_hash`.
        occurrence: Which of the calls with these arguments it answered, counted from 1.
        response: What the tool returned, as plain data; `None` if it raised.
        error: What it raised, as `{"type": ..., "message": ...}`; `None` if it returned.
        args: The arguments, where they are known; an oracle file does not hold them.
        source: The number of the interaction, or of the entry in its file.
    """

    tool_name: str
    args_hash: str
    occurrence: int
    response: Any = None
    error: Mapping[str, str] | None = None
    args: Any = None
    source: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the entry as it stands in an oracle file."""
        ended = {"response": self.response} if self.error is None else {"error": dict(self.error)}
        return {
            "tool_name": self.tool_name,
            "args_hash": self.args_hash,
            "occurrence": self.occurrence,
            **ended,
        }


def args_hash(args: Any) -> str:
    """Return the hash of the arguments of a tool: SHA-256, in hex, of their canonical JSON (RFC 8785).

    Args:
        args: The arguments as plain data, mostly a mapping by name.

    Raises:
        ConfigurationError: If they have no such form, as an integer beyond 2**53 or a NaN has none, or if the library
            for it is not installed.
    """
    try:
        import rfc8785
    except ModuleNotFoundError:
        raise ConfigurationError(EXTRA) from None
    try:
        return sha256(rfc8785.dumps(args)).hexdigest()
    except rfc8785.CanonicalizationError as error:
        raise ConfigurationError(
            f"arguments of a tool have no canonical JSON (RFC 8785): {error}\n"
            "  pass integers beyond 2**53 and numbers that are not finite as text"
        ) from None


def entries_of(cassette: Cassette) -> list[Entry]:
    """Return what the tools of a recording answered, in the order of the file.

    The arguments and answers are those of the cassette: secrets in them are pseudonyms. Calls that were cancelled, or
    refused, have no answer and are left out.

    Args:
        cassette: The recording.

    Raises:
        CassetteFormatError: If a record is malformed.
        ConfigurationError: If arguments have no canonical form.
    """
    seen, entries = Counter[tuple[str, str]](), []
    for item in cassette.interactions():
        if item.kind == "tool" and item.outcome.status in {"returned", "raised", "streamed"}:
            args = _arguments(item)
            hashed = args_hash(args)
            seen[item.name, hashed] += 1
            ended = _ended(item.outcome)
            entries.append(Entry(item.name, hashed, seen[item.name, hashed], **ended, args=args, source=item.number))
    return entries


def _arguments(item: Interaction) -> Any:
    for key in ("arguments", "args"):
        if key in item.request:
            return item.request[key]
    return item.request


def _ended(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is not None:
        return {"error": {"type": outcome.error.type, "message": outcome.error.message}}
    return {"response": _said(joined(outcome))}


def _said(value: Any) -> Any:
    """Return what a tool said: of a message or an output of a framework, its content."""
    inner = bare(value)
    if inner is value or not isinstance(inner, Mapping):
        return inner
    return _said(inner["content"]) if "content" in inner else dict(inner)
