"""A cassette, or two that are compared, as one page for a browser: everything is in the file, and no data leaves it.

The viewer is built from `packages/core/viewer`. Nothing that a stranger put into a cassette takes effect. The data is
ASCII JSON that can't end its element, and is parsed as data only; the page's policy lets the browser only run the one
script of the viewer and apply its one style sheet; and the viewer creates text, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, Interaction, Step
from agenttape_core.schema.plain import replaced
from agenttape_core.schema.readers import CallPiece
from agenttape_core.storage import Cassette
from agenttape_core.storage.writer import stored_records
from agenttape_core.tools.compare import Compared, Comparison
from agenttape_core.tools.prompt_cache.analysis import report_of
from agenttape_core.tools.reading.messages import Answer, pieces_of
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import MODELS, model_call
from agenttape_core.tools.reading.summary import Overview, cached_tokens, cost_of, model_of, overview_of, usage_of
from agenttape_core.tools.reading.timeline import CallTree, timeline_of

# -- The rows of the page's tree: the facts about each record that are known without its content.


# -- The lines of the page's tree: places that hold one thing only share the line of what they hold.


class Line(NamedTuple):
    """A line of the tree."""

    record: int | None  # the index of its record; None for a place that has none
    label: str  # the last part of its address; empty for a record at the address of an earlier one, such as an event
    within: str  # the places between it and the line above that hold no other lines
    depth: int  # the number of lines around it


def lines_of(tree: CallTree) -> list[Line]:
    """Return the lines of a tree, in its order."""
    lines: list[Line] = []
    waiting = [(place, 0) for place in reversed(tree.run.below)]
    while waiting:
        place, depth = waiting.pop()
        within: list[str] = []
        while place.record is None and len(place.below) == 1:
            within.append(place.label)
            place = place.below[0]
        lines.append(Line(place.record, place.label, "/".join(within), depth))
        waiting.extend((below, depth + 1) for below in reversed(place.below))
    return lines


# -- The short line beside each record in the page's tree.


_SHORT = 140
_LONG = 4 * _SHORT


def summary(record: Interaction | Step) -> str:
    """Return a record as one short line: its error, its answer, or its request and result."""
    if record.error is not None if isinstance(record, Step) else record.outcome.error is not None:
        error = record.error if isinstance(record, Step) else record.outcome.error
        assert error is not None
        return _line(f"{error.type.rpartition(':')[2]}: {error.message}")
    if isinstance(record, Step):
        return _line(_inline(record.data)) if record.kind == "event" and record.data is not None else ""
    if record.outcome.status == "cancelled":
        return " → ".join(["cancelled", *filter(None, [_line(_answered(Answer(record.outcome)))])])
    if record.outcome.status == "refused":
        return _line(f"refused → {record.outcome.value}")
    record = model_call(record)
    if record.kind in MODEL_KINDS:
        return _line(_answered(Answer(record.outcome)))
    given = record.request.get("arguments", record.request.get("input", record.request))
    value = record.outcome.value if record.kind != "embeddings" else None
    return " → ".join(filter(None, [_line(_inline(given)), _line(_inline(value)) if value is not None else ""]))


def _answered(answer: Answer) -> str:
    calls = [f"{call.name}({_inline(call.args)})" for call in answer.tool_calls]
    return " ".join(filter(None, [answer.text, *calls]))


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


RecordId = tuple[str, int]  # a record: `interaction` or `step`, and its number
Interval = tuple[float, float]  # a start, in milliseconds after the run's start, and a duration


@dataclass(slots=True)
class Pair:
    """A row of the tree: a record of the first run, of the other one, or of both."""

    what: str  # `interaction` or `step`
    kind: str
    address: str
    numbers: tuple[int | None, ...]  # its number in each run; None in one that lacks it
    state: str = ""  # its state in the comparison; empty if there is one run
    differences: list[dict[str, Any]] = field(default_factory=list)  # the places where the two differ, as plain data


def pairs_of(cassette: Cassette) -> list[Pair]:
    """Return the records of one run."""
    return [
        Pair("step" if isinstance(row, Step) else "interaction", row.kind, row.address, (row.number,))
        for row in cassette.rows()
    ]


def pairs_in(compared: Iterable[Compared]) -> list[Pair]:
    """Return the records of two runs, each with its counterpart."""
    return [
        Pair(
            found.what,
            found.kind,
            found.address,
            (found.first, found.other),
            found.state,
            found.to_dict()["differences"],
        )
        for found in compared
        if found.what != "header"
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """The facts about one of the runs."""

    facts: dict[RecordId, dict[str, Any]]  # the facts about each record
    times: dict[RecordId, Interval]  # the start and the duration of each record, in milliseconds
    has_starts: bool  # whether the start of every call was recorded


def run_of(cassette: Cassette, records: Sequence[Interaction | Step], prices: Prices) -> Run:
    """Return the facts about the records of a cassette. Raises `CassetteFormatError` if its timings are malformed."""
    timeline = timeline_of(cassette)
    times = {(row.word, row.number): (row.start_ms, row.duration_ms) for row in timeline.rows}
    facts = {_id(record): _facts(line, record, cassette, prices) for line, record in enumerate(records)}
    for call, broken in report_of([(cassette, "")], prices).breaks:
        text = f"prefix of call {broken.number} broken{broken.place}: {broken.why}"
        facts["interaction", call.number]["prefix"] = text
    return Run(facts, times, not timeline.guessed)


def page_rows(pairs: Sequence[Pair], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the rows of the tree as plain data."""
    lines = lines_of(CallTree(pairs))
    sides = [_sides(lines, pairs, run, which) for which, run in enumerate(runs)]
    return [
        {**_head(line, pairs), "sides": list(both)} for line, both in zip(lines, zip(*sides, strict=True), strict=True)
    ]


