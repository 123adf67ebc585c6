"""Checks about tool calls."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

from agenttape_core.testing import expect

from ..calls import finished
from ..comparison import text_of
from ..llm_hooks import LLMHooks
from ..suite import check, needs, shown


class ToolChecks(LLMHooks):
    """The checks about tools: skipped for an LLM that calls none."""

    @check
    def test_tool_is_asked_for(self) -> None:
        """An LLM that is given tools asks for one of them, with an id and arguments."""
        for call in ("chat_with_tools", "achat_with_tools"):
            llm = self.tool_caller()
            selections = self._asked_for(llm, finished(self._with_tools(llm, call)))
            names = {tool.metadata.name for tool in self.tools()}
            for wanted in selections:
                expect(isinstance(wanted, ToolSelection), f"{call}: a tool call is a {type(wanted).__name__}")
                expect(wanted.tool_name in names, f"{call}: asks for {wanted.tool_name!r}, there is {names}")
                expect(wanted.tool_id, f"{call}: the tool call has no id")
                expect(isinstance(wanted.tool_kwargs, dict), f"{call}: the arguments are {wanted.tool_kwargs!r}")

    @check
    def test_async_tool_calls_are_the_same(self) -> None:
        """`achat_with_tools` asks for the tool calls of `chat_with_tools`."""
        llms = self.tool_caller(), self.tool_caller()
        first = finished(self._with_tools(llms[0], "chat_with_tools"))
        second = finished(self._with_tools(llms[1], "achat_with_tools"))
        self.expect_same("chat_with_tools, then achat_with_tools", first, second)

    @check
    def test_stream_ends_with_the_tool_call(self) -> None:
        """The last chunk of a stream asks for the tool calls of the plain call."""
        needs(self.streams, "does not stream")
        for call in ("stream_chat_with_tools", "astream_chat_with_tools"):
            llm = self.tool_caller()
            plain = self._asked_for(llm, finished(self._with_tools(llm, "chat_with_tools")))
            chunks = finished(self._with_tools(llm, call))
            expect(chunks, f"{call} streams nothing")
            streamed = self._asked_for(llm, chunks[-1])
            if self.deterministic:
                expect(_facts(plain) == _facts(streamed), f"{call}: asks for {_facts(streamed)}, not {_facts(plain)}")

    @check
    def test_every_chunk_can_be_asked_for_tool_calls(self) -> None:
        """`get_tool_calls_from_response` reads each chunk of a stream, also one with half a tool call."""
        needs(self.streams, "does not stream")
        llm = self.tool_caller()
        for number, chunk in enumerate(finished(self._with_tools(llm, "stream_chat_with_tools")), 1):
            found = llm.get_tool_calls_from_response(chunk, error_on_no_tool_call=False)
            expect(isinstance(found, list), f"chunk {number}: the tool calls are {shown(found)}")

    @check
    def test_tool_is_called(self) -> None:
        """`predict_and_call` and `apredict_and_call` call the tool, and answer with its result."""
        for call in ("predict_and_call", "apredict_and_call"):
            answer = finished(getattr(self.tool_caller(), call)(self.tools(), user_msg=self.tool_question))
            expect(answer.sources, f"{call}: no tool was called: {shown(answer)}")
            output = answer.sources[0]
            expect(not output.is_error, f"{call}: the tool failed: {output.content}")
            expect(output.content in answer.response, f"{call}: answers {answer.response!r}, not {output.content!r}")

    @check
    def test_tool_result_is_answered(self) -> None:
        """A conversation in which a tool was asked for and has answered gets a text."""
        llm = self.tool_caller()
        asking = finished(self._with_tools(llm, "chat_with_tools"))
        results = [
            ChatMessage(
                role=MessageRole.TOOL,
                content="It is sunny in Paris.",
                additional_kwargs={"tool_call_id": wanted.tool_id, "name": wanted.tool_name},
            )
            for wanted in self._asked_for(llm, asking)
        ]
        history = [ChatMessage(role=MessageRole.USER, content=self.tool_question), asking.message, *results]
        answer = llm.chat_with_tools(self.tools(), chat_history=history)
        expect(text_of(answer), f"the results of the tools were answered with {shown(answer)}")

    @check
    def test_missing_tool_call_is_an_error_if_asked(self) -> None:
        """An answer without a tool call raises `ValueError` if one is expected, and gives an empty list if not."""
        llm = self.tool_caller()
        answer = self.ask(llm, "chat")
        found = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        expect(found == [], f"found the tool calls {found} in a text")
        try:
            found = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=True)
        except ValueError:
            return
        raise AssertionError(f"get_tool_calls_from_response found {found} in a text, and did not raise")

    def _with_tools(self, llm: FunctionCallingLLM, call: str) -> Any:
        return getattr(llm, call)(self.tools(), user_msg=self.tool_question)

    def _asked_for(self, llm: FunctionCallingLLM, response: Any) -> list[ToolSelection]:
        found = llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        expect(found, f"no tool is asked for: {shown(response)}")
        return found


def _facts(selections: list[ToolSelection]) -> list[Any]:
    return [(wanted.tool_name, wanted.tool_kwargs) for wanted in selections]
