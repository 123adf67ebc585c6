"""`agenttape show`: a run as a tree, a timeline or a page for the browser; the sums of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len, set_cell_size
from rich.text import Text
from rich.tree import Tree

from agenttape_core.cli.cassettes import Found, found_one, paths_argument, reading, runs_in
from agenttape_core.cli.output import (
    cli_command,
    console,
    print_json,
    print_lines,
    print_table,
    print_text,
    print_tree,
    printable,
)
from agenttape_core.errors import CassetteNotFoundError, counted
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FAKED, MODEL_KINDS, Interaction, Step
from agenttape_core.settings import load_settings
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import Answer
from agenttape_core.tools.reading.provider_calls import model_call
from agenttape_core.tools.reading.summary import usage_of
from agenttape_core.tools.reading.timeline import LEFT_OUT, CallTree

if TYPE_CHECKING:
    from agenttape_core.tools.reading.prices import Prices
    from agenttape_core.tools.reading.summary import Group, Overview
    from agenttape_core.tools.reading.timeline import Row, Timeline

_WAYS = ("cassette", "thread", "turn", "agent", "node", "model", "tool")
_CALLS = ("interactions", "steps", "raised", "cancelled", "streamed", "lossy")
_COUNTS = (*_CALLS, "input_tokens", "cached_tokens", "output_tokens", "unpriced")
_TABLES = ("kinds", "models", "tools")
_BAR, _LABEL, _NUMBERS = 60, 44, 32
"""The greatest widths of a bar and a label, and the width of the numbers, in columns."""
_CALL, _STEP, _FIRST, _CHUNK = "━", "─", "◆", "•"
_LEGEND = f"{_CALL} a call   {_STEP} a step   {_FIRST} its first chunk   {_CHUNK} more chunks   ! it raised"


@cli_command("agenttape show cassettes/weather.yaml --call 2")
@paths_argument
@click.option("--call", type=int, metavar="N", help="Show one call in full.")
@click.option("--step", type=int, metavar="N", help="Show one step in full.")
@click.option("--timeline", is_flag=True, help="Show when each call ran, as bars on one scale.")
@click.option("--cache", is_flag=True, help="Show what the provider's prompt cache could read, and what broke it.")
@click.option("--stats", is_flag=True, help="Add up calls, errors, tokens, cost and time of all cassettes.")
@click.option("--by", type=click.Choice(_WAYS), help="With --stats: a line for each of these, with its first chunk.")
@click.option(
    "--html", metavar="FILE", help="Write a page for the browser: a file, a folder for many, or - for stdout."
)
@click.option("--open", "opens", is_flag=True, help="Open the page; without --html, it gets the name of the cassette.")
@click.option("--why", "program", metavar="TARGET", help="With a page: show which answers change which calls.")
@click.option("--text", metavar="TEXT", help="With --why: only what this text in an answer changes.")
def show(
    paths: tuple[str, ...],
    *,
    call: int | None,
    step: int | None,
    timeline: bool,
    cache: bool,
    stats: bool,
    by: str | None,
    html: str | None,
    opens: bool,
    program: str | None,
    text: str | None,
    as_json: bool,
) -> int | None:
    """Show a run: tree, timeline, statistics, or a page for the browser.

    A page shows one run, or two next to each other with their differences marked. For a folder with several cassettes,
    --html names a folder: index.html lists them all, and each has a page. A page needs no network and no server.

    With --why, the program is replayed as agenttape lab why does, and a click on a call shows which answers change it.
    """
    is_page = opens or html is not None
    if sum((call is not None, step is not None, timeline, cache, stats, is_page)) > 1:
        raise click.UsageError("--call, --step, --timeline, --cache, --stats and --html cannot be combined")
    if (by is not None and not stats) or (program is not None and not is_page) or (text is not None and not program):
        raise click.UsageError("--by needs --stats; --why needs --html or --open; --text needs --why")
    if is_page:
        from agenttape_core.cli.page import write_page

        return write_page(paths, html, program, text, opens=opens, as_json=as_json)
    if stats or cache:
        _show_stats(paths, by, as_json=as_json) if stats else _show_cache(paths, as_json=as_json)
        return None
    if len(paths) > 1:
        raise click.UsageError("name one cassette; --stats and --cache take several, and --html two")
    found = found_one(*(paths or (".",)))
    if timeline:
        _show_timeline(found, as_json=as_json)
    elif call is not None or step is not None:
        plain = _record(found.look(), call, step).model_dump(mode="json", exclude_defaults=True)
        print_json(plain) if as_json else print_text(dump_mapping(plain))
    elif as_json:
        _print_all(found.look())
    else:
        show_tree(found.look())
    return None


def _record(cassette: Cassette, call: int | None, step: int | None) -> Interaction | Step:
    try:
        return cassette.interaction(call) if call is not None else cassette.step(step or 0)
    except KeyError:
        word = f"call {call}" if call is not None else f"step {step}"
        remedy = "run the command without the option to see all records"
        raise CassetteNotFoundError(cassette.path, f"it has no {word}", remedy=remedy) from None


def _print_all(cassette: Cassette) -> None:
    records = [record.model_dump(mode="json", exclude_defaults=True) for record in cassette.records()]
    # With the key of the pseudonyms, anyone could try guesses at the secrets: it stays in the file.
    header = cassette.header.model_dump(mode="json", exclude_defaults=True, exclude={"redaction": {"key"}})
    print_json({"header": header, "records": records})


def _show_stats(paths: Sequence[str], by: str | None, *, as_json: bool) -> None:
    from agenttape_core.cli.commands.ls import money, tell_missing_prices
    from agenttape_core.tools.reading.prices import load_prices
    from agenttape_core.tools.reading.summary import overview_of

    prices = load_prices(load_settings().prices)
    if by is not None:
        _print_groups(by, _groups(by, paths, prices), prices, as_json=as_json)
        return
    cassettes = reading(runs_in(paths))
    total = _sum([overview_of(found.look(), prices, with_cached=True) for found in cassettes])
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
    from agenttape_core.tools.reading.summary import add_to

    groups: dict[str, Group] = {}
    for found in reading(runs_in(paths)):
        add_to(groups, by, found.look(), found.shown, prices)
    return list(groups.values())


def _print_groups(by: str, groups: Sequence[Group], prices: Prices, *, as_json: bool) -> None:
    from agenttape_core.cli.commands.ls import money, tell_missing_prices

    if as_json:
        print_json({"by": by, "groups": [group.to_dict() for group in groups]})
        return
    numbers = ("calls", "failed", "tokens", "cached", "money", "time", "first", "first p95")
    rows = [
        (
            group.name or "-",
            f"{group.calls:,}",
            f"{group.failed:,}" if group.failed else "",
            f"{group.input_tokens + group.output_tokens:,}",
            f"{group.cached_tokens:,}" if group.cached_tokens else "",
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


def _show_cache(paths: Sequence[str], *, as_json: bool) -> None:
    from agenttape_core.tools.prompt_cache.analysis import report_of
    from agenttape_core.tools.reading.prices import load_prices

    cassettes = [(found.look(), found.shown) for found in reading(runs_in(paths))]
    report = report_of(cassettes, load_prices(load_settings().prices))
    if as_json:
        print_json(report.to_dict())
        return
    several = len(cassettes) > 1
    rows = [
        (
            (f"{call.run} " if several else "") + f"{call.number} {call.address}",
            call.model,
            _estimated(call.input_tokens, is_counted=call.is_counted),
            "" if call.unknown else _estimated(call.possible, is_counted=False),
            "" if call.read is None else f"{call.read:,}",
            "" if call.broken is None else _estimated(call.broken.tokens, is_counted=False),
        )
        for call in report.calls
    ]
    numbers = ("input", "in the cache", "read from it", "read again")
    print_table(("call", "model", *numbers), rows, right=frozenset(numbers))
    print_lines([(line, "") for line in report.lines()])


def _estimated(tokens: int, *, is_counted: bool) -> str:
    return f"{'' if is_counted or not tokens else '~'}{tokens:,}"


def _show_timeline(cassette: Found, *, as_json: bool) -> None:
    from agenttape_core.tools.reading.timeline import LEFT_OUT, timeline_of

    found = timeline_of(cassette.look())
    if as_json:
        print_json({"path": cassette.shown, **found.to_dict()})
        return
    columns = max(_NUMBERS, console().width - _NUMBERS)
    widest, width = min(_LABEL, columns // 2), min(_BAR, columns // 2)
    rows = [row for row in found.rows if row.kind not in LEFT_OUT]
    labels = [_label(row, widest) for row in rows]
    label = max(map(cell_len, labels), default=0)
    # Not a table of rich, which measures each cell again and again: here all widths are known.
    lines = [(_row_of(("call", "start", "took", "first", f"0 … {_ms(found.total_ms)}"), label), "bold")]
    for row, name in zip(rows, labels, strict=True):
        first = _ms(row.chunks_ms[0]) if row.chunks_ms else ""
        start = f"{'' if row.is_measured else '~'}{_ms(row.start_ms)}"
        cells = (name, start, _ms(row.duration_ms), first, bar_of(row, found.total_ms, width))
        lines.append((_row_of(cells, label), "red" if row.has_failed else "" if row.word == "interaction" else "dim"))
    lines += [(line, "dim") for line in (_LEGEND, *_summary(found))]
    print_lines(lines)


def _row_of(cells: Sequence[str], label: int) -> str:
    name, start, took, first, bar = cells
    return f"{set_cell_size(name, label)}  {start:>8}  {took:>8}  {first:>8}  {bar}".rstrip()


def bar_of(row: Row, total_ms: float, width: int) -> str:
    """Return the bar of a row. The whole width represents `total_ms`."""
    cells = [" "] * width
    first, last = _column(row.start_ms, total_ms, width), _column(row.end_ms, total_ms, width)
    cells[first : last + 1] = [_CALL if row.word == "interaction" else _STEP] * (last + 1 - first)
    for place, offset in reversed(list(enumerate(row.chunks_ms))):
        cells[_column(row.start_ms + offset, total_ms, width)] = _CHUNK if place else _FIRST
    return "".join(cells).rstrip()


def _column(ms: float, total_ms: float, width: int) -> int:
    return min(width - 1, max(0, int(ms / total_ms * width))) if total_ms else 0


def _label(row: Row, width: int) -> str:
    number = f"{row.number} " if row.word == "interaction" else ""
    text = f"{'  ' * row.depth}{number}{row.kind} {row.label}" + (" !" if row.has_failed else "")
    text = printable(text).plain
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def _ms(ms: float) -> str:
    if ms < 10:  # noqa: PLR2004 - one place behind the point as long as there is one before it
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"  # noqa: PLR2004 - and in milliseconds as long as they can be read


def _summary(found: Timeline) -> list[str]:
    calls = found.calls
    took = sum(row.duration_ms for row in calls)
    measured = f", at most {found.most_at_once} at once" if found.most_at_once else ""
    lines = [f"calls {len(calls)}{measured}; {_ms(took)} in calls, {_ms(found.total_ms)} in all"]
    if found.guessed:
        lines.append(
            f"~ the start of {found.guessed} of them was not recorded: shown is the start of the step around it, "
            "or the end of the call before it"
        )
    return lines


# -- A run as a tree of lines, for cassettes of any size.


_SHORT = 160


def show_tree(cassette: Cassette) -> None:
    """Print a run as a tree."""
    header = cassette.header
    rows, branches, left_out = list[_Row](), list[Branch](), 0
    for record in cassette.records():  # one at a time: all of a large cassette take gigabytes
        if record.kind in LEFT_OUT:
            left_out += 1
            continue
        rows.append(_Row(record.kind, record.address))
        branches.append(Branch(_title(record, cassette)))
        for line, style in _lines(record):
            branches[-1].grow(Branch(line, style))
    tags = f"  [{', '.join(header.tags)}]" if header.tags else ""
    shown = [Branch(f"{header.name}  {header.volatile.created}{tags}".rstrip(), "bold")]
    for place, depth in CallTree(rows).walk():
        del shown[depth + 1 :]
        branch = Branch(place.label, "dim") if place.record is None else branches[place.record]
        shown.append(shown[depth].grow(branch))
    if left_out:
        shown[0].grow(Branch(f"{counted(left_out, 'checkpoint')}, shown one by one by --step N", "dim"))
    print_tree(shown[0])


class _Row(NamedTuple):
    """The place of a record."""

    kind: str
    address: str


def _title(record: Interaction | Step, cassette: Cassette) -> str:
    number, volatile = record.number, cassette.header.volatile
    label = record.address.rpartition("/")[2]
    if isinstance(record, Step):
        label = _step_label(record, label)
        timing = volatile.steps.get(number)
        took = f"  {timing.duration_ms:.0f} ms" if timing is not None else ""
        return f"{record.kind} {label}{took}" + (f"  {record.status}" if record.status != "ended" else "")
    found = volatile.timings.get(number)
    took = f"  {found.duration_ms:.0f} ms" if found is not None else ""
    return f"{number}  {record.kind} {label}{took}{_usage(record)}"


def _step_label(step: Step, label: str) -> str:
    """Return the place of a step, with the tool that it calls and the agent that acts, where the place does not say."""
    if step.kind in {"tool", "gap"} and step.name not in label:
        label = f"{label}  {step.name}".strip()
    agent = step.metadata.get("agent")
    return f"{label}  [{agent}]" if isinstance(agent, str) else label


def _usage(item: Interaction) -> str:
    usage, chunks = usage_of(model_call(item) if item.kind == "http" else item), item.outcome.chunks
    facts = f"  {counted(len(chunks), 'chunk')}" if chunks is not None else ""
    if usage is not None:
        facts += f"  {usage.input_tokens or 0} + {usage.output_tokens or 0} tokens"
    return facts + (f"  {item.fidelity}" if item.fidelity != "exact" else "")


def _lines(record: Interaction | Step) -> Iterator[tuple[str, str]]:
    if isinstance(record, Step):
        yield from _step_lines(record)
        return
    record = model_call(record) if record.kind == "http" else record
    yield _short(f"> {_asked(record)}"), "cyan"
    error = record.outcome.error
    if error is not None:
        yield _short(f"! {error.type}: {error.message}"), "red"
    elif record.outcome.status == "cancelled":
        yield _short(f"! cancelled  {_answered(record) if record.outcome.chunks else ''}"), "red"
    elif record.outcome.status == "refused":
        yield _short(f"! refused: no recording; answered {record.outcome.value!r}"), "red"
    elif text := _answered(record):
        yield _short(f"< {text}"), "yellow" if FAKED in record.tags else ""
    if FAKED in record.tags:
        yield "* answered by a fake", "yellow"
    if candidate := record.metadata.get("candidate"):
        yield _short(f"* asked of {candidate}"), "yellow"
    if record.outcome.given_up is not None:
        yield "! given up by the program, while its thread went on", "red"
    for effect in record.acts or ():
        yield _short(f"* {effect.what}" + (f" at {effect.at}" if effect.at else "")), "yellow"


def _step_lines(step: Step) -> Iterator[tuple[str, str]]:
    if step.error is not None:
        yield _short(f"! {step.error.type}: {step.error.message}"), "red"
    if step.kind == "gap":
        yield _short(f"not seen: {', '.join(map(str, step.data or []))}; {step.fidelity_note}"), "dim"
    if step.kind == "tool" and isinstance(step.input, dict):
        yield _short(f"> {_arguments(step.input)}"), "cyan"
    if step.kind == "tool" and isinstance(step.output, str):
        yield _short(f"< {step.output}"), ""


def _asked(item: Interaction) -> str:
    messages = item.request.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        return f"{messages[-1].get('role', '')}: {messages[-1].get('content') or messages[-1]}"
    return _arguments(item.request.get("arguments", item.request))


def _arguments(given: Any) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in given.items()) if isinstance(given, dict) else str(given)


def _answered(item: Interaction) -> str:
    if item.kind in MODEL_KINDS:
        answer = Answer(item.outcome)
        calls = [f"{call.name}({_arguments(call.args)})" for call in answer.tool_calls]
        if line := " ".join(filter(None, [answer.text, *calls])):
            return line
    return str(item.outcome.value if item.outcome.status == "returned" else item.outcome.chunks)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]} …"


class Branch(Tree):
    """A line, with those below it. It is drawn as a tree of rich, and takes a quarter of the memory.

    Args:
        text: The line.
        look: Its style, in the words of rich.
    """

    style = "tree"
    guide_style = "tree.line"
    expanded = True
    highlight = False
    hide_root = False
    children: Any = ()  # the branches below. Most lines have none, and no list for them either.

    def __init__(self, text: str, look: str = "") -> None:  # that of rich gives each tree seven attributes
        self._text = text
        if look:
            self._look = look

    _look = ""

    @property
    def label(self) -> Text:  # type: ignore[override]
        """The line for display."""
        return printable(self._text, self._look)

    def grow(self, branch: Branch) -> Branch:
        """Add a branch below the others, and return it."""
        if not self.children:
            self.children = []
        self.children.append(branch)
        return branch
