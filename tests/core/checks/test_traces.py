"""JSONL traces: a line for each prompt, as the backend of checks, which say the same of a cassette and its trace."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from agenttape_core import open_cassette, use_cassette
from agenttape_core.checks import (
    Check,
    Judged,
    Run,
    at_most,
    called,
    check,
    check_run,
    exactly,
    judged,
    never,
    no_errors,
    output,
)
from agenttape_core.checks.check_file import Case, CheckFile, judge
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.traces import lines_of, read_trace, runs_of, trace_of, trace_text
from agenttape_core.checks.words import WORDS, checks_of
from agenttape_core.errors import CassetteNotFoundError, TraceFormatError
from agenttape_core.schema import Interaction, Outcome, RecordedError, Step, Timing, Usage, Volatile
from agenttape_core.tools.reading.prices import NoPrices, Price, PriceTable
from agenttape_core.tools.reading.summary import turns_of

from ...kit.records import call, step, written
from .conftest import ANSWER, QUESTION, ask, support

LINE = {"prompt": "Weather in Paris?", "response": "sunny", "model": "gpt-5", "provider": "openai", "meta": {"k": [1]}}


def data(*lines: Any) -> bytes:
    """Return lines as they stand in a file."""
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


def test_a_line_is_a_run(tmp_path: Path) -> None:
    """A line has its prompt, answer and facts, and comes back as it was written."""
    (line,) = lines_of(b"\xef\xbb\xbf" + data(LINE) + b"\n", "t.jsonl")
    assert json.loads(next(trace_text([line]))) == LINE
    (run,) = runs_of([line], "t.jsonl")
    assert (run.prompt, run.answer, run.meta) == ("Weather in Paris?", "sunny", {"k": [1]})
    result = check(run, output(equals="sunny"))
    assert (result.findings, result.model, result.provider) == ((), "gpt-5", "openai")
    assert {key: result.to_dict()[key] for key in ("model", "provider", "meta")} == {
        key: LINE[key] for key in ("model", "provider", "meta")
    }
    (found,) = check_run(run, [output(contains="rain")]).findings
    assert (found.path, found.line) == ("t.jsonl", 1)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(data(LINE)))
    assert read_trace(tmp_path / "t.jsonl.gz") == [line]
    with pytest.raises(CassetteNotFoundError, match="there is no such file"):
        read_trace(tmp_path / "other.jsonl")


def test_what_a_line_does_not_know_does_not_pass() -> None:
    """Rules about calls pass over a line that names its calls, and fail over one that does not."""
    known = {
        **LINE,
        "meta": {"tool_calls": [{"name": "look_up", "arguments": {"order": "A"}}], "calls": 2, "tokens": 9},
    }
    rules = [
        called("look_up", order="A"),
        never("refund"),
        exactly(["look_up"]),
        at_most(calls=2, tokens=9),
        no_errors(),
    ]
    plain, full = (runs_of(lines_of(data(each), "t.jsonl"), "t.jsonl")[0] for each in (LINE, known))
    assert check_run(full, rules).findings == ()
    assert [each.has_failed for each in check_run(plain, rules).judged] == [True] * len(rules)
    assert "the line has no `meta.tool_calls`" in str(check_run(plain, rules).findings[1])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "no JSON: Expecting property name"),
        (b"\xff", "no UTF-8: invalid start byte"),
        (b"[]", "expected an object, found list"),
        (b'{"prompt": "x"}', "`response` is missing"),
        (b'{"prompt": null, "response": ""}', "`prompt` is a text, found NoneType"),
        (b'{"prompt": "x", "response": 3}', "`response` is a text, found int"),
        (b'{"prompt": "x", "response": "", "meta": []}', "`meta` is an object, found list"),
        (b'{"prompt": "x", "response": "", "modle": "gpt"}', "unknown key `modle`; did you mean `model`?"),
        (b'{"prompt": "x", "prompt": "y", "response": ""}', "the key `prompt` occurs twice"),
        (b'{"prompt": "x", "response": "", "meta": {"a": NaN}}', "no JSON: NaN"),
        (b'{"agenttape":2,"name":"x"}', "this is a cassette, and no trace"),
        (b"[" * 100_000, "no JSON that anybody wrote"),
    ],
)
def test_broken_lines(line: bytes, said: str) -> None:
    """A broken line is refused with its number and the reason."""
    with pytest.raises(TraceFormatError) as refused:
        lines_of(data(LINE, line), "t.jsonl")
    assert str(refused.value).startswith("t.jsonl:2: ")
    assert said in str(refused.value)


def test_all_broken_lines_and_duplicates_are_told() -> None:
    """Two lines with one prompt are refused with both numbers, and so is every broken line at once."""
    with pytest.raises(TraceFormatError) as refused:
        lines_of(data(LINE, b"{", {**LINE, "response": "rain"}, b"[]"), "t.jsonl")
    lines = [line.strip() for line in str(refused.value).splitlines()]
    assert lines[0].startswith("t.jsonl:2: no JSON")
    assert lines[1:] == [
        "t.jsonl:3: the prompt is already on line 1",
        "t.jsonl:4: expected an object, found list",
    ]
    with pytest.raises(TraceFormatError, match="the trace holds no line"):
        lines_of(b"\n \n", "t.jsonl")


def test_a_cassette_becomes_a_line_for_each_turn(tmp_path: Path) -> None:
    """Each turn is a line with its prompt, its answer, and what it took; the line is checked like the cassette."""
    path = tmp_path / "two.yaml"
    with use_cassette(path, mode="all"):
        support()
        ask("gpt-5", [{"role": "user", "content": QUESTION}, {"role": "user", "content": "And when?"}], "Today.")
    first, second = trace_of(open_cassette(path), "two.yaml", NoPrices())
    assert (first.prompt, first.response, first.model) == (QUESTION, ANSWER, "gpt-5")
    assert (second.prompt, second.response) == ("And when?", "Today.")
    assert (first.meta["turn"], first.meta["calls"]) == (1, 5)
    (both,) = runs_of(lines_of(data(first.to_dict(), second.to_dict()), "t.jsonl"), "t.jsonl")
    assert (both.prompt, both.answer, both.interactions) == (QUESTION, "Today.", 6)
    run = both.turns()[0]
    assert (
        check(run, exactly(["look_up", "look_up", "refund"]), at_most(calls=5, tokens=350), never("close")).findings
        == ()
    )
    with pytest.raises(AssertionError, match="tool look_up failed"):
        check(run, no_errors())


def test_runs_beside_each_other_are_a_turn_each() -> None:
    """Calls of parallel runs take turns in the file; each run is still one turn, with its own prompt and answer."""
    items = [
        call(
            number,
            f"{run}/Model#{number}",
            {"role": "assistant", "content": f"{number} of {run}"},
            kind="chat",
            request={"messages": [{"role": "user", "content": f"about {run}"}]},
        )
        for number, run in enumerate(["agent", "agent#2", "agent", "agent#2"], 1)
    ]
    turns = turns_of(items)
    assert [(turn.prompt, len(turn.calls), turn.answer) for turn in turns] == [
        ("about agent", 2, "3 of agent"),
        ("about agent#2", 2, "4 of agent#2"),
    ]


def test_lines_of_one_run_are_judged_together(tmp_path: Path) -> None:
    """Lines of one cassette are one run; two runs of one name stay two; one that lost a turn can't be judged whole."""
    for name in ("a", "b"):
        with use_cassette(tmp_path / name / "c.yaml", mode="all"):
            for number in (1, 2):
                ask("gpt-5", [{"role": "user", "content": f"{name} {number}"}], f"{name} said {number}")
    lines = [
        line.to_dict()
        for name in ("a", "b")
        for line in trace_of(open_cassette(tmp_path / name / "c.yaml"), "c.yaml", NoPrices())
    ]
    runs = runs_of(lines_of(data(*lines[:2], LINE, *lines[2:]), "t.jsonl"), "t.jsonl")
    assert [(run.prompt, run.answer, run.interactions) for run in runs] == [
        ("a 1", "a said 2", 2),
        (LINE["prompt"], "sunny", 0),
        ("b 1", "b said 2", 2),
    ]
    (found,) = check_run(runs[2], [called("opinion", kind="chat"), at_most(calls=2)]).findings
    assert (found.message, found.line) == ("opinion was not called", 4)
    (part,) = runs_of(lines_of(data(lines[3]), "t.jsonl"), "t.jsonl")
    assert check_run(part.turns()[0], [at_most(calls=1), output(equals="b said 2")]).findings == ()
    for rule in (at_most(calls=9), never("refund"), output(equals="b said 2"), no_errors()):
        (found,) = check_run(part, [rule]).findings
        assert "cannot be judged: the trace holds 1 of its 2 turns" in found.message


