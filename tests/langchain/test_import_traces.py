"""Traces become cassettes: our own exports come back whole, spans of other tools as far as they tell."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.langchain import LangChainTracer
from langchain_core.tracers.schemas import Run
from langchain_openai import ChatOpenAI
from openai import RateLimitError
from pydantic import BaseModel

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteFormatError, CassetteMissError
from agenttape_core.tools.export import otlp_lines
from agenttape_core.tools.export.spans import spans_of
from agenttape_langchain.importers import import_otel

from ..kit.world import World
from .fakes import StreamingChat

reached: list[str] = []
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": "Hello."}], "finish_reason": "stop"}]
GENAI = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5-mini"}
CONTENT = {"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(SAID)}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-5-mini",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Hi",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Hello.",
}


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    reached.append(city)
    return f"sunny in {city}"


def otlp(value: Any) -> dict[str, Any]:
    """Return a value as OTLP/JSON has it."""
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp(item) for item in value]}}
    key = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}[type(value)]
    return {key: str(value) if key == "intValue" else value}


def pairs(attributes: dict[str, Any]) -> list[Any]:
    """Return attributes as OTLP/JSON has them."""
    return [{"key": key, "value": otlp(value)} for key, value in attributes.items()]


def span(attributes: dict[str, Any], name: str = "chat gpt-5-mini", **fields: Any) -> dict[str, Any]:
    """Return a span of OTLP/JSON."""
    times = {"startTimeUnixNano": "1000000000", "endTimeUnixNano": "1004000000"}
    return {"spanId": uuid4().hex[:16], "name": name, "attributes": pairs(attributes), **times, **fields}


def imported(folder: Path, *spans: Any, whole: Any = None) -> Any:
    """Import spans as `new.yaml`."""
    document = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]} if whole is None else whole
    (folder / "trace.json").write_text(json.dumps(document), encoding="utf-8")
    return import_otel(folder / "trace.json", folder / "new.yaml", overwrite=True)


def exported(cassette: Path, target: Path, *, content: bool = True) -> Path:
    """Write the spans of a cassette to a file."""
    target.write_text("\n".join(otlp_lines(spans_of(open_cassette(cassette), content=content))), encoding="utf-8")
    return target


def said(messages: Sequence[BaseMessage], number: int) -> AIMessage:
    """Ask for the weather, and then tell it."""
    call = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}
    return AIMessage("", tool_calls=[call]) if len(messages) == 1 else AIMessage("It is sunny.", id=f"a{number}")


def an_agent(world: World) -> Any:
    """Return an agent with a scripted model."""
    return create_agent(StreamingChat(world=world, reply=said), [get_weather])


def test_our_own_export_comes_back(tmp_path: Path, world: World) -> None:
    """An export with content holds the cassette: its records, also of a stream, replay the same run exactly."""
    question = {"messages": [HumanMessage("Weather in Paris?", id="q1")]}
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        live = list(an_agent(world).stream(question, stream_mode="messages"))
    report = import_otel(exported(tmp_path / "run.yaml", tmp_path / "trace.json"), tmp_path / "back.yaml")
    assert [item.fidelity for item in report.items] == ["exact"] * 3
    first, second = open_cassette(tmp_path / "run.yaml"), open_cassette(tmp_path / "back.yaml")
    assert list(second.records()) == list(first.records())
    assert second.header.model_copy(update={"redaction": first.header.redaction}) == first.header
    done = len(reached)
    with use_cassette(tmp_path / "back.yaml") as replay:
        assert list(an_agent(world).stream(question, stream_mode="messages")) == live
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert len(reached) == done


def test_an_export_with_secrets_is_lossy(tmp_path: Path, world: World) -> None:
    """The key of pseudonyms is in no export, so that a request with a secret is not sure to match, and this is said."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        StreamingChat(world=world).invoke("My password: hunter2")
    report = import_otel(exported(tmp_path / "run.yaml", tmp_path / "trace.json"), tmp_path / "back.yaml")
    assert ["pseudonyms" in item.reason for item in report.lossy] == [True]


