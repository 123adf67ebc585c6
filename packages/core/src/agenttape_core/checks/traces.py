"""JSONL traces: a line for each prompt, `{prompt, response, model?, provider?, meta?}`, as the backend of checks.

A prompt is the key of its line, so each occurs once, and matches character for character.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from agenttape_core.checks.run import CACHE_FIGURES, FACTS, Call, Run, run_of_turns
from agenttape_core.checks.sources import redactor_of, run_of_cassette
from agenttape_core.checks.values import AsRecorded
from agenttape_core.errors import CassetteError, CassetteNotFoundError, TraceFormatError, counted, shown_path
from agenttape_core.redaction import Redactor
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.storage.files import read_bytes
from agenttape_core.storage.location import location_of
from agenttape_core.tools.prompt_cache.report import Caching
from agenttape_core.tools.reading.prices import Prices

_REQUIRED = ("prompt", "response")
_KEYS: dict[str, type] = {"prompt": str, "response": str, "model": str, "provider": str, "meta": dict}
_SAID: dict[type, str] = {str: "a text", dict: "an object"}
_ALIKE = 0.75
_MOST = 20
_FACTS = ("calls", "interactions", "steps", "tokens", "seconds", "dollars", *CACHE_FIGURES, "output")
"""The names of measures that are unknown for a run with missing turns."""


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A line of a trace."""

    line: int  # its number, 1-based
    prompt: str  # what was asked
    response: str  # what was answered
    model: str | None = None
    provider: str | None = None
    # Facts of its maker. Of these, checks read `tool_calls` (each with `name`, `arguments` and perhaps `error`),
    # `nodes`, `calls`, `tokens`, `seconds`, `dollars`, `uncached_tokens` and `cache_miss_dollars`. An export writes all
    # parts of a run, in the words of `Run`, including `happened`, which replaces `tool_calls` and `nodes` when read,
    # `messages`, `models`, `uncounted`, `unpriced`, `unjudged` and `lacking`.
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return its written form, without missing parts."""
        known = {"prompt": self.prompt, "response": self.response, "model": self.model, "provider": self.provider}
        return {
            **{key: value for key, value in known.items() if value is not None},
            **({"meta": dict(self.meta)} if self.meta else {}),
        }


def read_trace(path: Path | str) -> list[TraceLine]:
    """Read a trace, which may be packed (`.gz`, `.zst`).

    Raises `CassetteNotFoundError` if it is not there, and `TraceFormatError` if a line is malformed, or two have one
    prompt: all of them, with their lines.
    """
    if not Path(path).is_file():
        raise CassetteNotFoundError(path, "there is no such file")
    packed = str(path).endswith((".gz", ".zst"))
    return lines_of(read_bytes(location_of(path)) if packed else Path(path).read_bytes(), path)


def lines_of(data: bytes, path: Path | str) -> list[TraceLine]:
    """Return the lines of a trace. Raises as `read_trace` does. `data` is unpacked."""
    found: list[TraceLine] = []
    problems: list[tuple[int, str]] = []
    first: dict[str, int] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            read = _read(number, line)
        except ValueError as error:
            problems.append((number, str(error)))
            continue
        if read.prompt in first:
            problems.append((number, f"the prompt is already on line {first[read.prompt]}"))
        first.setdefault(read.prompt, number)
        found.append(read)
    if problems:
        _refuse(path, problems)
    if not found:
        raise TraceFormatError(path, "the trace holds no line")
    return found


def runs_of(lines: Iterable[TraceLine], path: str) -> list[Run]:
    """Return the runs of a trace: a line is one, or a turn of the cassette that it was exported from."""
    runs: list[list[TraceLine]] = []
    begun: dict[str, list[TraceLine]] = {}
    for line in lines:
        cassette = _cassette_of(line)
        if cassette is None:
            runs.append([line])
            continue
        turns = begun.get(cassette)
        if turns is None or any(line.meta["turn"] == other.meta["turn"] for other in turns):  # another of that name
            turns = begun[cassette] = []
            runs.append(turns)
        turns.append(line)
    return [_run_of(each, path) for each in runs]


def _cassette_of(line: TraceLine) -> str | None:
    """Return the cassette if a line is one of its several turns; `None` if it's a whole run."""
    cassette, turns = line.meta.get("cassette"), line.meta.get("turns")
    is_turn = isinstance(turns, int) and turns > 1 and isinstance(line.meta.get("turn"), int)
    return cassette if is_turn and isinstance(cassette, str) and _happened(line.meta) is not None else None


