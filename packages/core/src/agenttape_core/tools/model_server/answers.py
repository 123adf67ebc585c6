"""The recorded calls of models by their requests, whichever framework or provider they were recorded from."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from threading import Lock
from typing import Any, Literal

from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.matching import differences
from agenttape_core.redaction import Redactor
from agenttape_core.schema import MODEL_KINDS, Interaction, Timing
from agenttape_core.settings import Settings, load_settings
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import input_messages, items_of, system_instructions, tool_definitions
from agenttape_core.tools.reading.provider_calls import (
    MODELS,
    UNREADABLE,
    given_by,
    model_call,
    path_of_model,
    request_to_model,
)
from agenttape_core.tools.reading.summary import model_of

OnRepeat = Literal["fail", "last", "cycle"]
_MAX_RUNS = 10_000
"""The most clients whose place in the recording is kept: of the one that asked longest ago, it's forgotten."""
_MAX_KEPT = 100
"""The most requests without a recording that are kept."""
_MAX_TEXT = 500
_MAX_SHOWN = 5
_MAX_COMPARED = 16
"""The most recordings that an unknown request is compared with: those that share most of its messages."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A recorded call of a model."""

    shown: str  # its cassette, as messages show it
    original: Interaction  # as it is in the file
    call: Interaction  # the same as the call of a model
    timing: Timing | None
    asked: Mapping[str, Any]  # its request in the form of `asked_in`
    redactor: Redactor | None


@dataclass(frozen=True, slots=True)
class UnknownRequest:
    """A request that has no recording."""

    reason: str
    nearest: str = ""  # the recording that it resembles most: its cassette and its number
    differences: tuple[str, ...] = ()  # the differences to that, a line each

    def __str__(self) -> str:
        return "\n  ".join([self.reason, *([f"closest: {self.nearest}"] if self.nearest else []), *self.differences])

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"reason": self.reason, "nearest": self.nearest, "differences": list(self.differences)}


@dataclass(slots=True)
class RecordedAnswers:
    """Answers requests from recordings, each recording once for each client. Thread-safe."""

    answers: Sequence[RecordedAnswer]
    on_repeat: OnRepeat = "fail"
    answered: int = 0
    unknown: int = 0  # the number of requests without a recording
    unrecorded: list[UnknownRequest] = field(default_factory=list)  # the first hundred of these
    _by_key: dict[str, list[RecordedAnswer]] = field(default_factory=dict, init=False)
    _parts: dict[int, frozenset[str]] = field(default_factory=dict, init=False)  # by the identity of the answer
    _redactors: Sequence[Redactor | None] = field(default=(), init=False)
    _runs: OrderedDict[str, Counter[str]] = field(default_factory=OrderedDict, init=False)
    _lock: Any = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        for answer in self.answers:
            self._by_key.setdefault(_key(answer.asked), []).append(answer)
            self._parts[id(answer)] = _parts(answer.asked)
        self._redactors = list({id(answer.redactor): answer.redactor for answer in self.answers}.values())

    def next(self, run: str, asked: Mapping[str, Any]) -> RecordedAnswer | UnknownRequest:
        """Return the next answer to a request in the form of `asked_in`, or why there is none.

        Each client has a sequence.
        """
        recorded: list[RecordedAnswer] = []
        known: dict[int, Mapping[str, Any]] = {}  # the request with pseudonyms, by the redactor that made them
        for redactor in self._redactors:
            known[id(redactor)] = redactor.value(dict(asked)) if redactor is not None else asked
            alike = self._by_key.get(_key(known[id(redactor)]), ())
            recorded += [one for one in alike if one.redactor is redactor]
        if recorded:
            return self._of(run, _key(asked), recorded)
        unlike = self._unlike(known)
        with self._lock:
            return self._missing(unlike)

    def _of(self, run: str, key: str, recorded: Sequence[RecordedAnswer]) -> RecordedAnswer | UnknownRequest:
        with self._lock:
            taken = self._runs.setdefault(run, Counter())
            self._runs.move_to_end(run)
            if len(self._runs) > _MAX_RUNS:
                self._runs.popitem(last=False)
            at = taken[key]
            if at >= len(recorded) and self.on_repeat == "fail":
                times = "once" if len(recorded) == 1 else f"{len(recorded)} times"
                last = recorded[-1]
                return self._missing(
                    UnknownRequest(
                        f"this request was recorded {times}, and the client has had all its answers: send another "
                        "X-Agenttape-Run to begin again, or serve with --on-repeat last or cycle",
                        f"{last.shown} call {last.call.number}",
                    )
                )
            taken[key] += 1
            self.answered += 1
            return recorded[at % len(recorded) if self.on_repeat == "cycle" else min(at, len(recorded) - 1)]

    def _missing(self, unknown: UnknownRequest) -> UnknownRequest:
        self.unknown += 1
        if len(self.unrecorded) < _MAX_KEPT:
            self.unrecorded.append(unknown)
        return unknown

    def _unlike(self, known: Mapping[int, Mapping[str, Any]]) -> UnknownRequest:
        """Return the recording that is nearest to a request, which is given with the pseudonyms of each redactor."""
        pairs = [(answer, known[id(answer.redactor)]) for answer in self.answers]
        alike = [(answer, asked) for answer, asked in pairs if ("input" in answer.asked) is ("input" in asked)]
        if not alike:
            return UnknownRequest("no such call was recorded")
        if len(alike) > _MAX_COMPARED:
            parts = {id(redactor): _parts(known[id(redactor)]) for redactor in self._redactors}
            alike = nlargest(
                _MAX_COMPARED, alike, key=lambda pair: len(self._parts[id(pair[0])] & parts[id(pair[0].redactor)])
            )
        found = [(list(differences(dict(answer.asked), dict(asked))), answer) for answer, asked in alike]
        different, nearest = min(found, key=lambda each: len(each[0]))
        lines = (f"{one.path}: recorded {one.recorded}, asked {one.asked}"[:_MAX_TEXT] for one in different)
        shown = tuple(line for line, _ in zip(lines, range(_MAX_SHOWN), strict=False))
        return UnknownRequest("this request isn't recorded", f"{nearest.shown} call {nearest.call.number}", shown)