def test_an_export_without_content(tmp_path: Path, world: World) -> None:
    """Of an export without content each call is missing, with the option that adds it."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        an_agent(world).invoke({"messages": [("user", "Weather in Paris?")]})
    trace = exported(tmp_path / "run.yaml", tmp_path / "trace.json", content=False)
    report = import_otel(trace, tmp_path / "back.yaml")
    assert ["--content" in item.reason for item in report.missing] == [True] * 3


@pytest.mark.parametrize(
    "told",
    [
        span({**GENAI, **CONTENT}),
        span(GENAI, events=[{"name": "gen_ai.client.inference.operation.details", "attributes": pairs(CONTENT)}]),
        span(
            {
                "gen_ai.system": "openai",
                "llm.request.type": "chat",
                "gen_ai.request.model": "gpt-5-mini",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "Hi",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "Hello.",
            }
        ),
        span(OPENINFERENCE),
        span({**OPENINFERENCE, "llm.invocation_parameters": '{"model": "gpt-5-mini", "stream": false}'}),
    ],
    ids=["GenAI", "GenAI in an event", "OpenLLMetry", "OpenInference", "OpenInference with parameters"],
)
def test_the_words_of_each_convention(tmp_path: Path, told: dict[str, Any]) -> None:
    """Whatever convention names it, a call is lossy, and answers the program that asks for it on request."""
    (item,) = imported(tmp_path, told).items
    assert (item.fidelity, "metadata" in item.reason) == ("lossy", True)
    model = ChatOpenAI(model="gpt-5-mini", api_key="x")
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "new.yaml", on_unused="ignore"):
        model.invoke("Hi")
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}):
        assert model.invoke("Hi").text == "Hello."


def _bare(plain: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in plain["attributes"]}


SPAN = span({**GENAI, **CONTENT})
NESTED: dict[str, Any] = {
    "openinference": {"span": {"kind": "LLM"}},
    "llm": {
        "model_name": "gpt-5-mini",
        "input_messages": [{"message": {"role": "user", "content": "Hi"}}],
        "output_messages": [{"message": {"role": "assistant", "content": "Hello."}}],
    },
}


@pytest.mark.parametrize(
    "whole",
    [
        {"resource_spans": [{"scope_spans": [{"spans": [SPAN]}]}]},
        [{"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}],
        [{"name": "chat", "context": {"span_id": "0x1"}, "parent_id": None, "attributes": _bare(SPAN),
          "start_time": "2026-11-23T01:02:03.5Z", "end_time": "2026-11-23T01:02:04Z", "events": [],
          "status": {"status_code": "UNSET"}}],
        {"data": [{"name": "ChatOpenAI", "context": {"span_id": "1"}, "status_code": "OK",
                   "attributes": NESTED}]},
    ],
    ids=["snake case", "lines", "the SDK's console", "nested attributes"],
)  # fmt: skip
def test_the_shapes_of_files(tmp_path: Path, whole: Any) -> None:
    """OTLP/JSON in either spelling, the console exporter's JSON and the lists of tracing tools hold the same."""
    report = imported(tmp_path, whole=whole)
    assert [item.fidelity for item in report.items] == ["lossy"]
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}):
        assert ChatOpenAI(model="gpt-5-mini", api_key="x").invoke("Hi").text == "Hello."


