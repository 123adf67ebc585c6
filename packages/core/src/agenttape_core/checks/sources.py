"""Runs made of what there is of them: sessions, fixtures, cassettes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from agenttape_core.checks.run import Call, Run, nowhere, run_of_turns, unchanged
from agenttape_core.checks.values import AsRecorded
from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor
from agenttape_core.schema import MODEL_KINDS, Interaction, Step, Timing
from agenttape_core.session import Session, runs
from agenttape_core.storage import Cassette
from agenttape_core.tools.compare import named_cassette
from agenttape_core.tools.prompt_cache.analysis import asked_at, cache_report, in_order
from agenttape_core.tools.prompt_cache.report import CacheReport
from agenttape_core.tools.reading.messages import Answer, bare, input_messages, joined
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reading.provider_calls import MODELS, model_call, path_of_model
from agenttape_core.tools.reading.summary import (
    Turn,
    conversation_of,
    cost_of,
    is_answer_of_run,
    model_of,
    turns_of,
    usage_of,
)

# -- Requests to models that a program makes over plain HTTP, and whose bodies say nothing of tokens.


_FAILED = 400


def was_billed(item: Interaction) -> bool:
    """Return True if a provider may have counted tokens for a call: it didn't fail before there was an answer.

    A call that was cancelled, or whose stream broke, may have cost something.
    """
    outcome = item.outcome
    if outcome.status in {"raised", "refused"}:
        return False
    head = outcome.chunks[0] if item.kind == "http" and outcome.chunks else outcome.value
    status = head.get("status") if isinstance(head, Mapping) else None
    return not (item.kind == "http" and isinstance(status, int) and status >= _FAILED)


_NO_STEPS = "the steps of a run are known under pytest, and when its recording has ended: check the cassette then"

_RESULTS = frozenset({"tool", "retrieval"})  # the kinds whose results are contexts of an answer
_NOTHING: Mapping[str, str] = {}

Record = tuple[Interaction | Step, Timing | None]


def run_of(source: Any, *, prices: Prices | None = None, shown: str | None = None) -> Run:
    """Return the run of a source.

    Args:
        source: A run, a session, the fixture `cassette`, an opened cassette, its path or its name.
        prices: The prices of tokens; by default the project's.
        shown: The file as messages show it.

    Raises:
        CassetteError: If the cassette cannot be read.
        ConfigurationError: If it is none of these.
    """
    if isinstance(source, Run):
        return source
    prices = prices or load_prices(project_settings().prices)
    session = getattr(source, "session", source)
    if isinstance(session, Session):
        return _of_session(session, prices, getattr(source, "in_places", None))
    if isinstance(source, Cassette | str | Path):
        cassette = named_cassette(source)
        return run_of_cassette(cassette, prices, shown)
    raise ConfigurationError(
        f"{type(source).__name__} isn't a run\n  expected a session, the fixture cassette, an open cassette or a path"
    )


def run_of_cassette(cassette: Cassette, prices: Prices, shown: str | None = None) -> Run:
    """Return the run that a cassette holds.

    `shown` is the file as messages show it, which is also the name of the run then. Raises `CassetteFormatError` if a
    record is malformed.
    """
    timings = cassette.header.volatile.timings
    records: list[Record] = [
        (record, timings.get(record.number) if isinstance(record, Interaction) else None)
        for record in cassette.records()
    ]

    def line(call: Call) -> int | None:
        assert call.number is not None
        return cassette.line_of_step(call.number) if call.is_step else cassette.line_of(call.number)

    path = shown if shown is not None else shown_path(cassette.path)
    names = (shown or cassette.preface.name or path, path)
    return made_of(names, records, prices, line=line, as_recorded=AsRecorded(partial(redactor_of, cassette)))


def _of_session(session: Session, prices: Prices, in_places: Callable[[Interaction], Interaction] | None) -> Run:
    """Return the run of a session so far; after a recording, of the cassette it wrote."""
    source = session.source
    if isinstance(source, Cassette) and session.closed and not session.report.replayed and in_places is None:
        return run_of_cassette(source, prices)
    taken = runs.taken(session)
    replayed = [each.record for each in taken if each.is_replayed and isinstance(each.record, Interaction)]
    numbers = {item.number for item in replayed if isinstance(source, Cassette)}
    records: list[Record] = [
        (
            in_places(one.record) if in_places is not None and isinstance(one.record, Interaction) else one.record,
            one.timing,
        )
        for one in taken
    ]

    def line(call: Call) -> int | None:
        assert isinstance(source, Cassette)
        return source.line_of(call.number) if call.number is not None else None

    def line_if_replayed(call: Call) -> int | None:
        return line(call) if not call.is_step and call.number in numbers else None

    path = shown_path(session.path)
    lacking = {} if session.ledger.watches_steps else {"steps": _NO_STEPS}
    names = (Path(path).name.partition(".")[0] or path, path)
    as_recorded = AsRecorded(lambda: session.redactor)
    return made_of(names, records, prices, line=line_if_replayed, lacking=lacking, as_recorded=as_recorded)


def made_of(
    names: tuple[str, str],
    records: Sequence[Record],
    prices: Prices,
    *,
    line: Callable[[Call], int | None] = nowhere,
    lacking: Mapping[str, str] = _NOTHING,
    as_recorded: Callable[..., Any] = unchanged,
) -> Run:
    """Return a run made of its records; several turns are combined, as in a trace.

    `names` are its name and its file; `lacking` has its unknown parts; `as_recorded` returns an expected value
    with pseudonyms instead of secrets.
    """
    seen = list(_seen(records))
    turns = turns_of(each.record for each in seen if isinstance(each.record, Interaction))
    cached = cache(lambda: _cache_report(records, prices))  # of the whole run: a turn reads what earlier ones sent
    made = partial(_part, prices=prices, cached=cached, line=line, lacking=lacking, as_recorded=as_recorded)
    if len(turns) <= 1:
        whole = made(names, seen, turns[0].prompt if turns else "")
        return replace(whole, turns=lambda: (whole,)) if turns and turns[0].last is not None else whole
    name, path = names
    parts = [
        replace(made((key, path), part, turn.prompt), key=key, whole_line=_first_line(part, line))
        for number, (turn, part) in enumerate(zip(turns, _by_turn(seen, turns), strict=True), 1)
        for key in [f"{name}#{number}"]
    ]
    return replace(run_of_turns(parts), name=name)


def _cache_report(records: Sequence[Record], prices: Prices) -> CacheReport:
    calls = [asked_at(record, timing) for record, timing in records if isinstance(record, Interaction)]
    return cache_report(in_order(calls), prices)


class _Seen(NamedTuple):
    """A record of a run, with what checks read of it."""

    record: Interaction | Step  # a request to a model over plain HTTP as the call of a model
    timing: Timing | None
    did: list[Call]
    asked: list[Call]
    is_of_model: bool


def _part(
    names: tuple[str, str],
    seen: Sequence[_Seen],
    prompt: str,
    *,
    prices: Prices,
    cached: Callable[[], CacheReport],
    line: Callable[[Call], int | None],
    lacking: Mapping[str, str],
    as_recorded: Callable[[Any], Any],
) -> Run:
    """Return a turn, or the only one."""
    calls = [(each.record, each) for each in seen if isinstance(each.record, Interaction)]
    models = [item for item, each in calls if each.is_of_model]
    billed = [(item, _tokens_of(item), cost_of(item, prices)) for item in models if was_billed(item)]
    prompted = {item.number: _name_of(item) for item, *_ in billed if item.kind != "embeddings"}
    outermost = [each.timing for item, each in calls if item.parent is None]
    took = [timing.duration_ms for timing in outermost if timing is not None]
    untimed = f"no time was recorded of {len(outermost) - len(took)} of {counted(len(outermost), 'call')}"
    last, at = next(((item, each.did[0].at) for item, each in reversed(calls) if is_answer_of_run(item)), (None, 0))
    answer = Answer(last.outcome) if last is not None else None
    name, path = names
    return Run(
        name=name,
        path=path,
        prompt=prompt,
        answer=answer.text if answer is not None else "",
        answered_at=at,
        happened=[call for each in seen for call in each.did],
        asked=[call for each in seen for call in each.asked],
        interactions=len(calls),
        tokens=sum(tokens for _, tokens, _ in billed if tokens is not None),
        uncounted=tuple(_name_of(item) for item, tokens, _ in billed if tokens is None),
        dollars=sum(cost for _, _, cost in billed if cost is not None),
        unpriced=tuple(_name_of(item) for item, _, cost in billed if cost is None),
        models=len(models),
        seconds=sum(took) / 1000,
        caching=lambda: cached().figures({item.number for item, _ in calls}, prompted),
        conversation=lambda: conversation_of(last),
        as_recorded=as_recorded,
        model=((model_of(last) or answer.model) if last is not None and answer is not None else None) or "",
        provider=(answer.provider if answer is not None else None) or "",
        lacking={**({"seconds": untimed} if len(took) < len(outermost) else {}), **lacking},
        line=line,
    )


def _first_line(seen: Sequence[_Seen], line: Callable[[Call], int | None]) -> int | None:
    """Return the line where the calls of a turn begin."""
    first = next((each for each in seen if isinstance(each.record, Interaction)), None)
    return line(first.did[0]) if first is not None else None


def _by_turn(seen: Sequence[_Seen], turns: Sequence[Turn]) -> list[list[_Seen]]:
    """Return the records of each turn. A step is of the turn in whose run it stands, or else of the next call's."""
    of_call = {item.number: at for at, turn in enumerate(turns) for item in turn.calls}
    of_run = {_outermost(item): at for at, turn in reversed(list(enumerate(turns))) for item in turn.calls}
    found: list[list[_Seen]] = [[] for _ in turns]
    following = max(len(turns) - 1, 0)
    for each in reversed(seen):
        record = each.record
        if isinstance(record, Interaction):
            following = at = of_call[record.number]
        else:
            at = of_run.get(_outermost(record), following)
        if turns:
            found[at].insert(0, each)
    return found


