"""A cassette shows a conversation, and what tools answered, in the same terms, whichever framework had it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ImageBlock,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import FunctionTool

from agenttape_core import open_cassette, use_cassette
from agenttape_core.tools.oracle import entries_of

# -- A cassette shows a conversation in the same terms, whether LangChain or LlamaIndex had it -------------------------

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Tell it.", "parameters": {}}}
PNG = "iVBORw0KGgphYWFh"
SAID = "It is sunny."
USAGE = {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}


class LangChainModel(BaseChatModel):
    """Asks for the weather, then says it."""

    @property
    def _llm_type(self) -> str:
        return "model"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        calls = (
            [] if messages[-1].type == "tool" else [{"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1"}]
        )
        answer = AIMessage("" if calls else SAID, tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class LlamaIndexModel(MockLLM):
    """Does the same."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        call = ToolCallBlock(tool_call_id="call_1", tool_name="get_weather", tool_kwargs={"city": "Paris"})
        blocks = [TextBlock(text=SAID)] if messages[-1].role == "tool" else [call]
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), raw={"usage": USAGE})

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True)


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"sunny in {city}"


def langchain_conversation() -> None:
    """Talk to LangChain's model about a picture and the weather."""
    model, weather = LangChainModel(), tool(get_weather)
    media = [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "url": "https://example.com/paris.png"},
        {"type": "video", "base64": PNG, "mime_type": "video/mp4"},
    ]
    asked = [
        SystemMessage("Be brief."),
        HumanMessage([{"type": "text", "text": "Is this Paris?"}, *media]),
        AIMessage("It is."),
        HumanMessage("And the weather?"),
    ]
    answer = model.invoke(asked, tools=[TOOL])
    model.invoke([*asked, answer, weather.invoke(answer.tool_calls[0])], tools=[TOOL])


def llama_index_conversation() -> None:
    """Talk to LlamaIndex's in the same words."""
    model, weather = LlamaIndexModel(), FunctionTool.from_defaults(fn=get_weather)
    media = [
        ImageBlock(image=PNG.encode(), image_mimetype="image/png"),
        ImageBlock(url="https://example.com/paris.png"),
        VideoBlock(video=PNG.encode(), video_mimetype="video/mp4"),
    ]
    asked = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content=[TextBlock(text="Is this Paris?"), *media]),
        ChatMessage(role="assistant", content="It is."),
        ChatMessage(role="user", content="And the weather?"),
    ]
    answer = model.chat(asked, tools=[TOOL])
    output = weather.call(city="Paris")
    named = {"tool_call_id": "call_1", "name": "get_weather"}
    result = ChatMessage(role="tool", content=output.content, additional_kwargs=named)
    model.chat([*asked, answer.message, result], tools=[TOOL])


def said(value: Any) -> Any:
    """Return the message of an answer, without what its framework calls it."""
    if not isinstance(value, dict):
        return value
    ((_, answer),) = value.items()
    common = ("content", "tool_calls")
    return {key: answer["message"][key] for key in common if key in answer["message"]}


def test_conversation_is_shown_in_the_same_terms(tmp_path: Path) -> None:
    """Kinds, roles, contents, pictures, tools, tool calls, results, answers and token counts read alike."""

    def terms(path: Path) -> list[dict[str, Any]]:
        """Return what a cassette says of each call, in the terms that both frameworks have."""
        return [
            {
                "kind": row.kind,
                "request": {
                    key: value for key, value in row.request.items() if key in {"messages", "tools", "arguments"}
                },
                "said": said(row.outcome.value),
                "usage": row.outcome.usage,
            }
            for row in open_cassette(path).interactions()
        ]

    shown = {}
    for name, conversation in (("langchain", langchain_conversation), ("llama_index", llama_index_conversation)):
        with use_cassette(tmp_path / f"{name}.yaml", mode="all"):
            conversation()
        shown[name] = terms(tmp_path / f"{name}.yaml")
    assert [row["kind"] for row in shown["langchain"]] == ["chat", "tool", "chat"]
    assert shown["llama_index"] == shown["langchain"]


@pytest.mark.parametrize("conversation", [langchain_conversation, llama_index_conversation])
def test_second_question_continues_the_first(conversation: Any, tmp_path: Path) -> None:
    """What a conversation has said before is stored once, whichever framework sends it again."""
    with use_cassette(tmp_path / "talk.yaml", mode="all"):
        conversation()
    text = (tmp_path / "talk.yaml").read_text(encoding="utf-8")
    assert "continues: 1" in text
    assert text.count("Is this Paris?") == 1


# -- A tool oracle of agents of frameworks: what their tools answered, as plain as any tool does -----------------------


def test_frameworks_are_made_plain() -> None:
    """What a tool of LangChain or LlamaIndex answered is its content, without the objects around it."""

    @tool
    def search(query: str) -> str:
        """Search."""
        return f"found {query}"

    def find(query: str) -> str:
        """Find."""
        return f"found {query}"

    with use_cassette("frameworks", mode="once"):
        message = search.invoke({"name": "search", "args": {"query": "a"}, "id": "call_1", "type": "tool_call"})
        FunctionTool.from_defaults(find)(query="b")
    assert isinstance(message, ToolMessage)
    entries = entries_of(open_cassette("cassettes/frameworks.yaml"))
    assert [(entry.tool_name, entry.args, entry.response) for entry in entries] == [
        ("search", {"query": "a"}, "found a"),
        ("find", {"query": "b"}, "found b"),
    ]
