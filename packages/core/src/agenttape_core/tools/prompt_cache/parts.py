"""A request as a provider reads it from the front: tools, the schema of the answer, then messages, part by part."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.matching.difference import differing_words
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.reading.messages import items_of
from agenttape_core.tools.reading.provider_calls import given_by

_SCHEMAS = ("response_format", "output_schema", "text")
_SYSTEM = ("instructions", "system", "system_instruction", "systemInstruction")
_MESSAGES = ("messages", "input", "contents", "prompts", "prompt")
_CONTENTS = ("blocks", "content", "parts")
_TEXTS = ("text", "content", "thinking", "reasoning")
_MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint", "cache_point")
_MEDIA = re.compile(r"image|audio|video|file|document")
_CHARACTERS, _OVERHEAD, _MEDIUM = 4, 4, 800
"""Estimates: characters of a token, tokens of a part besides its text, tokens of an image or another file."""


class Part(NamedTuple):
    """One part of a request."""

    where: str  # its place in the request: `tools[1]`, `messages[0].content`
    group: str  # "tools", "schema", "system" or "messages"
    head: str  # what precedes its text: its role, the id of the call that it answers
    text: str  # its text, as far as it has one, or else JSON
    weight: float  # its estimated length in tokens
    mark: str | None = None  # the lifetime that a mark asks for, as `5m`; empty for one without, `None` without a mark

    @property
    def identity(self) -> tuple[str, str, str]:
        """The facts that have to be equal."""
        return "tools" if self.group == "tools" else "", self.head, self.text


def parts_of(request: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a request, of a framework or over HTTP, in the order in which providers read them."""
    body = given_by(request)
    parts = [part for at, tool in enumerate(items_of(body.get("tools"))) for part in _tool(f"tools[{at}]", tool)]
    parts += [_part(key, "schema", "", body[key]) for key in _SCHEMAS if isinstance(body.get(key), Mapping)]
    parts += [part for key in _SYSTEM if body.get(key) for part in _content(key, "system", "", body[key], None)]
    key = next((key for key in _MESSAGES if body.get(key)), "")
    messages = body.get(key)
    for at, message in enumerate(messages if isinstance(messages, list) else [messages] if messages else []):
        place = f"{key}[{at}]" if isinstance(messages, list) else key
        parts += _message(place, message)
    mark = _mark_in(body)
    return [*parts[:-1], parts[-1]._replace(mark=mark)] if parts and mark is not None else parts


def _tool(where: str, tool: Any) -> Iterator[Part]:
    yield _part(where, "tools", "", tool)


def _message(where: str, message: Any) -> Iterator[Part]:
    if not isinstance(message, Mapping):
        yield _part(where, "messages", "", message)
        return
    role = str(message.get("role") or message.get("type") or "user")
    named = {key: message[key] for key in ("name", "tool_call_id", "call_id") if message.get(key)}
    head = json.dumps({"role": role, **named}, ensure_ascii=False)
    key = next((key for key in _CONTENTS if message.get(key)), "")
    group = "system" if role in {"system", "developer"} else "messages"
    mark = _mark_in(message)
    extra = message.get("additional_kwargs")
    mark = _mark_in(extra) if mark is None and isinstance(extra, Mapping) else mark
    found = [*_content(f"{where}.{key}", group, head, message[key], mark)] if key else []
    calls = items_of(message.get("tool_calls"))
    found += [_part(f"{where}.tool_calls[{at}]", group, head, call) for at, call in enumerate(calls)]
    yield from found or [_part(where, group, head, {k: v for k, v in message.items() if k not in _MARKS})]


def _content(where: str, group: str, head: str, content: Any, mark: str | None) -> Iterator[Part]:
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):  # Google's
        content = content["parts"]
    if not isinstance(content, list):
        yield _part(where, group, head, content, mark)
        return
    found: list[Part] = []
    for at, block in enumerate(content):
        is_mark = isinstance(block, Mapping) and (block.get("block_type") == "cache" or block.keys() <= {*_MARKS})
        if is_mark and found:  # LlamaIndex and Bedrock mark what precedes the block
            found[-1] = found[-1]._replace(mark=_mark_in(block) or "")
        elif not is_mark:
            found.append(_part(f"{where}[{at}]", group, head, block))
    if mark is not None and found:
        found[-1] = found[-1]._replace(mark=mark)
    yield from found


def _part(where: str, group: str, head: str, value: Any, mark: str | None = None) -> Part:
    weight = None
    if isinstance(value, Mapping):
        mark = _mark_in(value) if mark is None else mark
        kind = str(value.get("type") or value.get("block_type") or "")
        weight = float(_MEDIUM) if _MEDIA.match(kind) else None
        rest = {key: item for key, item in value.items() if key not in {*_MARKS, "type", "block_type", "role"}}
        text = next((rest[key] for key in _TEXTS if isinstance(rest.get(key), str) and len(rest) == 1), None)
        value = {key: item for key, item in value.items() if key not in _MARKS} if text is None else text
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return Part(where, group, head, text, weight or len(text) / _CHARACTERS + _OVERHEAD, mark)


def _mark_in(value: Mapping[str, Any]) -> str | None:
    mark = next((value[key] for key in _MARKS if value.get(key)), None)
    if mark is None:
        return None
    return str(mark.get("ttl") or "") if isinstance(mark, Mapping) else ""


# -- What two requests share.