def _sides(lines: Sequence[Line], pairs: Sequence[Pair], run: Run, which: int) -> list[dict[str, Any] | None]:
    """Return the facts of each line about one run; None where the run has no such record."""
    records = [_record_on(line, pairs, which) for line in lines]
    intervals = _intervals(lines, [run.times.get(record) if record is not None else None for record in records])
    return [
        {**(run.facts[record] if record is not None else {}), "start": round(when[0], 1), "ms": round(when[1], 1)}
        if when is not None and (record is not None or line.record is None)
        else None
        for line, record, when in zip(lines, records, intervals, strict=True)
    ]


def _intervals(lines: Sequence[Line], known: Sequence[Interval | None]) -> list[Interval | None]:
    """Return the times of all lines: a place without a record spans the records below it, if there are any."""
    intervals: list[Interval | None] = [None] * len(lines)
    below: dict[int, Interval] = {}
    for index in range(len(lines) - 1, -1, -1):
        depth = lines[index].depth
        inner = below.pop(depth + 1, None)
        intervals[index] = whole = known[index] or inner
        if whole is not None:
            start, end = whole[0], whole[0] + whole[1]
            if (beside := below.get(depth)) is not None:
                start, end = min(start, beside[0]), max(end, sum(beside))
            below[depth] = start, end - start
    return intervals


def _head(line: Line, pairs: Sequence[Pair]) -> dict[str, Any]:
    head: dict[str, Any] = {"depth": line.depth, "label": line.label, "within": line.within}
    if line.record is None:
        return {"what": "place", "kind": "", **head}
    pair = pairs[line.record]
    row = {"what": pair.what, "kind": pair.kind, **head, "address": pair.address, "state": pair.state}
    return {**row, "differences": pair.differences} if pair.differences else row


def _record_on(line: Line, pairs: Sequence[Pair], which: int) -> RecordId | None:
    """Return the one run's record on a line."""
    if line.record is None or (number := pairs[line.record].numbers[which]) is None:
        return None
    return pairs[line.record].what, number


def _id(record: Interaction | Step) -> RecordId:
    return "step" if isinstance(record, Step) else "interaction", record.number


def _facts(line: int, record: Interaction | Step, cassette: Cassette, prices: Prices) -> dict[str, Any]:
    """Return the facts about a record that are not empty."""
    facts = {"line": line, "number": record.number, "name": record.name, "summary": summary(record)}
    more = _step_facts(record) if isinstance(record, Step) else _call_facts(record, cassette, prices)
    return facts | {key: value for key, value in more if value not in (None, "", "exact")}


def _step_facts(step: Step) -> Iterator[tuple[str, Any]]:
    yield "status", step.status if step.status != "ended" else None
    yield "fidelity", step.fidelity
    is_tick = step.kind == "checkpoint" and isinstance(step.data, dict) and "state" not in step.data
    told = step.kind in {"checkpoint", "interrupt"} and not is_tick
    yield "changes", True if told or step.output or step.input else None


def _call_facts(item: Interaction, cassette: Cassette, prices: Prices) -> Iterator[tuple[str, Any]]:
    outcome, timing = item.outcome, cassette.header.volatile.timings.get(item.number)
    is_told = outcome.status in {"cancelled", "refused"}
    yield "status", "failed" if outcome.error is not None else outcome.status if is_told else None
    yield "fidelity", item.fidelity
    yield "parent", item.parent
    if outcome.chunks is not None:
        yield "chunks", len(outcome.chunks)
        yield "first_chunk", timing.offsets_ms[0] if timing is not None and timing.offsets_ms else None
    item = model_call(item)
    if item.kind in MODELS:
        yield "model", model_of(item)
        yield "dollars", cost_of(item, prices)
        yield "cached_tokens", cached_tokens(item) or None
        if (usage := usage_of(item)) is not None:
            yield "input_tokens", usage.input_tokens
            yield "output_tokens", usage.output_tokens