def _run_of(lines: Sequence[TraceLine], path: str) -> Run:
    if len(lines) == 1 and _cassette_of(lines[0]) is None:
        return _run_of_line(lines[0], path)
    lines = sorted(lines, key=lambda line: line.meta["turn"])
    turns = [_run_of_line(line, path) for line in lines]
    whole, held = run_of_turns(turns), lines[0].meta["turns"]
    missing = f"the trace holds {len(turns)} of its {held} turns" if len(turns) < held else ""
    facts = {key: value for key, value in whole.meta.items() if all(line.meta.get(key) == value for line in lines)}
    return replace(
        whole,
        name=turns[0].name,
        whole_line=turns[0].whole_line,
        key=turns[0].key,
        meta=facts,
        lacking={**whole.lacking, **dict.fromkeys(_FACTS if missing else (), missing)},
    )


def _run_of_line(line: TraceLine, path: str) -> Run:
    """Return the run of a line."""
    meta = line.meta
    happened = _happened(meta)
    calls = _calls(meta.get("tool_calls"))
    nodes = _texts(meta.get("nodes"))
    if happened is None:  # a line of another tool
        lacking = {
            **({"calls": "the line has no `meta.tool_calls`"} if calls is None else {}),
            **({"steps": "the line has no `meta.nodes`"} if nodes is None else {}),
        }
        happened = [*(Call("node", name, is_step=True) for name in nodes or ()), *(calls or ())], []
    else:
        lacking = {}
    figures = ("calls", "tokens", "seconds", "dollars", *CACHE_FIGURES)
    numbers = {key: _number(meta.get(key)) for key in figures}
    given = meta.get("unjudged")
    unjudged = {key: _texts(names) or [] for key, names in given.items()} if isinstance(given, Mapping) else {}
    caching = Caching(round(numbers["uncached_tokens"] or 0), numbers["cache_miss_dollars"] or 0.0, unjudged)
    for key, number in numbers.items():
        if number is None:
            said = known.get(key) if isinstance(known := meta.get("lacking"), Mapping) else None
            lacking[FACTS.get(key, key)] = said if isinstance(said, str) else f"`meta.{key}` of the line isn't a number"
    made, asked = happened
    return Run(
        name=f"{path}:{line.line}",
        path=path,
        prompt=line.prompt,
        answer=line.response,
        answered_at=round(_number(meta.get("answered_at")) or 0),
        happened=made,
        asked=asked,
        interactions=round(numbers["calls"] or 0),
        tokens=round(numbers["tokens"] or 0),
        uncounted=tuple(_texts(meta.get("uncounted")) or ()),
        seconds=numbers["seconds"] or 0.0,
        caching=lambda: caching,
        dollars=numbers["dollars"] or 0.0,
        unpriced=tuple(_texts(meta.get("unpriced")) or ()),
        models=round(_number(meta.get("models")) or 0),
        conversation=lambda: _conversation(line),
        as_recorded=AsRecorded(partial(_redactor_of, meta.get("cassette"))),
        model=line.model or "",
        provider=line.provider or "",
        meta=meta,
        lacking=lacking,
        line=lambda _: line.line,
        whole_line=line.line,
        key=f"{path}#{hashlib.sha256(line.prompt.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}",
    )