class Shared(NamedTuple):
    """The text that a request shares with an earlier one."""

    whole: int  # the number of parts that both begin with
    prefix: float  # the estimated tokens that both begin with, the start of the first part that differs included
    again: float  # the estimated tokens after the first difference that the earlier request had as well
    is_all: bool  # whether the request begins with all of the earlier one


def shared(before: Sequence[Part], now: Sequence[Part]) -> Shared:
    """Return what a request shares with an earlier one."""
    whole = next(
        (at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old.identity != new.identity),
        min(len(before), len(now)),
    )
    prefix = sum(part.weight for part in now[:whole])
    if whole in {len(before), len(now)}:
        return Shared(whole, prefix, 0.0, is_all=whole == len(before))
    old, new = before[whole], now[whole]
    left = Counter(part.identity for part in before[whole:])
    is_edit = new.identity not in left and all(part.identity != old.identity for part in now[whole:])
    again = 0.0
    for part in now[whole:]:
        if left[part.identity]:
            left[part.identity] -= 1
            again += part.weight
    if is_edit and (old.group, old.head) == (new.group, new.head):  # its beginning and its end may be as they were
        start, end = _ends(old.text, new.text)
        share = new.weight / max(len(new.text), 1)
        prefix, again = prefix + start * share, again + end * share
    return Shared(whole, prefix, again, is_all=False)


def _ends(old: str, new: str) -> tuple[int, int]:
    """Return how many characters two texts begin with, and how many others they end with."""
    most = min(len(old), len(new))
    start = bisect(range(1, most + 1), x=False, key=lambda length: old[:length] != new[:length])
    rest = range(1, most - start + 1)
    return start, bisect(rest, x=False, key=lambda length: old[-length:] != new[-length:])


# -- Why they differ.

TOOLS_IN_ANOTHER_ORDER = "the tools in another order"
PARTS_REMOVED = "parts before it were removed"
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\b1[5-9]\d{8}(?:\d{3})?\b"
    r"|\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|(?:mon|tues?|wed|wednes|thu|thurs|fri|sat|satur|sun)(?:day)?)\b",
    re.IGNORECASE,
)
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-|\b(?=[a-z]*\d)[0-9a-f]{8,}\b|\b[a-z]+[_-](?=\w*\d)\w{6,}\b|\d{6,}", re.IGNORECASE
)
_NUMBER = re.compile(r"[\d.,:/+-]+(?:st|nd|rd|th|am|pm|z|utc)?[.,;:)]*", re.IGNORECASE)


class Difference(NamedTuple):
    """The first difference between two requests."""

    where: str  # its place in the later request
    before: str  # the first words that differ, in the earlier request
    now: str  # the same in the later one


def difference(before: Sequence[Part], now: Sequence[Part], whole: int) -> tuple[str, Difference]:
    """Return what kind of thing differs first between two requests, and the difference.

    `whole` is the number of parts that both begin with; neither ends there.
    """
    old, new = before[whole], now[whole]
    words = differing_words(old.text, new.text) if old.text != new.text else (old.head, new.head)
    return _cause(before[whole:], now[whole:]), Difference(new.where, *words)


def _cause(before: Sequence[Part], now: Sequence[Part]) -> str:
    old, new = before[0], now[0]
    if "tools" in {old.group, new.group}:
        return _cause_of_tools(before, now)
    if "schema" in {old.group, new.group}:
        return "another schema for the answer"
    is_later = any(part.identity == old.identity for part in now[1:])
    was_earlier = any(part.identity == new.identity for part in before[1:])
    if is_later or was_earlier:
        moved = "parts were inserted before it" if is_later else PARTS_REMOVED
        return "the same parts in another order" if is_later and was_earlier else moved
    changed = set(old.text.split()) ^ set(new.text.split())
    whole = "another system prompt" if new.group == "system" else "another message"
    return _cause_in_words(changed) or whole


def _cause_in_words(changed: Collection[str]) -> str:
    """Return the kind of the words by which two texts differ; empty if it's none of those that change in each run."""
    dates, ids = (sum(bool(kind.search(word)) for word in changed) for kind in (_DATE, _ID))
    numbers = sum(bool(_NUMBER.fullmatch(word)) for word in changed)
    if dates and all(_DATE.search(word) or _NUMBER.fullmatch(word) for word in changed):
        return "a date or a time"
    if ids and ids == len(changed):
        return "an id"
    return "a number" if numbers and numbers == len(changed) else ""


def _cause_of_tools(before: Sequence[Part], now: Sequence[Part]) -> str:
    old, new = ([part for part in parts if part.group == "tools"] for parts in (before, now))
    if Counter(part.identity for part in old) == Counter(part.identity for part in new):
        return TOOLS_IN_ANOTHER_ORDER
    before_by, now_by = ({_name_of_tool(part): part.identity for part in parts} for parts in (old, new))
    gone, came = sorted(before_by.keys() - now_by.keys()), sorted(now_by.keys() - before_by.keys())
    if gone or came:
        said = [*(f"without {name}" for name in gone), *(f"with {name}" for name in came)]
        return f"other tools ({', '.join(said)})"
    changed = next((name for name, identity in now_by.items() if before_by[name] != identity), "")
    return f"another definition of the tool {changed}" if changed else "a tool is given twice"


def _name_of_tool(part: Part) -> str:
    try:
        tool = json.loads(part.text)
    except ValueError:
        return part.text[:40]
    inner = tool.get("function") if isinstance(tool, dict) else None
    return str((inner if isinstance(inner, dict) else tool if isinstance(tool, dict) else {}).get("name", part.where))
