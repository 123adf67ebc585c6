"""`agenttape stats`: sums over cassettes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from agenttape_core.cli.cassettes import found_in, paths_argument
from agenttape_core.cli.output import print_json, print_table, progress, verb
from agenttape_core.cli.verbs.ls import money, tell_missing_prices
from agenttape_core.settings import load_settings
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.reading.summary import Overview, overview_of

_CALLS = ("interactions", "steps", "raised", "cancelled", "streamed", "lossy")
_COUNTS = (*_CALLS, "input_tokens", "output_tokens", "unpriced")
_TABLES = ("kinds", "models", "tools")


@verb("agenttape stats cassettes/weather.yaml")
@paths_argument
def stats(paths: tuple[str, ...], *, as_json: bool) -> None:
    """Sum up cassettes: calls by kind, model and tool, errors, tokens, cost, time."""
    prices = load_prices(load_settings().prices)
    total = _sum([overview_of(found.open(), prices) for found in progress(found_in(paths), "reading")])
    if as_json:
        print_json(total)
        return
    rows = [("cassettes", str(total["cassettes"]))]
    rows += [(name.replace("_", " "), f"{total[name]:,}") for name in _COUNTS if total[name]]
    rows.append(("time", f"{total['seconds']:.1f} s"))
    rows.append(("money", money(total["dollars"], total["unpriced"]) or "nothing"))
    for table in _TABLES:
        rows += [(f"{table[:-1]} {name or 'unknown'}", str(count)) for name, count in total[table].items()]
    print_table(("what", "how much"), rows, right=frozenset({"how much"}))
    tell_missing_prices(prices, total["unpriced"])


def _sum(overviews: Sequence[Overview]) -> dict[str, Any]:
    total: dict[str, Any] = {"cassettes": len(overviews)}
    for name in (*_COUNTS, "dollars", "seconds"):
        total[name] = round(sum(getattr(overview, name) for overview in overviews), 6)
    for table in _TABLES:
        counted: Counter[str] = Counter()
        for overview in overviews:
            counted.update(getattr(overview, table))
        total[table] = dict(counted.most_common())
    return total
