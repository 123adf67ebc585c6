"""`agenttape ls`: a list of cassettes."""

from __future__ import annotations

from datetime import UTC, datetime

from agenttape_core.cli.app import CASSETTE, OK
from agenttape_core.cli.cassettes import Found, paths_argument, reading, runs_in
from agenttape_core.cli.output import cli_command, print_json, print_table, print_text, size_of
from agenttape_core.errors import CassetteError
from agenttape_core.settings import load_settings
from agenttape_core.tools.reading.prices import INSTALL, Prices, load_prices
from agenttape_core.tools.reading.summary import Overview, overview_of
from agenttape_core.tools.upkeep.age import age_of

_NUMBERS = frozenset({"age", "calls", "tokens", "money", "size"})
_HOUR, _DAY = 3600, 86400


@cli_command("agenttape ls tests")
@paths_argument
def ls(paths: tuple[str, ...], *, as_json: bool) -> int:
    """List cassettes with their age, calls, tokens, cost and size.

    A derived cassette is listed if you name it, and one that can't be read with the reason; then the exit code is 3.
    """
    prices = load_prices(load_settings().prices)
    rows, broken = [], []
    runs = {found.shown: found for found in runs_in(paths)}
    for each in reading(list(runs.values())):
        found = runs[each.shown]
        try:
            rows.append((found, overview_of(each.look(), prices)))
        except CassetteError as error:
            broken.append((found, str(error)))
    if as_json:
        print_json([*(_plain(*row) for row in rows), *({"path": f.shown, "problem": p} for f, p in broken)])
    else:
        columns = ("cassette", "age", "calls", "tokens", "money", "size", "read", "models")
        more = ("tags",) if any(overview.tags for _, overview in rows) else ()
        lines = [(*_cells(*row), *([", ".join(row[1].tags)] if more else [])) for row in rows]
        print_table((*columns, *more), lines, right=_NUMBERS)
        for _, problem in broken:
            print_text(problem, "red")
        tell_missing_prices(prices, sum(overview.unpriced for _, overview in rows))
    return CASSETTE if broken else OK


def _plain(found: Found, overview: Overview) -> dict[str, object]:
    status = found.path.stat() if found.path is not None else None
    read = datetime.fromtimestamp(status.st_atime, UTC).isoformat(timespec="seconds") if status is not None else None
    size = status.st_size if status is not None else found.file.size
    return {"path": found.shown, "size": size, "read": read, **overview.to_dict()}


def _cells(found: Found, overview: Overview) -> tuple[str, ...]:
    status = found.path.stat() if found.path is not None else None
    now = datetime.now(UTC)
    age = age_of(overview.created, now)
    tokens = overview.input_tokens + overview.output_tokens
    return (
        found.shown,
        ago(age.total_seconds()) if age is not None else "?",
        str(overview.interactions),
        f"{tokens:,}" if tokens else "",
        money(overview.dollars, overview.unpriced),
        size_of(size) if (size := status.st_size if status is not None else found.file.size) is not None else "",
        ago(now.timestamp() - status.st_atime) if status is not None else "",
        ", ".join(filter(None, overview.models)),
    )


def ago(seconds: float) -> str:
    """Return a time span in its largest unit, such as `3 d`, six columns wide."""
    if seconds < _HOUR:
        return f"{max(0, round(seconds / 60))} min".rjust(6)
    return (f"{round(seconds / _HOUR)} h" if seconds < _DAY else f"{round(seconds / _DAY)} d").rjust(6)


def tell_missing_prices(prices: Prices, unpriced: int) -> None:
    """Print how to see what calls cost, if there are calls of models and no prices at all."""
    if unpriced and not prices.are_there:
        print_text(INSTALL, "dim")


def money(dollars: float, unpriced: int) -> str:
    """Return a sum of money, marked if there are calls of models without a known price."""
    if not dollars:
        return "unknown" if unpriced else ""
    return f"${dollars:.4f}" + (" + unknown" if unpriced else "")
