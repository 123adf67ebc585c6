"""The calls that produced the real exchanges in `../shared/data/openai`, made with the real client.

One function per data file, named like it. Each takes a factory of `ChatOpenAI` (base URL and key are its
business), makes exactly the calls whose request bodies the file records, in the file's order, and returns
what came back: an `AIMessage` per plain call, the list of chunks per streamed one. So a test can run the
same function live, recording and replaying, and compare the results. Every request is produced by the public
client as it is recorded; no file needs a lenient comparison.

The calls come from the integration tests of `langchain-openai`; the embeddings file is played in `test_embeddings.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, custom_tool
from pydantic import BaseModel

ChatFactory: TypeAlias = Callable[..., ChatOpenAI]
Result: TypeAlias = AIMessage | list[AIMessageChunk]

CAT = "Write a story about a cat."
BEAR = "Tell me a 100 word story about a bear."
NEWS = "What was a positive news story from today?"
BAD_NEWS = "what about a negative one"
SEARCH = {"type": "web_search_preview"}


class Foo(BaseModel):
    response: str


def multiply(x: int, y: int) -> int:
    """return x * y"""  # noqa: D403, D415 - sent to the model; must be as recorded
    return x * y


@tool
def get_weather(location: str) -> str:
    """Get the weather for a location."""
    return "It's sunny."


@custom_tool
def execute_code(code: str) -> str:
    """Execute python code."""
    return "27"


def chunks_of(stream: Any) -> list[AIMessageChunk]:
    """Drain a stream of message chunks, checking their type."""
    chunks = list(stream)
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    return chunks


def whole(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    """The message that the chunks make together."""
    return reduce(add, chunks)


def agent_loop(chat: ChatFactory) -> list[Result]:
    """A tool call and the answer to its result."""
    model = chat(model="gpt-5.4", use_responses_api=True, output_version="responses/v1").bind_tools([get_weather])
    question = _user("What is the weather in San Francisco, CA?")
    call = model.invoke([question])
    answer = model.invoke([question, call, get_weather.invoke(call.tool_calls[0])])
    return [call, answer]


def agent_loop_streaming(chat: ChatFactory) -> list[Result]:
    """A tool call and its answer, both streamed, with reasoning items in the history."""
    model = chat(
        model="gpt-5.2",
        use_responses_api=True,
        reasoning={"effort": "medium", "summary": "auto"},
        streaming=True,
        output_version="v1",
    ).bind_tools([get_weather])
    question = _user("What is the weather in San Francisco, CA?")
    calling = chunks_of(model.stream([question]))
    call = whole(calling)
    answering = chunks_of(model.stream([question, call, get_weather.invoke(call.tool_calls[0])]))
    return [calling, answering]


def chat_completions_long_stream(chat: ChatFactory) -> list[Result]:
    """One long stream of Chat Completions."""
    return [chunks_of(chat(model="gpt-4o-mini", stream_usage=True).stream(CAT))]


def code_interpreter(chat: ChatFactory) -> list[Result]:
    """A built-in tool whose container is used again, and its call passed back."""
    model = chat(model="gpt-5-nano", use_responses_api=True, output_version="responses/v1")
    question = _user("Write and run code to answer the question: what is 3^3?")
    first = model.bind_tools([_interpreter({"type": "auto"})]).invoke([question])
    container = next(block["container_id"] for block in _blocks(first) if "container_id" in block)
    same = model.bind_tools([_interpreter(container)])
    again = chunks_of(same.stream([question]))
    commented = same.invoke([question, whole(again), _user("Please add more comments to the code.")])
    return [first, again, commented]


def custom_tool_calls(chat: ChatFactory) -> list[Result]:
    """A custom tool with free-form input: called, answered, called streamed."""
    model = chat(model="gpt-5", output_version="responses/v1").bind_tools([execute_code])
    question = _user("Use the tool to evaluate 3^3.")
    call = model.invoke([question])
    answer = model.invoke([question, call, execute_code.invoke(call.tool_calls[0])])
    return [call, answer, chunks_of(model.stream([question]))]


def function_calling(chat: ChatFactory) -> list[Result]:
    """A function beside a built-in tool; each is chosen once."""
    model = chat(model="gpt-4o-mini").bind_tools([multiply, SEARCH])
    question = "whats 5 * 4"
    return [model.invoke(question), chunks_of(model.stream(question)), model.invoke(NEWS)]


def incomplete_response(chat: ChatFactory) -> list[Result]:
    """An answer that the token limit cut off, plain and streamed."""
    model = chat(model="gpt-4o-mini", use_responses_api=True, max_tokens=16)
    return [model.invoke(BEAR), chunks_of(model.stream(BEAR))]


def parsed_pydantic_schema(chat: ChatFactory) -> list[Result]:
    """Structured output: the parsed pydantic object rides along with the message."""
    model = chat(model="gpt-4o-mini", use_responses_api=True, output_version="responses/v1")
    question = "how are ya"
    plain = model.invoke(question, response_format=Foo)
    return [plain, chunks_of(model.stream(question, response_format=Foo))]


def reasoning(chat: ChatFactory) -> list[Result]:
    """Reasoning requested per call, then by the model's own setting, streamed."""
    plain = chat(model="gpt-5-nano", use_responses_api=True, output_version="responses/v1")
    set_up = chat(model="gpt-5-nano", reasoning={"effort": "low"}, output_version="responses/v1")
    return [plain.invoke("Hello", reasoning={"effort": "low"}), chunks_of(set_up.stream("Hello"))]


def stream_reasoning_summary(chat: ChatFactory) -> list[Result]:
    """Streamed summaries of the reasoning, passed back in the history."""
    effort = {"effort": "medium", "summary": "auto"}
    model = chat(model="gpt-5-nano", reasoning=effort, output_version="responses/v1")
    question = _user("What was the third tallest buliding in the year 2000?")
    answering = chunks_of(model.stream([question]))
    return [answering, model.invoke([question, whole(answering), _user("Thank you.")])]


def web_search(chat: ChatFactory) -> list[Result]:
    """Web search: plain, streamed, stateful, with the history, and with the tool bound."""
    model = chat(model="gpt-4o-mini", output_version="responses/v1")
    first = model.invoke(NEWS, tools=[SEARCH])
    streamed = chunks_of(model.stream(NEWS, tools=[SEARCH]))
    stateful = model.invoke(BAD_NEWS, tools=[SEARCH], previous_response_id=first.response_metadata["id"])
    history = model.invoke([_user(NEWS), first, _user(BAD_NEWS)], tools=[SEARCH])
    return [first, streamed, stateful, history, model.bind_tools([SEARCH]).invoke(NEWS)]


CALLS: dict[str, Callable[[ChatFactory], list[Result]]] = {
    "agent_loop": agent_loop,
    "agent_loop_streaming": agent_loop_streaming,
    "chat_completions_long_stream": chat_completions_long_stream,
    "code_interpreter": code_interpreter,
    "custom_tool": custom_tool_calls,
    "function_calling": function_calling,
    "incomplete_response": incomplete_response,
    "parsed_pydantic_schema": parsed_pydantic_schema,
    "reasoning": reasoning,
    "stream_reasoning_summary": stream_reasoning_summary,
    "web_search": web_search,
}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _interpreter(container: Any) -> dict[str, Any]:
    return {"type": "code_interpreter", "container": container}


def _blocks(message: BaseMessage) -> list[dict[str, Any]]:
    return [block for block in message.content if isinstance(block, dict)]