__all__ = ["Listed", "is_page", "listing_of", "page_of"]


MARK = "<!doctype html>\n<!-- made by agenttape show -->\n"  # the beginning of each page that is made here
_EXACT = 2**53  # greater integers are not exact in a browser
_LONG_NUMBER = re.compile(r"\d{16}")
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_HIDDEN = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def is_page(text: str) -> bool:
    """Return True if a text is the beginning of a page that was made here."""
    return text.startswith(MARK)


def page_of(
    cassettes: Sequence[tuple[str, Cassette]],
    prices: Prices,
    comparison: Comparison | None = None,
    flow: Mapping[str, Any] | None = None,
) -> str:
    """Return the page. The same cassettes and prices give the same bytes.

    `comparison` is of the two cassettes, if there are two; `flow` has the edges between the calls of one, if replays
    have shown them. Raises `CassetteFormatError` if a record is malformed.
    """
    records = [tuple(cassette.records()) for _, cassette in cassettes]
    runs = [run_of(cassette, held, prices) for (_, cassette), held in zip(cassettes, records, strict=True)]
    compared = list(comparison) if comparison is not None else []
    pairs = pairs_of(cassettes[0][1]) if comparison is None else pairs_in(compared)
    index = {
        "runs": [
            {**_about(name, cassette, prices), "has_starts": run.has_starts}
            for (name, cassette), run in zip(cassettes, runs, strict=True)
        ],
        "rows": page_rows(pairs, runs),
        "comparison": _summary(comparison, compared) if comparison is not None else None,
        **({"flow": flow} if flow is not None else {}),
    }
    blocks = [("index", [_json(index)])]
    for number, ((_, cassette), held) in enumerate(zip(cassettes, records, strict=True)):
        blocks.append((f"records-{number}", list(_lines(cassette, held))))
    title = " and ".join(name for name, _ in cassettes)
    return _page(title, blocks)


def _about(name: str, cassette: Cassette, prices: Prices) -> dict[str, Any]:
    # With the key of the pseudonyms, anyone could try guesses at the secrets: it does not travel with a page.
    header = cassette.preface.model_dump(mode="json", exclude_defaults=True, exclude={"redaction": {"key"}})
    return {"file": name, "overview": overview_of(cassette, prices).to_dict(), "header": header}


def _summary(comparison: Comparison, compared: Sequence[Compared]) -> dict[str, Any]:
    divergence = comparison.first_divergence
    place = [divergence.what, divergence.first, divergence.other] if divergence is not None else None
    return {
        "identical": divergence is None,
        "counts": Counter(found.state for found in compared if found.what != "header"),
        "divergence": place,
        "header": [
            {"name": found.name, **difference}
            for found in compared
            if found.what == "header"
            for difference in found.to_dict()["differences"]
        ],
    }


def _lines(cassette: Cassette, records: Sequence[Interaction | Step]) -> Iterator[str]:
    """Yield each record in its stored form, with continued requests, and the times of its chunks and its answer."""
    timings = cassette.header.volatile.timings
    for record, stored in zip(records, stored_records(cassette.path, records), strict=True):
        if isinstance(record, Interaction):
            timing = timings.get(record.number)
            offsets = {"offsets_ms": timing.offsets_ms} if timing is not None and timing.offsets_ms else {}
            yield _json({**stored, **offsets, "read": readable(record)})
        else:
            yield _json(stored)


def readable(item: Interaction) -> dict[str, Any]:
    """Return the answer of a model as the page shows it; empty for any other call.

    `text` is its text and `calls` are its tool calls. For a stream, `pieces` has an item for each chunk: its text, or a
    list of texts and of pieces of tool calls, each with the `call` that it belongs to.
    """
    item = model_call(item)
    if item.kind not in MODEL_KINDS:
        return {}
    if item.outcome.chunks is not None:
        return {"pieces": [_piece(pieces_of(chunk)) for chunk in item.outcome.chunks]}
    answer = Answer(item.outcome)
    calls = [call._asdict() for call in answer.tool_calls]
    return {key: value for key, value in (("text", answer.text), ("calls", calls)) if value}


def _piece(pieces: Sequence[str | CallPiece]) -> str | list[Any]:
    if not pieces:
        return ""
    if len(pieces) == 1 and isinstance(pieces[0], str):
        return pieces[0]
    return [piece if isinstance(piece, str) else _without_none(piece._asdict()) for piece in pieces]