def _happened(meta: Mapping[str, Any]) -> tuple[list[Call], list[Call]] | None:
    """Return the events of a line's run, and the tools that models requested; `None` if it has no `happened`."""
    given = meta.get("happened")
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        return None
    asked = [
        _call({**tool, "at": each.get("at")})
        for each in given
        if isinstance(each.get("asked"), list)
        for tool in each["asked"]
    ]
    return list(map(_call, given)), asked


def _call(given: Mapping[str, Any]) -> Call:
    return Call(
        str(given.get("kind", "tool")),
        str(given.get("name", "")),
        given.get("arguments"),
        _said(given.get("error")),
        None,
        str(given.get("address", "")),
        given.get("is_step") is True,
        given.get("data"),
        given.get("result"),
        round(_number(given.get("at")) or 0),
    )


def _redactor_of(cassette: Any) -> Redactor | None:
    """Return what replaces secrets as in a line: the key is in the cassette that it was exported from.

    A trace doesn't hold it, as traces leave your machine. If the cassette is gone, texts with secrets stay unchanged.
    """
    try:
        return redactor_of(open_cassette(cassette)) if Path(cassette).is_file() else None
    except (CassetteError, TypeError, OSError, ValueError):
        return None


def _conversation(line: TraceLine) -> list[dict[str, Any]]:
    messages = line.meta.get("messages")
    if isinstance(messages, list) and all(isinstance(each, dict) for each in messages):
        return messages
    return [{"role": "user", "content": line.prompt}, {"role": "assistant", "content": line.response}]


def nearest_prompt(prompt: str, others: Iterable[str]) -> str | None:
    """Return the prompt that is most like another one."""
    alike = difflib.get_close_matches(prompt, list(others), n=1, cutoff=0.0)
    return alike[0] if alike else None


def _read(number: int, line: bytes) -> TraceLine:
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ValueError("no JSON that anybody wrote: it is nested too deeply") from None
    if problem := _problem_of(value):
        raise ValueError(problem)
    known = {key: value[key] for key in _KEYS if value.get(key) is not None}
    return TraceLine(number, **known)


def _problem_of(value: Any) -> str:
    """Return the reason why an object isn't a line of a trace; empty if it is one."""
    if not isinstance(value, dict):
        return f"expected an object, found {type(value).__name__}"
    if "agenttape" in value:
        return "this is a cassette, and no trace: name it as a PATH, without --trace"
    for key, kind in _KEYS.items():
        found = value.get(key)
        if key not in value and key in _REQUIRED:
            return f"`{key}` is missing"
        if not isinstance(found, kind) and (found is not None or key in _REQUIRED):
            return f"`{key}` is {_SAID[kind]}, found {type(found).__name__}"
    for key in value:
        alike = difflib.get_close_matches(key, _KEYS, n=1, cutoff=_ALIKE) if key not in _KEYS else []
        if alike:
            return f"unknown key `{key}`; did you mean `{alike[0]}`? Facts of your own belong into `meta`"
    return ""


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key in found if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key `{twice}` occurs twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"no JSON: {name}")


def _refuse(path: Path | str, problems: list[tuple[int, str]]) -> NoReturn:
    (line, first), *more = problems
    shown = [f"{shown_path(path)}:{number}: {problem}" for number, problem in more[:_MOST]]
    rest = [f"… and {counted(len(more) - _MOST, 'more line')}"] if len(more) > _MOST else []
    raise TraceFormatError(path, first, remedy="\n  ".join([*shown, *rest]), line=line)


def _calls(value: Any) -> list[Call] | None:
    if not isinstance(value, list):
        return None
    whole = [each for each in value if isinstance(each, Mapping) and isinstance(each.get("name"), str)]
    if len(whole) < len(value):
        return None
    return [Call("tool", each["name"], each.get("arguments"), _said(each.get("error"))) for each in whole]