PRICES = PriceTable({"gpt-5": Price(1.0, 10.0)})
TOOLS = ("look_up", "refund")
NAMES = st.sampled_from([*TOOLS, "close"])
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab$", min_size=1, max_size=2), inner, max_size=2)
    ),
    max_leaves=3,
)
ARGUMENTS = st.dictionaries(st.just("order"), DATA)
ERROR = RecordedError(type="openai:RateLimitError", message="too many")
INTERRUPT = RecordedError(type="langgraph.errors:GraphInterrupt", message="asks", args=[{"action": "refund"}])


class Drawn:
    """Draws the records of a run.

    Args:
        draw: Draws a value.
    """

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.records: list[Interaction | Step] = []
        self.timings: dict[int, Timing] = {}
        self.is_beside = self.some(True, False)
        self._calls = self._steps = 0

    def some(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def call(self, kind: str, name: str, address: str, request: dict[str, Any], outcome: Outcome, **more: Any) -> int:
        self._calls += 1
        self.records.append(call(self._calls, address, kind=kind, name=name, request=request, outcome=outcome, **more))
        if self.some(True, True, True, False):
            self.timings[self._calls] = Timing(duration_ms=self.draw(st.floats(0, 5000)))
        return self._calls

    def step(self, kind: str, name: str, address: str, error: RecordedError | None = None, data: Any = None) -> None:
        self._steps += 1
        status = "failed" if error is not None else "ended"
        self.records.append(step(self._steps, address, kind=kind, name=name, status=status, error=error, data=data))

    def turn(self, number: int, history: list[dict[str, Any]]) -> None:
        """Draw a turn: of a graph, or of a loop that calls models by itself."""
        messages = [*history, {"role": "user", "content": f"Question {number}?"}]
        root = f"agent#{number}/" if self.is_beside or self.some(True, False) else ""
        for round_ in range(self.some(1, 2)):
            at = round_ * 2 + 1
            above = f"{root}model@{at}/" if root else ""
            said = self.model(f"{above}Model#{number}.{round_}", list(messages))
            if root:
                self.step("node", "model", f"{root}model@{at}", self.some(None, None, None, INTERRUPT))
            messages.append(said)
            for at_once, asked in enumerate(said.get("tool_calls", ())):
                if self.some(True, True, False):
                    address = f"{root}tools@{at + 1}[{at_once}]/" if root else ""
                    self.tool(asked["name"], f"{address}{asked['name']}#{number}.{at}", asked["args"])
                if self.some(True, False):
                    messages.append({"role": "tool", "tool_call_id": asked["id"], "content": "done"})
            if root and self.some(True, False):
                self.step("interrupt", "ask", f"{root}ask", data=self.some(None, {"tool": "refund"}))
            self.other(f"{root}other#{number}.{round_}")
        self.model(f"{root}Model#{number}", list(messages), asks=False)
        if root:
            self.step("node", "model", f"{root}model@9", self.some(None, None, ERROR))
        history[:] = [*messages, {"role": "assistant", "content": "bye"}]

    def model(self, address: str, messages: list[dict[str, Any]], *, asks: bool = True) -> dict[str, Any]:
        """Draw a call of a model, and return its answer."""
        calls = [
            {
                "name": self.draw(NAMES),
                "args": self.draw(ARGUMENTS),
                "id": f"c{n}{address}",
            }
            for n in range(self.some(0, 1, 2) if asks else 0)
        ]
        text = self.draw(st.text(max_size=6))
        said = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        usage = self.some(None, Usage(), Usage(input_tokens=3, output_tokens=2), Usage(input_tokens=10))
        how = self.some("returned", "returned", "streamed", "raised", "broken", "cancelled")
        chunks = ["a", text]
        outcome = {
            "returned": Outcome(status="returned", value=said, usage=usage),
            "streamed": Outcome(status="streamed", chunks=chunks, ended="exhausted", usage=usage),
            "raised": Outcome(status="raised", error=ERROR),
            "broken": Outcome(status="streamed", chunks=chunks, ended="raised", error=ERROR),
            "cancelled": Outcome(status="cancelled", chunks=chunks[:1]),
        }[how]
        request = {"model": self.some("gpt-5", "unknown"), "messages": messages}
        number = self.call("chat", "Model", address, request, outcome)
        if self.some(True, False, False):
            self.call("http", "api.test", f"{address}/api.test", *self.http(), parent=number)
        return said

    def tool(self, name: str, address: str, arguments: Any) -> None:
        value = self.some("fine", {"$message": {"status": "error", "content": "no"}}, self.draw(DATA))
        is_raised = self.some(False, False, True)
        outcome = Outcome(status="raised", error=ERROR) if is_raised else Outcome(status="returned", value=value)
        self.call("tool", name, address, {"name": name, "arguments": arguments}, outcome)

    def other(self, address: str) -> None:
        """Draw a call that is of no model's framework, or none."""
        match self.some("none", "http", "call", "embeddings", "retrieval"):
            case "http":
                self.call("http", "api.test", address, *self.http())
            case "none":
                return
            case kind:
                usage = self.some(None, Usage(input_tokens=4)) if kind == "embeddings" else None
                outcome = Outcome(status="returned", value=self.draw(DATA), usage=usage)
                self.call(kind, "other", address, {"arguments": self.draw(DATA)}, outcome)

    def http(self) -> tuple[dict[str, Any], Outcome]:
        path = self.some("/v1/chat/completions", "/v1/messages", "/v1beta/models/g:generateContent", "/orders")
        status = self.some(200, 429)
        request = {"method": self.some("POST", "GET"), "url": {"scheme": "https", "host": "api.test", "path": path}}
        return request, Outcome(status="streamed", chunks=[{"status": status}, "{}"], ended="exhausted")


@st.composite
def conversations(draw: Any) -> tuple[list[Interaction | Step], dict[int, Timing]]:
    """A conversation of one to three turns."""
    drawn, history = Drawn(draw), []
    drawn.other("before")
    for number in range(1, drawn.some(1, 2, 3) + 1):
        drawn.turn(number, history)
    drawn.other("after")
    return beside(draw, drawn) if drawn.is_beside else (drawn.records, drawn.timings)


def beside(draw: Any, drawn: Drawn) -> tuple[list[Interaction | Step], dict[int, Timing]]:
    """Return drawn records as those of runs beside each other: each run keeps its order."""
    waiting: dict[str, list[Interaction | Step]] = {}
    for record in drawn.records:
        waiting.setdefault(record.address.partition("/")[0], []).append(record)
    order = [root for root, records in waiting.items() for _ in records]
    mixed = [waiting[root].pop(0) for root in draw(st.permutations(order))]
    numbers: dict[int, int] = {}
    found: list[Interaction | Step] = []
    for record in mixed:
        if isinstance(record, Interaction):
            numbers[record.number] = len(numbers) + 1
            parent = numbers[record.parent] if record.parent is not None else None
            found.append(record.model_copy(update={"number": numbers[record.number], "parent": parent}))
        else:
            found.append(record.model_copy(update={"number": sum(isinstance(each, Step) for each in found) + 1}))
    return found, {numbers[number]: timing for number, timing in drawn.timings.items()}


def evaluator(*, outputs: Any) -> list[dict[str, Any]]:
    """Score all that an evaluator reads of a run."""
    return [{"key": json.dumps(outputs, sort_keys=True), "score": len(outputs["messages"])}]


class Contexts:
    """An evaluator of LlamaIndex's signature."""

    def evaluate(self, *, query: str, response: str, contexts: list[str]) -> dict[str, Any]:
        """Score all that it is given."""
        return {"key": json.dumps([query, response, contexts]), "score": 1}


def near(value: float) -> list[float]:
    """Return limits just below, at and above a value."""
    return [value * (1 - 1e-12) if value else 0.0, value, value + 1]


SAMPLES: dict[str, Callable[[Run], Iterator[Any]]] = {
    "after": lambda _: (["look_up", then] for then in ("refund", "look_up")),
    "arguments": lambda run: (
        {"tool": each.name, "equals": {"order": each.arguments.get("order")}}
        for each in [*run.of_kind("tool"), *run.asked]
        if isinstance(each.arguments, dict)
    ),
    "at_most": lambda run: (
        {what: limit, **more}
        for more in ({}, {"uncounted": ["Model"]}, {"uncounted": ["Model", "other", "api.test/v1/messages"]})
        for what, limits in {
            "calls": (run.interactions, run.interactions - 1),
            "tokens": (run.tokens, max(run.tokens - 1, 0)),
            "seconds": near(run.seconds),
            "dollars": near(run.dollars),
            "steps": (1, 2),
        }.items()
        for limit in limits
        if limit >= 0
    ),
    "before": lambda _: (["look_up", "refund"], {"first": "look_up", "then": "refund"}).__iter__(),
    "called": lambda run: (
        {"tool": each.name, "kind": each.kind, **more} for each in run.happened for more in ({}, {"times": 2})
    ),
    "confirmed": lambda _: iter(TOOLS),
    "exactly": lambda run: iter(([each.name for each in run.of_kind("tool")], list(TOOLS))),
    "judged": lambda _: iter([judged(evaluator, name="all", at_least=3), judged(Contexts(), name="contexts")]),
    "never": lambda run: iter(["look_up", "refund", "close", {"tool": "Model", "kind": "chat"}]),
    "no_errors": lambda _: iter([True, {"allow": ["Model"]}]),
    "output": lambda run: iter(
        [{"equals": run.answer}, {"contains": "a"}, {"regex": "^$"}, {"json_schema": {"type": "number"}}]
    ),
    "trajectory": lambda run: (
        {way: list(TOOLS), "kind": kind}
        for way in ("strict", "unordered", "subset", "superset")
        for kind in ("tool", "node", "chat", "http", "interrupt")
    ),
}
"""Values of each word of checks, for a run."""


def test_each_check_is_sampled() -> None:
    """A word of checks that is added needs samples here, so that it's compared as well."""
    assert SAMPLES.keys() == WORDS.keys()


@pytest.mark.slow
@settings(
    max_examples=settings().max_examples // 3,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(conversations())
def test_a_check_says_the_same_of_a_cassette_and_of_its_trace(conversation: Any) -> None:
    """For a drawn conversation and each turn of it, each check and a file of checks agree on cassette and trace."""

    def checks_for(run: Run) -> Iterator[Check]:
        """Yield checks of each word, which are near what is true of a run."""
        for word, values in SAMPLES.items():
            for value in values(run):
                yield from [value] if isinstance(value, Check) else checks_of(word, value)

    def told(judged: Judged) -> Any:
        """Return what a check says of a run, without the places in files."""
        found = [(one.level, one.message, one.expected, one.found, one.differences) for one in judged.findings]
        return judged.text, found, judged.scores

    checks = (
        *checks_of("at_most", {"calls": 3, "tokens": 20, "seconds": 5}),
        *checks_of("output", {"contains": "a"}),
        *checks_of("called", {"tool": "look_up", "times": 1}),
        *checks_of("before", ["look_up", "refund"]),
    )
    cases = [Case(f"Question {n}?", f"case {n}", checks, "cases.yaml", n) for n in (1, 2, 3)]

    def gated(run: Run) -> list[Any]:
        """Return what a file of checks says of a run as a whole, and each case of its turn."""
        found = judge([("run", lambda: run)], [CheckFile(every=checks, cases=tuple(cases))], lambda _: ())
        return [(one.rule, one.text, [each.message for each in one.findings]) for each in found for one in each.judged]

    records, timings = conversation
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "c.yaml", *records, volatile=Volatile(timings=timings))
        whole = run_of_cassette(open_cassette(path), PRICES, str(path))
        turns = whole.turns()
        text = "\n".join(trace_text(trace_of(open_cassette(path), str(path), PRICES)))
        trace = str(Path(folder) / "t.jsonl")
        (joined,) = runs_of(lines_of(text.encode(), trace), trace)
        lines = joined.turns() or (joined,)
        assert [(turn.prompt, turn.answer) for turn in turns] == [(line.prompt, line.answer) for line in lines]
        assert (whole.prompt, whole.answer) == (joined.prompt, joined.answer)
        assert sum(turn.interactions for turn in turns) == whole.interactions
        assert sum(len(turn.of_kind("node")) for turn in turns) == len(whole.of_kind("node"))
        note(text)
        assert gated(whole) == gated(joined)
        for run, same in zip([whole, *turns], [joined, *lines], strict=True):
            for check in checks_for(run):
                assert told(check.judged(run)) == told(check.judged(same)), check