def answers_of(
    cassettes: Iterable[tuple[Cassette, str]], on_repeat: OnRepeat = "fail", settings: Settings | None = None
) -> RecordedAnswers:
    """Return the recorded answers of models in cassettes, each given with its file as messages show it.

    The settings have the redaction rules; by default, they are the working directory's. Raises `CassetteFormatError` if
    a record is malformed, and `ConfigurationError` if a recording was made with rules that the project does not have.
    """
    settings = settings or load_settings()
    return RecordedAnswers([one for each in cassettes for one in _answers_in(*each, settings)], on_repeat)


def _answers_in(cassette: Cassette, shown: str, settings: Settings) -> Iterator[RecordedAnswer]:
    redactor = redactor_for(cassette.path, cassette.preface, redact=True, settings=settings)
    timings = cassette.header.volatile.timings
    for item in cassette.interactions():
        call, path = model_call(item), path_of_model(item)
        if not (call.kind in MODELS or path) or item.outcome.status in {"cancelled", "refused"}:
            continue
        try:
            if call.kind in MODELS:
                asked = asked_in(call.kind, {**call.request, "model": model_of(call) or ""})
            else:  # an error, which a client gets as it was
                asked = asked_in(*request_to_model(path, given_by(item.request)))
        except UNREADABLE:  # no client can send it
            continue
        yield RecordedAnswer(shown, item, call, timings.get(item.number), asked, redactor)


# -- Requests in one form.


def asked_in(kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question of a call to a model, in one form for all frameworks and providers, with the model.

    Settings such as the temperature have other names in each, and ids of tool calls another form: neither counts.
    """
    model = {"model": request.get("model")}
    if kind not in MODEL_KINDS:
        given = request.get("input")
        return {**model, "input": given if isinstance(given, list) else [given]}
    system = "".join(_text(part) for part in system_instructions(request))
    messages: list[dict[str, Any]] = [{"role": "system", "text": system}] if system else []
    for message in input_messages(request):
        role = "system" if message["role"] == "developer" else message["role"]
        text = "".join(_text(part) for part in message["parts"])
        calls = [[part["name"], part["arguments"]] for part in message["parts"] if part["type"] == "tool_call"]
        more = [part for part in message["parts"] if part["type"] in {"blob", "uri", "file"}]
        last = messages[-1] if messages else {}
        if last.get("role") == role != "tool" and not (more or "more" in last):
            last["text"] += text  # providers join and split the messages of one role differently
            last.update(_given(calls=[*last.get("calls", ()), *calls]))
        else:
            messages.append({"role": role, "text": text, **_given(calls=calls, more=more)})
    tools = sorted((_tool(tool) for tool in tool_definitions(request)), key=lambda tool: str(tool["name"]))
    return {**model, "messages": messages, **_given(tools=tools)}


def _given(**lists: list[Any]) -> dict[str, Any]:
    return {name: each for name, each in lists.items() if each}


def _text(part: Mapping[str, Any]) -> str:
    if part["type"] == "tool_call_response":
        response = part["response"] if part["response"] is not None else ""
        texts = [block.get("text") for block in items_of(response) if isinstance(block, Mapping)]
        if texts and all(isinstance(text, str) for text in texts):
            return "".join(map(str, texts))
        return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False, sort_keys=True)
    return str(part.get("content", "")) if part["type"] == "text" else ""


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters") or tool.get("input_schema") or {}
    return {"name": tool.get("name"), "description": tool.get("description") or "", "parameters": parameters}


def _parts(asked: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of the parts of a request: its model, each of its messages or inputs, each of its tools."""
    lists = (each if isinstance(each, list) else [each] for each in asked.values())
    return frozenset(_key(part) for each in lists for part in each)


def _key(asked: Any) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
