"""A run as a tree of lines, for cassettes of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text
from rich.tree import Tree

from agenttape_core.cli.output import print_tree, printable
from agenttape_core.errors import counted
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FAKED, MODEL_KINDS, Interaction, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.call_tree import LEFT_OUT, CallTree
from agenttape_core.tools.reading.provider_calls import model_call
from agenttape_core.tools.reading.summary import usage_of

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