def _with_model_calls(records: Sequence[Record]) -> list[Record]:
    """Return records, with requests to models over plain HTTP as calls of models where their bodies can be read."""
    inside = {record.number for record, _ in records if isinstance(record, Interaction) and record.kind in MODELS}
    return [(record if isinstance(record, Step) else model_call(record, inside), timing) for record, timing in records]


def _models_among(items: Sequence[Interaction]) -> list[Interaction]:
    """Return the calls of models. A request over plain HTTP is one, unless it was made inside the call of a model."""
    inside = {item.number for item in items if item.kind in MODELS}
    return [item for item in items if item.kind in MODELS or (path_of_model(item) and item.parent not in inside)]


def _outermost(record: Interaction | Step) -> str:
    return record.address.partition("/")[0]


def _tokens_of(item: Interaction) -> int | None:
    """Return the tokens of a call of a model; `None` if its provider counted none."""
    usage = usage_of(item)
    if usage is None or usage.input_tokens is usage.output_tokens is None:
        return None
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _name_of(item: Interaction) -> str:
    return f"{item.name}{path_of_model(item)}"


def redactor_of(cassette: Cassette) -> Redactor | None:
    """Return the redactor of a session of a cassette; `None` without its rules or its key."""
    try:
        return redactor_for(cassette.path, cassette.preface, redact=True, settings=project_settings())
    except ConfigurationError:  # then an expected secret fits nothing, and so is a failure
        return None


