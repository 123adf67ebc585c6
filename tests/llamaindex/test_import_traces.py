"""Traces become calls of LlamaIndex: our own exports come back whole, spans in the words of a convention lossy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.tools.export import otlp_lines
from agenttape_core.tools.export.spans import spans_of
from agenttape_llamaindex import tape
from agenttape_llamaindex.importers import import_otel

from ..kit.world import World
from .scripted import ScriptedLLM

QUESTION = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="Weather in Paris?")]


def temperature(city: str) -> str:
    """Return the temperature of a city."""
    return f"21 degrees in {city}"


def asked(messages: Any, tools: Any) -> Any:
    """Call the tool first, and then answer."""
    return "It is warm." if messages[-1].role == "tool" else [("temperature", {"city": "Paris"})]


def program(world: World) -> list[Any]:
    """Let the model call the tool, and return all that came back."""
    llm, tool = tape(ScriptedLLM(world, asked)), tape(FunctionTool.from_defaults(temperature))
    first = llm.chat_with_tools([tool], chat_history=list(QUESTION))
    (call,) = llm.get_tool_calls_from_response(first)
    result = tool(**call.tool_kwargs)
    back = ChatMessage(role="tool", content=str(result.content), additional_kwargs={"tool_call_id": call.tool_id})
    second = llm.chat_with_tools([tool], chat_history=[*QUESTION, first.message, back])
    return [first.message, result.content, second.message]


def exported(folder: Path, world: World, *, whole: bool) -> tuple[Path, list[Any]]:
    """Record the program and write its spans, without what only our own importer reads if they are not `whole`."""
    with use_cassette(folder / "run.yaml", mode="all"):
        answers = program(world)
    world.gone = True
    text = "\n".join(otlp_lines(spans_of(open_cassette(folder / "run.yaml"), content=True)))
    path = folder / "trace.json"
    path.write_text(text if whole else text.replace('"agenttape.record"', '"x"').replace('"agenttape.header"', '"y"'))
    return path, answers


def test_our_own_export_comes_back(tmp_path: Path, world: World) -> None:
    """An export with content is the cassette: the same records, each replayed at its place."""
    trace, answers = exported(tmp_path, world, whole=True)
    report = import_otel(trace, tmp_path / "back.yaml")
    assert {item.fidelity for item in report.items} == {"exact"}
    assert list(open_cassette(tmp_path / "back.yaml").records()) == list(open_cassette(tmp_path / "run.yaml").records())
    with use_cassette(tmp_path / "back.yaml") as replay:
        assert program(world) == answers
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}


def test_the_words_of_the_conventions(tmp_path: Path, world: World) -> None:
    """Messages, tools and calls in the words of OpenTelemetry answer the same program, on request."""
    trace, answers = exported(tmp_path, world, whole=False)
    report = import_otel(trace, tmp_path / "back.yaml")
    assert {item.fidelity for item in report.items} == {"lossy"}, str(report)
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "back.yaml", on_unused="ignore"):
        program(world)
    with use_cassette(tmp_path / "back.yaml", accept={"lossy"}, on_unused="ignore"):
        assert program(world) == answers


def test_a_retrieval_and_an_image(tmp_path: Path) -> None:
    """Documents become nodes with their scores; an image is a block of its own."""
    image = {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"}
    asked = [{"role": "user", "parts": [{"type": "text", "content": "What is it?"}, image]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "A bike."}]}]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    chat |= {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
    found = [{"id": "n1", "content": "about bikes", "metadata": {"page": 1}, "score": 0.5}]
    retrieval = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "bikes"}
    retrieval["gen_ai.retrieval.documents"] = json.dumps(found)
    spans = [{"span_id": str(n), "name": "x", "attributes": told} for n, told in enumerate((chat, retrieval))]
    (tmp_path / "trace.json").write_text(json.dumps(spans))
    import_otel(tmp_path / "trace.json", tmp_path / "new.yaml")
    first, second = open_cassette(tmp_path / "new.yaml").interactions()
    assert [block["type"] for block in first.request["messages"][0]["content"]] == ["text", "image_url"]
    assert '"about bikes"' in second.model_dump_json()
    assert '"score":0.5' in second.model_dump_json()
