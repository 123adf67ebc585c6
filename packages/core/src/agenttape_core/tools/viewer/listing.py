"""The page about a folder: all its cassettes in one table, each with a link to its own page. It needs no script."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from agenttape_core.tools.reading.summary import Overview
from agenttape_core.tools.viewer.page import MARK, hash_of, shown_safely

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
    """A cassette in the table.

    Args:
        name: Its path from the folder.
        page: The path of its page from that of the table; empty if it cannot be read.
        overview: The facts about it; `None` if it cannot be read.
        problem: The reason why it cannot be read.
    """

    name: str
    page: str
    overview: Overview | None = None
    problem: str = ""


def listing_of(folder: str, cassettes: Sequence[Listed]) -> str:
    """Return the page. Nothing that stands in a cassette takes effect in it.

    Args:
        folder: The name of the folder.
        cassettes: Its cassettes, in their order.
    """
    policy = f"default-src 'none'; style-src '{hash_of(_STYLE)}'; img-src data:; base-uri 'none'; form-action 'none'"
    heads = "".join(f'<th class="{kind}">{name}</th>' if kind else f"<th>{name}</th>" for name, kind in _COLUMNS)
    rows = "\n".join(f"<tr>{_cells(one)}</tr>" for one in cassettes)
    title = html.escape(shown_safely(folder))
    return f"""{MARK}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title} · AgentTape</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{_sums(cassettes)}</p>
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


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