def _said(error: Any) -> str:
    return error if isinstance(error, str) else "" if not error else json.dumps(error)


def _texts(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def trace_text(lines: Iterable[TraceLine]) -> Iterator[str]:
    """Yield the written lines of a trace, in ASCII and with keys in this order."""
    return (json.dumps(line.to_dict()) for line in lines)


# -- Lines of a JSONL trace, made of cassettes: one for each turn of a run.


def trace_of(cassette: Cassette, shown: str, prices: Prices) -> Iterator[TraceLine]:
    """Yield a line for each turn of a cassette that a model answered.

    `shown` is the file, as messages show it. Raises `CassetteFormatError` if a record is malformed.
    """
    turns = run_of_cassette(cassette, prices, shown).turns()
    for number, turn in enumerate(turns, 1):
        several = {"turns": len(turns), "answered_at": turn.answered_at} if len(turns) > 1 else {}
        yield _line(turn, {"cassette": shown, "turn": number, **several})


def without_twins(lines: Iterable[tuple[str, TraceLine]], target: str) -> Iterator[TraceLine]:
    """Yield lines; two with one prompt are refused, as a trace has one answer for each.

    The lines have the cassette and the turn that they are of; `target` is the file of the trace. Raises
    `TraceFormatError` if two have one prompt.
    """
    known: dict[str, str] = {}
    for place, line in lines:
        if line.prompt in known:
            raise TraceFormatError(
                target,
                f"a trace has one answer for each prompt, and {known[line.prompt]} and {place} have the same prompt",
                remedy="export fewer cassettes, or each to its own file",
            )
        known[line.prompt] = place
        yield line


def _line(run: Run, meta: dict[str, Any]) -> TraceLine:
    """Return a turn as a line, with all that checks read: rounded or left out, a check could pass here alone."""
    caching = run.caching()
    numbers = {"calls": run.interactions, "tokens": run.tokens, "seconds": run.seconds, "dollars": run.dollars,
               "uncached_tokens": caching.uncached_tokens,
               "cache_miss_dollars": caching.cache_miss_dollars}  # fmt: skip
    unjudged = {what: list(names) for what, names in caching.unjudged.items() if names}
    known = {fact: value for fact, value in numbers.items() if fact not in run.lacking}
    unknown = {"uncounted": list(run.uncounted), "unpriced": list(run.unpriced)}
    asked: dict[int | None, list[Call]] = {}
    for call in run.asked:
        asked.setdefault(call.number, []).append(call)
    happened = [{**_plain(call), **_asked_in(call, asked)} for call in run.happened]
    tools = [  # with `nodes`, for other libraries: what evaluators of theirs read; ours read `happened`
        {"name": call.name, "arguments": call.arguments, **({"error": call.error} if call.error else {})}
        for call in run.of_kind("tool")
    ]
    more = {
        **known,
        "tool_calls": tools,
        "nodes": [call.name for call in run.of_kind("node")],
        **({"lacking": dict(run.lacking)} if run.lacking else {}),
        "models": run.models,
        **({"unjudged": unjudged} if unjudged else {}),
        **{what: names for what, names in unknown.items() if names},
        "happened": happened,
        "messages": run.conversation(),
    }
    return TraceLine(0, run.prompt, run.answer, run.model or None, run.provider or None, {**meta, **more})


def _plain(call: Call) -> dict[str, Any]:
    facts = {
        "kind": call.kind,
        "name": call.name,
        "arguments": call.arguments,
        "error": call.error or None,
        "address": call.address or None,
        "is_step": call.is_step or None,
        "data": call.data,
        "result": call.result,
        "at": call.at or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _asked_in(call: Call, asked: dict[int | None, list[Call]]) -> dict[str, Any]:
    """Return the tools that a call of a model requested."""
    tools = asked.get(call.number, []) if not call.is_step and call.kind in MODEL_KINDS else []
    return {"asked": [_plain(tool) for tool in tools]} if tools else {}
