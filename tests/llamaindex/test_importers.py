"""Importers and traces make calls of LlamaIndex, or say which package is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.tools import FunctionTool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import CassetteMissError
from agenttape_core.integration.importing import NotImportableError
from agenttape_core.tools.export import otlp_lines
from agenttape_core.tools.export.spans import spans_of
from agenttape_llamaindex import tape
from agenttape_llamaindex.importers import import_agenttape01, import_otel, import_vcr
from agenttape_llamaindex.importers.anthropic_messages import read_call as read_messages
from agenttape_llamaindex.importers.openai_completions import read_call as read_completions
from agenttape_llamaindex.importers.openai_responses import read_call as read_responses
from agenttape_llamaindex.importers.requests import History

from ..kit.world import World
from .scripted import ScriptedLLM

# -- Importers make calls of LlamaIndex, or say which package is missing; see `openai_packages` for the providers' -----

PATHS = {
    "chat": ("https://api.openai.com/v1/chat/completions", {"model": "m", "messages": []}, "llama-index-llms-openai"),
    "responses": ("https://api.openai.com/v1/responses", {"model": "m", "input": "Hi"}, "llama-index-llms-openai"),
    "claude": (
        "https://api.anthropic.com/v1/messages",
        {"model": "m", "messages": [], "max_tokens": 5},
        "llama-index-llms-anthropic",
    ),
    "azure": (
        "https://mine.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-06-01",
        {"model": "mine", "messages": []},
        "llama-index-llms-azure-openai",
    ),
    "azure's embeddings": (
        "https://mine.openai.azure.com/openai/deployments/mine/embeddings?api-version=2024-06-01",
        {"model": "m", "input": ["Hi"]},
        "llama-index-embeddings-azure-openai",
    ),
    "embeddings": (
        "https://api.openai.com/v1/embeddings",
        {"model": "m", "input": ["Hi"]},
        "llama-index-embeddings-openai",
    ),
}


def vcr_file(folder: Path, url: str, request: Any) -> Path:
    """A cassette of vcrpy, of one request."""
    sent = {"method": "POST", "uri": url, "body": json.dumps(request), "headers": {}}
    got = {"status": {"code": 200}, "headers": {}, "body": {"string": "{}"}}
    (folder / "vcr.json").write_text(json.dumps({"version": 1, "interactions": [{"request": sent, "response": got}]}))
    return folder / "vcr.json"


@pytest.mark.parametrize("name", PATHS)
def test_a_call_whose_package_is_missing_names_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LlamaIndex's package for the provider a call is missing, and the report says what to install."""
    url, request, package = PATHS[name]
    for module in (
        "llms.openai",
        "llms.anthropic",
        "llms.azure_openai",
        "embeddings.openai",
        "embeddings.azure_openai",
    ):
        monkeypatch.setitem(sys.modules, f"llama_index.{module}", None)
    (item,) = import_vcr(vcr_file(tmp_path, url, request), tmp_path / "new.yaml").items
    assert item.fidelity == "missing"
    assert f"pip install {package}," in item.reason


def test_the_command_makes_calls_of_either_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`agenttape import --for` chooses the framework, and names those that there are."""
    monkeypatch.setitem(sys.modules, "llama_index.llms.openai", None)
    source, target = vcr_file(tmp_path, *PATHS["chat"][:2]), tmp_path / "new.yaml"
    assert run(["import", str(source), "-o", str(target), "--for", "llamaindex"]) == 1
    assert "llama-index-llms-openai" in capsys.readouterr().out
    assert run(["import", str(source), "-o", str(target), "--for", "nothing"]) == 2
    assert "'nothing' is installed; there are: langchain, llamaindex" in capsys.readouterr().err


GRAPH = {"kind": "memory", "boundary": "notes", "request": {}, "response": None}


def test_tools_of_agenttape01_are_replayed(tmp_path: Path) -> None:
    """A tool that agenttape 0.1 recorded answers a tool of LlamaIndex; memory is missing."""
    tool = {
        "kind": "tool",
        "boundary": "look",
        "request": {"args": {"city": "Oslo"}},
        "response": "rain",
        "latency_ms": 12.0,
    }

    old = {"version": "1", "interactions": [tool, GRAPH]}
    (tmp_path / "old.json").write_text(json.dumps(old))
    report = import_agenttape01(tmp_path / "old.json", tmp_path / "new.yaml")
    assert [item.fidelity for item in report.items] == ["exact", "missing"]

    def look(city: str) -> str:
        """Look."""
        raise AssertionError(city)

    with use_cassette(tmp_path / "new.yaml"):
        assert FunctionTool.from_defaults(fn=look)(city="Oslo").content == "rain"


def test_a_conversation_is_read_back() -> None:
    """Roles, parts, tool calls and results come back; an answer that was imported before is that answer."""
    conversation: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]

    earlier = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_call_id="1", tool_name="look", tool_kwargs={})])
    history = History()
    history.add(earlier)
    call = read_completions({"model": "m", "messages": conversation[:1] + conversation[2:], "seed": 1}, history)
    assert [message.role.value for message in call.messages] == ["system", "assistant", "tool"]
    assert call.messages[1] is earlier
    assert call.messages[2].additional_kwargs == {"tool_call_id": "1"}
    assert call.settings == {"model": "m", "additional_kwargs": {"seed": 1}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "type"]), inner, max_size=3),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "system", "tool", "developer", "other"])
KINDS = st.sampled_from(["text", "image_url", "image", "tool_use", "tool_result", "function_call", "message"])
PART = st.fixed_dictionaries({"type": KINDS}, optional={"text": JSON, "image_url": JSON, "source": JSON, "input": JSON})
ITEM = st.fixed_dictionaries(
    {},
    optional={"role": ROLES, "type": KINDS, "content": JSON | st.lists(PART, max_size=3), "tool_calls": JSON},
)
REQUESTS = st.fixed_dictionaries(
    {"model": st.just("m")},
    optional={"messages": st.lists(ITEM, max_size=3) | JSON, "input": st.lists(ITEM, max_size=3) | JSON, "tools": JSON},
)


@given(REQUESTS)
def test_any_request(request: Any) -> None:
    """A request of any form is read as a call, or refused; nothing else is raised than what the importer expects."""
    for read in (read_completions, read_responses, read_messages):
        try:
            call = read(request, History())
        except (NotImportableError, TypeError, ValueError):
            continue
        assert all(isinstance(message, ChatMessage) for message in call.messages)


# -- Traces become calls of LlamaIndex: our own exports come back whole, spans in the words of a convention lossy ------

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
