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
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from agenttape_core.schema import MODEL_KINDS, Interaction, Step
from agenttape_core.schema.plain import replaced
from agenttape_core.schema.readers import CallPiece
from agenttape_core.storage import Cassette
from agenttape_core.storage.writer import stored_records
from agenttape_core.tools.compare import Compared, Comparison
from agenttape_core.tools.reading.messages import Answer, pieces_of
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import model_call
from agenttape_core.tools.reading.summary import Overview, overview_of
from agenttape_core.tools.viewer.rows import page_rows, pairs_in, pairs_of, run_of

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
