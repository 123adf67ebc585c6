"""`agenttape stats`: sums over cassettes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from agenttape_core.cli.cassettes import found_in, paths_argument
from agenttape_core.cli.output import print_json, print_table, progress, verb
from agenttape_core.cli.verbs.ls import money, tell_missing_prices
from agenttape_core.settings import load_settings
from agenttape_core.tools.reading.groups import WAYS, Group, add_to
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reading.summary import Overview, overview_of

_CALLS = ("interactions", "steps", "raised", "cancelled", "streamed", "lossy")
_COUNTS = (*_CALLS, "input_tokens", "output_tokens", "unpriced")
_TABLES = ("kinds", "models", "tools")


@verb("agenttape stats cassettes/weather.yaml")
@paths_argument
@click.option("--by", type=click.Choice(WAYS), help="A line for each of these, with the time to the first chunk.")
def stats(paths: tuple[str, ...], *, by: str | None, as_json: bool) -> None:
    """Add up calls, errors, tokens, cost and time."""
    prices = load_prices(load_settings().prices)
    if by is not None:
        _print_groups(by, _groups(by, paths, prices), prices, as_json=as_json)
        return
    total = _sum([overview_of(found.look(), prices) for found in progress(found_in(paths), "reading")])
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


def _groups(by: str, paths: Sequence[str], prices: Prices) -> list[Group]:
    groups: dict[str, Group] = {}
    for found in progress(found_in(paths), "reading"):
        add_to(groups, by, found.look(), found.shown, prices)
    return list(groups.values())


def _print_groups(by: str, groups: Sequence[Group], prices: Prices, *, as_json: bool) -> None:
    if as_json:
        print_json({"by": by, "groups": [group.to_dict() for group in groups]})
        return
    numbers = ("calls", "failed", "tokens", "money", "time", "first", "first p95")
    rows = [
        (
            group.name or "-",
            f"{group.calls:,}",
            f"{group.failed:,}" if group.failed else "",
            f"{group.input_tokens + group.output_tokens:,}",
            money(group.dollars, group.unpriced),
            f"{group.seconds:.2f} s",
            *(f"{first:.0f} ms" if first is not None else "" for first in (group.ttft(0.5), group.ttft(0.95))),
        )
        for group in groups
    ]
    print_table((by, *numbers), rows, right=frozenset(numbers))
    tell_missing_prices(prices, sum(group.unpriced for group in groups))


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
