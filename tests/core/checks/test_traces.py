"""JSONL traces: a line for each prompt, as the backend of checks, and made of cassettes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.checks import at_most, called, check, check_run, exactly, never, no_errors, output
from agenttape_core.checks.traces import lines_of, read_trace, runs_of, trace_of, trace_text
from agenttape_core.errors import CassetteNotFoundError, TraceFormatError
from agenttape_core.tools.reading.prices import NoPrices
from agenttape_core.tools.reading.summary import turns_of

from ...kit.records import call
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
