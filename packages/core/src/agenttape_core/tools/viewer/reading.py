"""What a person reads of an outcome, whichever framework made it: a text, calls of tools, the pieces of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agenttape_core.schema import Interaction, Outcome, Step
from agenttape_core.tools.reading.answer import answer_text, mappings_in, tool_calls_of
from agenttape_core.tools.reading.summary import PRICED

_SHORT = 140
_LONG = 4 * _SHORT


def readable(item: Interaction) -> dict[str, Any]:
    """Return what a model said, as plain data; nothing for what is no model.

    `text` is its text and `calls` are the tools it asked for. Of a stream, `pieces` has an item for each chunk: its
    text, or a list of texts and of pieces of calls, each with the `call` that it belongs to.
    """
    if item.kind not in PRICED or item.kind == "embeddings":
        return {}
    if item.outcome.chunks is not None:
        return {"pieces": [_piece(chunk) for chunk in item.outcome.chunks]}
    calls = [{"name": name, "args": given} for name, given in tool_calls_of(item.outcome)]
    return {key: value for key, value in (("text", answer_text(item.outcome)), ("calls", calls)) if value}


def summary(record: Interaction | Step) -> str:
    """Return what a record says on one short line."""
    if record.error is not None if isinstance(record, Step) else record.outcome.error is not None:
        error = record.error if isinstance(record, Step) else record.outcome.error
        assert error is not None
        return _line(f"{error.type.rpartition(':')[2]}: {error.message}")
    if isinstance(record, Step):
        return _line(_inline(record.data)) if record.kind == "event" and record.data is not None else ""
    if record.kind in PRICED and record.kind != "embeddings":
        return _line(_answered(record))
    given = record.request.get("arguments", record.request.get("input", record.request))
    value = record.outcome.value if record.kind != "embeddings" else None
    return " → ".join(filter(None, [_line(_inline(given)), _line(_inline(value)) if value is not None else ""]))


def _answered(item: Interaction) -> str:
    if item.outcome.chunks is not None:
        parts = [part for chunk in item.outcome.chunks for part in _parts(chunk)]
        named = [f"{part['name']}(…)" for part in parts if isinstance(part, dict) and part.get("name")]
        return " ".join(filter(None, ["".join(part for part in parts if isinstance(part, str)), *named]))
    calls = [f"{name}({_inline(given)})" for name, given in tool_calls_of(item.outcome)]
    return " ".join(filter(None, [answer_text(item.outcome), *calls]))


def _inline(given: Any) -> str:
    """Return a value as a person would write it in a call, cut where it gets long."""
    if isinstance(given, dict):
        return _joined(f"{key}={_inline(value)}" for key, value in given.items())
    if isinstance(given, list):
        return f"[{_joined(map(_inline, given))}]"
    return given[:_SHORT] if isinstance(given, str) else str(given)


def _joined(texts: Iterator[str]) -> str:
    joined = ""
    for text in texts:
        joined = f"{joined}, {text}" if joined else text
        if len(joined) > _SHORT:
            break
    return joined


def _line(text: str) -> str:
    line = " ".join(text[:_LONG].split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"


def _piece(chunk: Any) -> Any:
    parts = list(_parts(chunk))
    if not parts:
        return ""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts


def _parts(chunk: Any) -> Iterator[Any]:
    if text := answer_text(Outcome(status="returned", value=chunk)):
        yield text
    body = _body(chunk)
    for place, call in enumerate(mappings_in(body.get("tool_call_chunks"))):  # LangChain's
        yield _call(call.get("index", place), call)
    message = _mapping(body.get("message"))
    for place, call in enumerate(mappings_in(message.get("tool_calls"))):
        yield _call(place, call)
    items = _within(body, "changes", "message", "$in", "tool_calls", "$items")  # LlamaIndex's
    for key, change in items.items():
        yield _call(key.lstrip("#"), _mapping(_mapping(change).get("$in")))


def _call(place: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a piece of a call of a tool: texts continue what was said of it before."""
    told = {key: call[key] for key in ("name", "id") if isinstance(call.get(key), str)}
    given = call.get("args")
    args = _inline(given) if isinstance(given, dict) and "$to" not in given else given
    args = _mapping(given).get("$to", args)
    return {"call": str(place), **told, **({"args": args} if isinstance(args, str) else {})}


def _body(value: Any) -> Mapping[str, Any]:
    """Return what stands under the name of a codec."""
    body = _mapping(value)
    while len(body) == 1 and next(iter(body)).startswith("$"):
        body = _mapping(next(iter(body.values())))
    return body


def _within(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = _mapping(value).get(key)
    return _mapping(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