def _seen(records: Sequence[Record]) -> Iterator[_Seen]:
    """Yield the records with their events. A tool that ran unrecorded comes where its model requested it."""
    originals, records = records, _with_model_calls(records)
    items = [record for record, _ in records if isinstance(record, Interaction)]
    made = {record.name for record, _ in records if record.kind == "tool"}
    models = {item.number for item in _models_among(items)}
    asked = [list(_asked(record)) for record, _ in records]
    answered = _answered(items) if any(call.name not in made for tools in asked for call, _ in tools) else set()
    places = count()
    for (record, timing), (original, _), tools in zip(records, originals, asked, strict=True):
        did = []
        if isinstance(original, Interaction):
            did = [_call(original), *(call for call, call_id in tools if call.name not in made and call_id in answered)]
        elif isinstance(record, Step) and record.kind in {"node", "tool", "interrupt"}:
            did = [Call(record.kind, record.name, number=record.number, address=record.address, is_step=True,
                        error=_said(record), data=_asked_at(record))]  # fmt: skip
        placed = [replace(call, at=at) for call, at in zip(did, places, strict=False)]
        is_of_model = isinstance(record, Interaction) and record.number in models
        yield _Seen(record, timing, placed, [replace(call, at=placed[0].at) for call, _ in tools], is_of_model)


def _asked_at(step: Step) -> Any:
    """Return the question of an interrupt: LangGraph's is an error of its node."""
    return step.data if step.kind == "interrupt" else step.error.args if step.error is not None else None


def _call(item: Interaction) -> Call:
    arguments = item.request.get("arguments", item.request) if item.kind == "tool" else None
    result = bare(joined(item.outcome)) if item.kind in _RESULTS else None
    return Call(item.kind, item.name, arguments, _error_of(item), item.number, item.address, result=result)


def _said(step: Step) -> str:
    return f"{step.error.type.rpartition(':')[2]}: {step.error.message}" if step.error is not None else ""


def _error_of(item: Interaction) -> str:
    error = item.outcome.error
    if error is not None:
        return f"{error.type.rpartition(':')[2]}: {error.message}"
    message = bare(item.outcome.value) if item.kind == "tool" else None
    if isinstance(message, dict) and (message.get("status") == "error" or message.get("is_error") is True):
        return f"returned an error: {message.get('content', '')}"
    return ""


def _asked(record: Interaction | Step) -> Iterator[tuple[Call, str]]:
    """Yield the tools that a call of a model requested, each with the id of the request."""
    if isinstance(record, Interaction) and record.kind in MODEL_KINDS:
        for message in Answer(record.outcome).messages:
            for part in message["parts"]:
                if part["type"] == "tool_call" and part["name"]:
                    call = Call("tool", part["name"], part["arguments"], "", record.number, record.address)
                    yield call, str(part.get("id") or "")


def _answered(items: Iterable[Interaction]) -> set[str]:
    """Return the ids of the requests for tools whose results a model has read."""
    return {
        str(part.get("id") or "")
        for item in items
        if item.kind in MODEL_KINDS
        for message in input_messages(item.request)
        for part in message["parts"]
        if part["type"] == "tool_call_response"
    }
