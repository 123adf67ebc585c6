"""`agenttape show`: the tree of a run, or one record in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from agenttape_core.cli.branch import Branch
from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import print_json, print_text, print_tree, verb
from agenttape_core.errors import CassetteNotFoundError, counted
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.schema import FAKED, MODEL_KINDS, Interaction, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.call_tree import LEFT_OUT, CallTree

_SHORT = 160


@verb("agenttape show cassettes/weather.yaml --interaction 2")
@click.argument("path", type=click.Path(readable=False))
@click.option("--interaction", type=int, metavar="N", help="Show one interaction in full.")
@click.option("--step", type=int, metavar="N", help="Show one step in full.")
def show(path: str, *, interaction: int | None, step: int | None, as_json: bool) -> None:
    """Show the tree of a run, or one record in full."""
    cassette = found_one(path).look()
    if interaction is None and step is None:
        (_print_all if as_json else _show_all)(cassette)
        return
    record = _record(cassette, interaction, step)
    plain: dict[str, Any] = record.model_dump(mode="json", exclude_defaults=True)
    if as_json:
        print_json(plain)
    else:
        print_text(dump_mapping(plain))


def _record(cassette: Cassette, interaction: int | None, step: int | None) -> Interaction | Step:
    if interaction is not None and step is not None:
        raise click.UsageError("--interaction and --step cannot be combined")
    try:
        return cassette.interaction(interaction) if interaction is not None else cassette.step(step or 0)
    except KeyError:
        word = f"interaction {interaction}" if interaction is not None else f"step {step}"
        raise CassetteNotFoundError(
            cassette.path, f"it has no {word}", remedy="run the command without the option to see all records"
        ) from None


def _print_all(cassette: Cassette) -> None:
    records = [record.model_dump(mode="json", exclude_defaults=True) for record in cassette.records()]
    # With the key of the pseudonyms, anyone could try guesses at the secrets: it stays in the file.
    header = cassette.header.model_dump(mode="json", exclude_defaults=True, exclude={"redaction": {"key"}})
    print_json({"header": header, "records": records})


def _show_all(cassette: Cassette) -> None:
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
    usage, chunks = item.outcome.usage, item.outcome.chunks
    facts = f"  {counted(len(chunks), 'chunk')}" if chunks is not None else ""
    if usage is not None:
        facts += f"  {usage.input_tokens or 0} + {usage.output_tokens or 0} tokens"
    return facts + (f"  {item.fidelity}" if item.fidelity != "exact" else "")


def _lines(record: Interaction | Step) -> Iterator[tuple[str, str]]:
    if isinstance(record, Step):
        yield from _step_lines(record)
        return
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
    for act in record.acts or ():
        yield _short(f"* {act.what}" + (f" at {act.at}" if act.at else "")), "yellow"


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