def test_an_agent_in_the_words_of_the_conventions(tmp_path: Path) -> None:
    """Parameters, instructions, tools, calls and their results make the requests that the agent's model gets."""
    call = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Paris"}}
    back = {"type": "tool_call_response", "id": "c1", "response": "sunny in Paris"}
    system = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}])}
    question = {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
    first = {"gen_ai.input.messages": [question], "gen_ai.output.messages": [{"role": "assistant", "parts": [call]}]}
    history = [question, {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [back]}]
    second = {"gen_ai.input.messages": history, "gen_ai.output.messages": SAID}
    chats = [
        span(
            {
                **GENAI,
                "gen_ai.request.model": "gpt-4o",
                **system,
                "gen_ai.request.temperature": 0.5,
                **{k: json.dumps(v) for k, v in told.items()},
            }
        )
        for told in (first, second)
    ]
    used = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"city": "Paris"}',
        "gen_ai.tool.call.result": "sunny in Paris",
    }
    agent = span({"gen_ai.operation.name": "invoke_agent"}, "invoke_agent desk", spanId="a")
    report = imported(tmp_path, agent, *({**each, "parentSpanId": "a"} for each in (chats[0], span(used), chats[1])))
    assert [item.fidelity for item in report.items] == ["lossy"] * 3
    asked = [("system", "Be brief."), ("user", "Weather?")]
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}):
        model = ChatOpenAI(model="gpt-4o", temperature=0.5, api_key="x")
        said = model.invoke(asked)
        result = get_weather.invoke(said.tool_calls[0])
        assert model.invoke([*asked, said, result]).text == "Hello."
    assert open_cassette(tmp_path / "new.yaml").interaction(1).address.startswith("invoke_agent desk/")


def test_openinference_of_langchain_is_exact(tmp_path: Path, world: World) -> None:
    """Its spans hold what callbacks received: an agent replays strictly, with the same messages, at its places."""

    class OpenInference(BaseTracer):
        """Writes spans as OpenInference's instrumentation of LangChain does: inputs and outputs of runs, as JSON."""

        def __init__(self) -> None:
            super().__init__()
            self.spans: list[dict[str, Any]] = []

        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> Run:
            return LangChainTracer.on_chat_model_start(self, *args, **kwargs)  # type: ignore[arg-type]

        def _persist_run(self, run: Run) -> None:
            pass

        def _end_trace(self, run: Run) -> None:
            extra = run.extra or {}
            told = {
                "openinference.span.kind": {"chat_model": "LLM"}.get(run.run_type, run.run_type.upper()),
                "input.value": self._written(run.inputs),
                "llm.invocation_parameters": json.dumps(extra.get("invocation_params", {})),
                "metadata": json.dumps(extra.get("metadata", {}), default=str),
            }
            if run.outputs:
                told["output.value"] = self._written(run.outputs)
            fields: dict[str, Any] = {"spanId": str(run.id), "parentSpanId": str(run.parent_run_id or "")}
            fields["startTimeUnixNano"] = str(int(run.start_time.timestamp() * 1e9))
            self.spans.append(span(told, run.name, **fields))

        @staticmethod
        def _written(plain: dict[str, Any]) -> str:
            (*_, value) = plain.values()
            if len(plain) == 1 and isinstance(value, str):
                return value
            alone = len(plain) == 1 and plain.keys() <= {"input", "output"}
            return json.dumps(
                value if alone else plain,
                default=lambda each: each.model_dump() if isinstance(each, BaseModel) else repr(each),
            )

    tracer, question = OpenInference(), {"messages": [HumanMessage("Weather in Paris?", id="q1")]}
    live = an_agent(world).invoke(question, config={"callbacks": [tracer]})["messages"]
    report = imported(tmp_path, *tracer.spans)
    assert [item.fidelity for item in report.items] == ["exact"] * 3, str(report)
    done = len(reached)
    with use_cassette(tmp_path / "new.yaml") as replay:
        replayed = an_agent(world).invoke(question)["messages"]
    assert [said.model_dump(exclude={"id"}) for said in replayed] == [said.model_dump(exclude={"id"}) for said in live]
    assert [said.id for said in replayed if isinstance(said, AIMessage)] == [
        said.id for said in live if isinstance(said, AIMessage)
    ]
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert len(reached) == done


