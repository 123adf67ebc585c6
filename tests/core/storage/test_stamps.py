"""Stamps: what a provider makes anew for each answer stands in the volatile block, and comes back as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenttape_core.errors import CassetteFormatError
from agenttape_core.format import volatile_values as stamps_module
from agenttape_core.format.timings import dump_step_timings, dump_timings, load_step_timings, load_timings
from agenttape_core.format.volatile_values import stamped
from agenttape_core.schema import Header, Interaction, Outcome, Step, StepTiming, Timing, Usage, Volatile
from agenttape_core.storage import convert, open_cassette, write_cassette

GOLDEN = Path(__file__).parents[2] / "golden" / "v2"
NAMES = pytest.mark.parametrize("name", ["stamps.yaml", "stamps.jsonl"])
CALL, ANSWER = "call_8ASPM4g7vMsuFoOd6v1VRorC", "chatcmpl-K1xeMsYvzemeHeMtYiX1qRWzXF6bE"


def message(**changes: Any) -> dict[str, Any]:
    """An answer as providers stamp it."""
    usage = {"input_tokens": 20, "output_tokens": 9, "output_token_details": {"reasoning": 0}}
    metadata = {"id": ANSWER, "system_fingerprint": "fp_93ad699fc1", "created_at": "2026-01-02T03:04:05Z"}
    return {"role": "ai", "content": "", "usage_metadata": usage, "response_metadata": metadata, **changes}


def records() -> list[Interaction | Step]:
    """A call with a tool call, the tool, a node around it, and a call that is told the result."""
    call = {"name": "pay", "args": {"order_id": "order_5fK29xQa"}, "id": CALL}
    asked = [{"role": "human", "content": "Pay, ${1.id} and $${1.id}, or ${HOME}."}]
    told = [*asked, message(tool_calls=[call]), {"role": "tool", "content": "paid", "tool_call_id": CALL}]
    fields: dict[str, Any] = {"kind": "chat", "name": "Model"}
    outcome = Outcome(status="returned", value=message(tool_calls=[call]))
    chunks = [{"delta": "Done", "id": "msg_01XFDUDYJgAACzvnptvVoYEL"}, message(), "${s9.x}"]
    return [
        Interaction(
            number=1, address="a#1", fingerprint="1" * 32, request={"messages": asked}, outcome=outcome, **fields
        ),
        Step(number=1, kind="node", name="n", address="n", output=message(tool_calls=[call]), data=["${1.id}", CALL]),
        Interaction(
            number=2,
            kind="tool",
            name="pay",
            address="a#2",
            fingerprint="2" * 32,
            ids=[CALL, "", "run-1"],
            request={"arguments": {"order_id": "order_5fK29xQa"}},
            outcome=Outcome(
                status="returned", value={"order_id": "order_5fK29xQa", "created": 5, "usage": {"tokens": 1}}
            ),
        ),
        Interaction(
            number=3,
            address="a#3",
            fingerprint="3" * 32,
            request={"messages": told},
            outcome=Outcome(status="streamed", chunks=chunks, ended="exhausted"),
            **fields,
        ),
        Interaction(
            number=4, address="a#4", fingerprint="4" * 32, request={"messages": told}, outcome=outcome, **fields
        ),
    ]


def header() -> Header:
    """A header with times."""
    timings = {number: Timing(start_ms=number, duration_ms=2.5, offsets_ms=[1.0]) for number in range(1, 5)}
    return Header(name="stamps", volatile=Volatile(steps={1: StepTiming(start_ms=0, duration_ms=9)}, timings=timings))


@NAMES
def test_the_golden_files_are_read_and_written(tmp_path: Path, name: str) -> None:
    """A file with stamps holds the records that were written into it, and is written as it always was."""
    golden = open_cassette(GOLDEN / name)
    assert (golden.header, list(golden.records())) == (header(), records())
    assert [golden.ids(2), golden.outcome(3)] == [records()[2].ids, records()[3].outcome]  # type: ignore[union-attr]
    write_cassette(tmp_path / name, header(), records())
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()


def test_layouts_convert_into_each_other(tmp_path: Path) -> None:
    """A cassette with stamps is the same one in the other layout, to the byte."""
    for name, other in (("stamps.yaml", "stamps.jsonl"), ("stamps.jsonl", "stamps.yaml")):
        convert(GOLDEN / name, tmp_path / other)
        assert (tmp_path / other).read_bytes() == (GOLDEN / other).read_bytes()


def test_what_a_program_chose_is_no_stamp() -> None:
    """Arguments of tools, results and prompts stay where a reviewer reads them."""
    text = (GOLDEN / "stamps.yaml").read_text("utf-8")
    stable = text.split("---\n", 1)[1]
    assert "order_5fK29xQa" not in text.partition("---\n")[0]
    for said in ("order_id: order_5fK29xQa", "created: 5", "tokens: 1", "content: Pay, "):
        assert said in stable
    for made in ("chatcmpl-", "fp_", "input_tokens", "2026-01-02"):
        assert made not in stable


TEXTS = st.one_of(st.text(max_size=20), st.sampled_from([CALL, ANSWER, "${1.id}", "$${1.id}", "a ${s1.x} b", "run-1"]))
KEYS = st.one_of(st.sampled_from(["id", "tool_call_id", "usage", "tokens", "created", "args", "raw", "$as"]), TEXTS)
VALUES = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


@example("http", '{"id":"' + ANSWER + '","created":1750758790,"usage":{"total_tokens":5,"more":{"a":1}}}${1.id}', CALL)
@given(st.sampled_from(["chat", "tool", "http"]), VALUES, VALUES)
def test_every_value_comes_back(kind: str, answer: Any, asked: Any) -> None:
    """Whatever looks like a stamp, or like a reference to one, is read as it was written, in both layouts."""
    outcome = Outcome(status="returned", value=answer, usage=Usage(input_tokens=20))
    number = {"kind": kind, "name": "n", "address": "a", "fingerprint": "0" * 32, "outcome": outcome}
    written: list[Interaction | Step] = [
        Interaction(number=1, request={"messages": [asked]}, ids=[CALL], **{**number, "address": "n/a"}),
        Step(number=1, kind="node", name="n", address="n", input=asked, output=answer),
        Interaction(number=2, request={"messages": [asked, answer]}, **number),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.yaml", "a.jsonl"):
            write_cassette(Path(folder, name), Header(name="a"), written)
            assert repr(list(open_cassette(Path(folder, name)).records())) == repr(written)


@example({"id": CALL, "usage": {}, "raw": {"id": "0d1f6a3e9c"}}, "0d1f6a3e9c")
@example({"tokenUsage": {"totalTokens": 5}}, {"a": {"system_fingerprint": "fp"}})
@settings(max_examples=30)
@given(VALUES, VALUES)
def test_no_step_with_stamps_is_passed_over(answer: Any, asked: Any) -> None:
    """The quick look at a step finds all that the walk through it would have replaced."""
    call = {"interaction": 1, "kind": "chat", "address": "a", "request": {}, "outcome": {"value": answer}}
    for carried in (answer, asked, [{"deep": answer}, asked]):
        stored = [{**call, "fingerprint": ""}, {"step": 1, "address": "n", "data": carried}]
        looked = stamped(stored)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(stamps_module, "_may_have_stamps", lambda *_: True)
            assert repr(stamped(stored)) == repr(looked)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    1 {", "    one {", "expected the stamps of a record"),
        ("id: ${1.id}", "id: ${1.nobody}", r"`\$\{1.nobody\}` names a stamp that `volatile.stamps` does not have"),
        ("id: ${1.id}", "id: ${9.id}", r"`\$\{9.id\}` names a stamp"),
        ("id: ${1.id}", "id: so ${1.usage_metadata}", "in a text must be a text, not dict"),
        ('    1 {"usage', "    1 {usage", "not JSON"),
    ],
)
def test_malformed_stamps(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """A reference without a stamp, and a line that is none, are errors of the file that say what is wrong."""
    text = (GOLDEN / "stamps.yaml").read_text("utf-8")
    assert old in text
    (tmp_path / "bad.yaml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(CassetteFormatError, match=problem):
        list(open_cassette(tmp_path / "bad.yaml").records())


def test_a_step_has_the_stamps_of_the_call_below_it(tmp_path: Path) -> None:
    """Counts of tokens that a node repeats of its one call stand in the volatile block once."""
    call, step, *_ = records()
    moved = [call.model_copy(update={"address": "n/a"}), step]
    write_cassette(tmp_path / "a.yaml", header(), moved)
    text = (tmp_path / "a.yaml").read_text("utf-8")
    assert text.count("output_token_details") == 1
    assert text.count("usage_metadata: ${1.usage_metadata}") == 2
    assert list(open_cassette(tmp_path / "a.yaml").records()) == moved


def test_too_many_stamps_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header of a huge cassette does not grow with it."""
    monkeypatch.setattr(stamps_module, "MAX_TEXT", 100)
    write_cassette(tmp_path / "a.yaml", header(), records())
    cassette = open_cassette(tmp_path / "a.yaml")
    assert not cassette.has_stamps
    assert list(cassette.records()) == records()


@given(st.dictionaries(st.integers(1, 99), st.integers(0, 10**6), max_size=20))
def test_timings_on_few_lines(times: dict[int, int]) -> None:
    """However many stand on a line, timings come back, and many take few lines."""
    timings = {number: Timing(duration_ms=ms, offsets_ms=[ms]) for number, ms in times.items()}
    steps = {number: StepTiming(start_ms=ms, duration_ms=ms) for number, ms in times.items()}
    assert (load_timings(dump_timings(timings)), load_step_timings(dump_step_timings(steps))) == (timings, steps)
    assert dump_timings(timings).count("\n") == (len(times) if len(times) <= 2 else -(-len(times) // 8))