def _without_none(piece: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in piece.items() if value is not None}


def _json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    if _LONG_NUMBER.search(text):
        text = json.dumps(replaced(value, _great_integer), separators=(",", ":"))
    return text.translate(_ESCAPES)


def _great_integer(value: Any) -> Any:
    is_great = isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT
    return {"$integer": str(value)} if is_great else value


def _page(title: str, blocks: Iterable[tuple[str, Sequence[str]]]) -> str:
    script, styles = _asset("viewer.js"), _asset("viewer.css")
    policy = (
        f"default-src 'none'; script-src '{hash_of(script)}'; style-src '{hash_of(styles)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    data = "\n".join(_block(name, lines) for name, lines in blocks)
    body = f"""\
<noscript>This page needs the script that is in it. Let the browser run it, or use: agenttape show</noscript>
<div id="viewer"></div>
{data}
<script>{script}</script>"""
    return _html(title, policy, styles, body)


def _html(title: str, policy: str, styles: str, body: str) -> str:
    return f"""{MARK}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{html.escape(shown_safely(title))} · AgentTape</title>
<style>{styles}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _block(name: str, lines: Iterable[str]) -> str:
    return f'<script type="application/json" id="{name}">' + "\n".join(lines) + "</script>"


@lru_cache(2)
def _asset(name: str) -> str:
    return files("agenttape_core.tools.viewer").joinpath("assets", name).read_text(encoding="utf-8")


def shown_safely(text: str) -> str:
    """Return a text with its control characters, and those that change its direction, spelled out."""
    return _HIDDEN.sub(lambda char: char[0].encode("unicode_escape").decode("ascii"), text)


def hash_of(text: str) -> str:
    """Return the hash by which the policy of a page names a script or a style sheet of it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


# -- The page about a folder: all its cassettes in one table, each with a link to its own page. It needs no script.


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } p { opacity: .75; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35rem .7rem; text-align: left; border-bottom: 1px solid #8884; vertical-align: top; }
th { font-weight: 600; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.bad { color: #c62828; } a { color: inherit; }
"""
_COLUMNS = (("cassette", ""), ("recorded", ""), ("calls", "n"), ("tokens", "n"), ("money", "n"), ("models", ""))


@dataclass(frozen=True, slots=True)
class Listed:
    """A cassette in the table."""

    name: str  # its path from the folder
    page: str  # the path of its page, relative to the table; empty if it can't be read
    overview: Overview | None = None  # the facts about it; `None` if it cannot be read
    problem: str = ""  # the reason why it cannot be read


def listing_of(folder: str, cassettes: Sequence[Listed]) -> str:
    """Return the page. No text in a cassette takes effect in it."""
    policy = f"default-src 'none'; style-src '{hash_of(_STYLE)}'; img-src data:; base-uri 'none'; form-action 'none'"
    heads = "".join(f'<th class="{kind}">{name}</th>' if kind else f"<th>{name}</th>" for name, kind in _COLUMNS)
    rows = "\n".join(f"<tr>{_cells(one)}</tr>" for one in cassettes)
    body = f"""<h1>{html.escape(shown_safely(folder))}</h1>
<p>{_sums(cassettes)}</p>
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
    return _html(folder, policy, _STYLE, body)


def _cells(one: Listed) -> str:
    name = html.escape(shown_safely(one.name))
    if one.overview is None:
        width = len(_COLUMNS) - 1
        return f'<td>{name}</td><td class="bad" colspan="{width}">{html.escape(shown_safely(one.problem))}</td>'
    found = one.overview
    tokens = found.input_tokens + found.output_tokens
    numbers = (str(found.interactions), f"{tokens:,}" if tokens else "", _money(found))
    models = html.escape(shown_safely(", ".join(filter(None, found.models))))
    return (
        f'<td><a href="{html.escape(quote(one.page))}">{name}</a></td><td>{html.escape(found.created[:10])}</td>'
        + "".join(f'<td class="n">{number}</td>' for number in numbers)
        + f"<td>{models}</td>"
    )


def _money(found: Overview) -> str:
    return f"${found.dollars:.4f}" if found.dollars else ""


def _sums(cassettes: Sequence[Listed]) -> str:
    read = [one.overview for one in cassettes if one.overview is not None]
    tokens = sum(found.input_tokens + found.output_tokens for found in read)
    parts = [f"{len(cassettes)} cassettes", f"{sum(found.interactions for found in read)} calls", f"{tokens:,} tokens"]
    dollars = sum(found.dollars for found in read)
    return ", ".join([*parts, *([f"${dollars:.4f}"] if dollars else [])])