@pytest.mark.parametrize(
    "told",
    [
        {"gen_ai.operation.name": "chat", **CONTENT},
        {**GENAI, "gen_ai.request.model": "", **CONTENT},
        {key: value for key, value in OPENINFERENCE.items() if key != "llm.model_name"},
        {**OPENINFERENCE, "llm.model_name": ""},
    ],
)
def test_a_trace_without_a_model_name(tmp_path: Path, told: dict[str, Any]) -> None:
    """A span that doesn't name its model is imported: local servers often have no name."""
    report = imported(tmp_path, span(told))
    assert (len(report.exact) + len(report.lossy), len(report.missing)) == (1, 0)
    assert next(iter(open_cassette(tmp_path / "new.yaml").interactions())).kind == "chat"


def test_an_error(tmp_path: Path) -> None:
    """A span that failed is a call that raises the error that the span names."""
    event = {
        "name": "exception",
        "attributes": pairs({"exception.type": "openai.RateLimitError", "exception.message": "slow down"}),
    }
    imported(tmp_path, span({**GENAI, "gen_ai.input.messages": json.dumps(ASKED)}, events=[event], status={"code": 2}))
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}), pytest.raises(RateLimitError, match="slow down"):
        ChatOpenAI(model="gpt-5-mini", api_key="x", max_retries=0).invoke("Hi")


@pytest.mark.parametrize("role", ["system", "developer", "user", "human", "assistant", "ai", "chatbot", "model"])
def test_roles(tmp_path: Path, role: str) -> None:
    """A role is known by each of the names that the conventions and the tracers have for it."""
    asked = json.dumps([{"role": role, "parts": [{"type": "text", "content": "Hi"}]}])
    (item,) = imported(tmp_path, span({**GENAI, **CONTENT, "gen_ai.input.messages": asked})).items
    assert item.fidelity == "lossy"


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (GENAI, "its content is not in the trace"),
        ({"openinference.span.kind": "LLM"}, "its content is not in the trace"),
        ({"openinference.span.kind": "EMBEDDING"}, "no vectors"),
        ({**GENAI, "gen_ai.operation.name": "embeddings"}, "no vectors"),
        ({**GENAI, **CONTENT, "gen_ai.input.messages": '[{"role": "oracle"}]'}, "unknown role 'oracle'"),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}, "its content is not in the trace"),
        ({"gen_ai.operation.name": "retrieval"}, "its content is not in the trace"),
    ],
)
def test_what_is_not_told(tmp_path: Path, attributes: dict[str, Any], reason: str) -> None:
    """A call of which the trace tells too little is missing, with the reason, and the cassette notes the gap."""
    (item,) = imported(tmp_path, span(attributes)).items
    assert (item.fidelity, reason in item.reason) == ("missing", True)
    assert open_cassette(tmp_path / "new.yaml").has_step("gap")


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        ({"resourceSpans": []}, "there are no spans"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}, "a span with an id and a name"),
        ({"resourceSpans": 3}, "a list"),
        ([1], "a mapping"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [span({"agenttape.record": "[]", "agenttape.header": "{}"})]}]}]},
         "a record of AgentTape"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [span({"agenttape.record": "{}"})]}]}]}, "holds 0 cassettes"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, whole: Any, told: str) -> None:
    """What holds no spans, or a damaged record of ours, is refused with its place, and nothing is written."""
    with pytest.raises(CassetteFormatError, match=told):
        imported(tmp_path, whole=whole)
    assert not (tmp_path / "new.yaml").exists()


def test_deep_attributes(tmp_path: Path) -> None:
    """An attribute that is nested too deep is a malformed file, and no other error."""
    deep: Any = "x"
    for _ in range(300):
        deep = {"arrayValue": {"values": [deep]}}
    told = span({})
    told["attributes"] = [{"key": "a", "value": deep}]
    with pytest.raises(CassetteFormatError):
        imported(tmp_path, told)


def test_a_small_file_that_unpacks_to_a_large_one(tmp_path: Path) -> None:
    """A packed file may not cost more than what its size can hold: it is refused before it is parsed."""
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(b"[" + b" " * 17 * 1024 * 1024 + b"]"))
    with pytest.raises(CassetteFormatError, match="limit of 16777216 bytes, unpacked"):
        import_otel(tmp_path / "trace.json.gz", tmp_path / "new.yaml")
