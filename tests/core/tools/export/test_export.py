"""Spans: which record lies in which, when each began, and the words for operations and providers."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions

from agenttape_core.schema import Interaction, Step, Timing, Volatile
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.tools.export.attributes import OPERATIONS, placed_in, provider_name
from agenttape_core.tools.export.spans import spans_in, tool_call_ids

from ....kit.records import call, step, written


def parents(folder: Path, *records: Interaction | Step) -> dict[str, str | None]:
    """Return what each record of a cassette lies in."""
    return {node.id: node.parent for node in placed_in(cassette(folder, *records))}


def cassette(folder: Path, *records: Interaction | Step, **timings: Timing) -> Cassette:
    """Return a cassette of records."""
    times = {int(name[1:]): timing for name, timing in timings.items()}
    return open_cassette(written(folder / "a.yaml", *records, volatile=Volatile(timings=times)))


def test_the_nearest_record_around(tmp_path: Path) -> None:
    """A record lies in the nearest one above its address, and not in one whose address merely begins alike."""
    steps = [step(n, at) for n, at in enumerate(["A", "A/b@1", "AB"], 1)]
    calls = [call(1, "A/b@1/x/y"), call(2, "A/c"), call(3, "AB/z"), call(4, "elsewhere/z")]
    found = parents(tmp_path, *steps, *calls)
    assert found == {"s1": None, "s2": "s1", "s3": None, "i1": "s2", "i2": "s1", "i3": "s3", "i4": None}


def test_the_call_that_was_executing_counts(tmp_path: Path) -> None:
    """Where the address does not say in which call another was made, the recorded parent does, if it is there."""
    calls = [call(1, "A/x"), call(2, "A/y", parent=1), call(3, "A/z", parent=9), call(4, "A/x/m/y", parent=1)]
    found = parents(tmp_path, step(1, "A"), *calls[:3], step(2, "A/x/m"), calls[3])
    assert found == {"s1": None, "i1": "s1", "i2": "i1", "i3": "s1", "s2": "i1", "i4": "s2"}


def test_nothing_lies_in_a_moment(tmp_path: Path) -> None:
    """An event is of what it happened in, and what happens at its address is not in it."""
    steps = [step(1, "A", kind="agent"), step(2, "A", kind="event")]
    assert parents(tmp_path, *steps, call(1, "A/x")) == {"s1": None, "s2": "s1", "i1": "s1"}


def test_starts_that_were_not_recorded(tmp_path: Path) -> None:
    """Calls without a start follow one another; the first one with a start is where the run begins."""
    calls = [call(n, f"x#{n}") for n in (1, 2, 3)]
    times = {"t1": Timing(duration_ms=5.0), "t2": Timing(duration_ms=2.0), "t3": Timing(start_ms=1.0, duration_ms=1.0)}
    assert [node.start_ms for node in placed_in(cassette(tmp_path, *calls, **times))] == [0.0, 5.0, 0.0]


def test_no_record_is_kept(tmp_path: Path) -> None:
    """Whoever goes through the records of a large cassette has one of them in memory."""
    ref, gone = None, []
    for node in placed_in(cassette(tmp_path, *(call(n, f"x#{n}") for n in (1, 2, 3)))):
        gone.append(ref is None or ref() is None)
        ref = weakref.ref(node.record)
        del node
    assert gone == [True, True, True]


@pytest.mark.slow
def test_no_record_is_kept_for_its_span(tmp_path: Path) -> None:
    """Of a large cassette, the spans of all records are made with a few of these in memory."""
    many = cassette(tmp_path, *(call(n, f"x#{n}") for n in range(1, 40)))
    before = sum(isinstance(it, Interaction) for it in gc.get_objects())
    now = [
        sum(isinstance(it, Interaction) for it in gc.get_objects()) if number % 8 == 7 else before
        for number, _ in enumerate(spans_in(many))
    ]
    assert len(now) == 40
    assert max(now) <= before + 3


def test_the_ids_of_tool_calls(tmp_path: Path) -> None:
    """A tool's call has the id that it names, or the first one with its arguments; each id is given once."""

    def asked(ident: str, q: int) -> dict[str, Any]:
        return {"name": "find", "args": {"q": q}, "id": ident}

    answer = {"message": {"content": "", "tool_calls": [asked("a", 1), asked("b", 1), asked("c", 1), asked("d", 2)]}}
    chat = call(1, "m", {"$chat_result": answer}, kind="chat")
    same = {"kind": "tool", "name": "find", "request": {"name": "find", "arguments": {"q": 1}}}
    tools = [call(2, "t", ids=["b"], **same), *(call(number, f"t#{number}", **same) for number in (3, 4, 5))]
    tools += [call(6, "t#6", kind="tool", request={"name": "other", "arguments": {"q": 2}})]
    assert tool_call_ids([chat, *tools]) == {2: "b", 3: "a", 4: "c"}


@pytest.mark.parametrize(
    ("said", "class_name", "name"),
    [
        ("openai", "ChatOpenAI", "openai"),
        (None, "AzureChatOpenAI", "azure.ai.openai"),
        (None, "Anthropic", "anthropic"),
        ("google_genai", "ChatGoogleGenerativeAI", "gcp.gen_ai"),
        (None, "ChatBedrockConverse", "aws.bedrock"),
        (None, "MistralAI", "mistral_ai"),
        ("ollama", "ChatOllama", "ollama"),
        (None, "ScriptedLLM", "ScriptedLLM"),
    ],
)
def test_provider(said: str | None, class_name: str, name: str) -> None:
    """A provider is called as the conventions call it, or what the framework calls it."""
    assert provider_name(said, class_name) == name


def test_the_words_are_of_the_conventions() -> None:
    """The operations and providers that spans name are those that the installed conventions define."""
    assert set(OPERATIONS.values()) | {"invoke_workflow"} <= {
        each.value for each in conventions.GenAiOperationNameValues
    }
    names = [
        "ChatOpenAI",
        "AzureOpenAI",
        "AzureAIInference",
        "Anthropic",
        "Bedrock",
        "ChatVertexAI",
        "Gemini",
        "Cohere",
        "GoogleGenAI",
    ]
    names += ["ChatGoogleGenerativeAI", "DeepSeek", "Groq", "ChatWatsonx", "ChatMistralAI", "ChatXAI", "ChatPerplexity"]
    defined = {each.value for each in conventions.GenAiProviderNameValues}
    assert {provider_name(None, name) for name in names} == defined
