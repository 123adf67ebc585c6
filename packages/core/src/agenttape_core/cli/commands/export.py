"""`agenttape export`: cassettes for other tools."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import IO, TYPE_CHECKING, Any

import click

from agenttape_core.cli.cassettes import STDIN, Found, found_in, paths_argument, reading
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import CassetteWriteError, counted
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.storage import is_cassette
from agenttape_core.storage.files import pack, packing_of
from agenttape_core.tools.export import Collector, otlp_parts, rows_of, spans_in
from agenttape_core.tools.oracle import entries_of, lines_of
from agenttape_core.tools.reading.prices import load_prices

if TYPE_CHECKING:
    from agenttape_core.tools.export.spans import Span
    from agenttape_core.tools.reporting.masking import Mask

_Line = str | Iterator[str]  # a line, or the parts of one that is long


@cli_command("agenttape export cassettes --format otel --endpoint http://localhost:4318")
@paths_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "jsonl", "jsonl-trace", "otel", "oracle"]),
    default="json",
    show_default=True,
    help="json: one document. jsonl: a line for each record. jsonl-trace: one for each prompt. otel: OpenTelemetry"
    " spans. oracle: the answers of tools.",
)
@click.option(
    "-o",
    "--output",
    default=STDIN,
    metavar="FILE",
    help="Write to a file, packed if it ends in .gz or .zst; by default to stdout.",
)
@click.option(
    "--endpoint",
    metavar="URL",
    help="Send spans to this OTLP/HTTP endpoint; env: to the one that OTEL_EXPORTER_OTLP_* names.",
)
@click.option("--content", is_flag=True, help="Include the texts of people, models and tools in spans.")
@click.option("--redact-prompts", is_flag=True, help="Leave no byte of a prompt in the export.")
def export(
    paths: tuple[str, ...],
    *,
    form: str,
    output: str,
    endpoint: str | None,
    content: bool,
    redact_prompts: bool,
    as_json: bool,
) -> None:
    """Write JSON, OpenTelemetry spans, or a tool oracle.

    JSON has the whole recording, redacted as in the cassette. Spans have no content unless you add --content. Data is
    sent only with --endpoint. An oracle is an array of the answers of tools by the hash of their arguments, for agents
    in any language; agenttape serve answers them over HTTP.
    """
    if form != "otel" and (endpoint is not None or content):
        raise click.UsageError("--endpoint and --content are for --format otel")
    if redact_prompts and form in {"jsonl-trace", "oracle"}:
        raise click.UsageError(f"--redact-prompts is not for --format {form}: its keys are prompts and arguments")
    if endpoint is not None and output != STDIN:
        raise click.UsageError("--endpoint and --output cannot be combined")
    found = found_in(paths)
    if form == "oracle" and len(found) > 1:
        raise click.UsageError(f"an oracle is of one run: name one of these {len(found)} cassettes")
    mask = _mask(found) if redact_prompts else None
    if endpoint is not None:
        _report(as_json=as_json, **_sent(found, endpoint, content=content, mask=mask))
        return
    lines = _trace(found, output) if form == "jsonl-trace" else _text(found, form, content=content, mask=mask)
    count = _write(output, lines)
    if output != STDIN:
        counts = {"json": {}, "oracle": {"answers": max(count - 2, 0)}}.get(form, {"lines": count})
        _report(as_json=as_json, to=output, cassettes=len(found), **counts)


def _sent(found: Sequence[Found], endpoint: str, *, content: bool, mask: Mask | None) -> dict[str, Any]:
    collector, count = Collector(endpoint), 0
    try:
        for each in reading(found, "sending"):
            spans = spans_in(each.look(), content=content)
            count += collector.send(spans if mask is None else map(partial(_masked, mask=mask), spans))
    finally:
        collector.close()
    return {"to": collector.url, "cassettes": len(found), "spans": count}


def _masked(span: Span, mask: Mask) -> Span:
    moments = [
        replace(moment, name=mask.text(moment.name), attributes=mask.data(moment.attributes)) for moment in span.moments
    ]
    error = None if span.error is None else mask.text(span.error)
    attributes = mask.data(span.attributes)
    return replace(span, name=mask.text(span.name), attributes=attributes, moments=moments, error=error)


def _text(found: Sequence[Found], form: str, *, content: bool, mask: Mask | None) -> Iterator[_Line]:
    """Yield the lines of an export, in ASCII: whatever a cassette holds cannot do anything to a terminal."""
    if form == "json":
        yield from _document(found, mask)
        return
    if form == "oracle":
        yield from lines_of(entries_of(found[0].open()))
        return
    for each in reading(found):
        if form == "otel":
            spans = spans_in(each.look(), content=content)
            yield otlp_parts(spans) if mask is None else otlp_parts(spans, mask.data)
        else:
            rows = ({"cassette": each.shown, **row} for row in rows_of(each.look()))
            yield from (json.dumps(row if mask is None else mask.data(row)) for row in rows)


def _document(found: Sequence[Found], mask: Mask | None) -> Iterator[str]:
    """Yield the lines of one JSON document, as `json.dumps` would, without ever holding all of it."""
    yield '{\n  "cassettes": ['
    end = ""
    for each in reading(found):
        if end:
            yield f"{end},"
        shown = each.shown if mask is None else mask.data(each.shown)
        yield f'    {{\n      "cassette": {json.dumps(shown)},\n      "records": ['
        rows = rows_of(each.look())
        yield from _listed(rows if mask is None else map(mask.data, rows))
        end = "      ]\n    }"
    yield f"{end}\n  ]\n}}"


def _listed(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    before = ""
    for row in rows:
        if before:
            yield f"{before},"
        before = indent(json.dumps(row, indent=2), " " * 8)
    yield before


def write_trace(found: Sequence[Found], output: str) -> int:
    """Write the JSONL trace to a file or `-`; return its number of lines. Raises `CassetteWriteError` if that fails."""
    return _write(output, _trace(found, output))


def _trace(found: Sequence[Found], output: str) -> Iterator[str]:
    """Yield the lines of a trace."""
    from agenttape_core.checks.traces import trace_of, trace_text, without_twins

    prices = load_prices(project_settings().prices)
    lines = (
        (f"{each.shown}, turn {line.meta['turn']},", line)
        for each in reading(found)
        for line in trace_of(each.open(), each.shown, prices)
    )
    yield from trace_text(without_twins(lines, output))


def _mask(found: Sequence[Found]) -> Mask:
    """Return the replacements for the words of prompts in messages."""
    from agenttape_core.tools.reporting.masking import Mask, prompts_of

    return Mask(prompt for each in reading(found) for prompt in prompts_of(each.look().interactions()))


def _write(output: str, lines: Iterator[_Line]) -> int:
    """Write lines and return their number.

    A file is written whole or not at all, and never over a cassette. It is packed if its suffix requires it.
    """
    if output == STDIN:
        return _put(sys.stdout, lines)
    target = Path(output)
    if is_cassette(target):
        raise click.UsageError(f"{output} is a cassette; name another file")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if packing_of(target) is not None:
            whole = io.StringIO()
            count = _put(whole, lines)
            temporary.write_bytes(pack(target, whole.getvalue().encode("utf-8")))
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                count = _put(file, lines)
        temporary.replace(target)
    except OSError as error:
        problem = f"the export could not be written: {error.strerror or error}"
        raise CassetteWriteError(output, problem, remedy="name another file, or free space") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return count


def _put(file: IO[str], lines: Iterator[_Line]) -> int:
    count = 0
    for line in lines:
        file.writelines((line,) if isinstance(line, str) else line)
        file.write("\n")
        count += 1
    return count


def _report(*, as_json: bool, to: str, cassettes: int, **counts: int) -> None:
    if as_json:
        print_json({"to": to, "cassettes": cassettes, **counts})
        return
    all_counts = {"cassettes": cassettes, **counts}
    how_many = ", ".join(counted(count, what.removesuffix("s")) for what, count in all_counts.items())
    print_text(f"{how_many} exported to {to}")
