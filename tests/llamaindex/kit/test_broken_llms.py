"""Each check about LLMs fails on an LLM that is broken there.

Each LLM is the reference with one thing changed. Some things cannot be broken alone: `also` names the other checks that
must fail with it, and no other check may.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.callbacks import CBEventType
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from agenttape_core.testing import run_conformance
from agenttape_core.testing.running import checks_of

from .conformance import LLMConformance
from .reference import (
    OutOfOrderError,
    ReferenceLLM,
    ReferenceLLMConformance,
    eventually,
    growing,
    message,
    tool_call,
)

BROKEN: list[tuple[str, frozenset[str], type[LLMConformance]]] = []
CHATS = ("chat", "achat")
ANY = "any"
"""Says that any other check may fail too: nearly all of them make the call that is broken."""


def breaks(check: str, *also: str) -> Callable[[type], type]:
    """Note that an LLM is broken so that a check fails, and which others fail with it."""

    def note(broken: type) -> type:
        suite = type(broken.__name__, (ReferenceLLMConformance,), {"llm": broken})
        BROKEN.append((check, frozenset(also), suite))
        return broken

    return note


# -- answers -------------------------------------------------------------------------------------------------------


@breaks("test_chat_answers_with_an_assistant_message", "test_last_chunk_is_the_whole_answer")
class AnswersAsTheUser(ReferenceLLM):
    """The answer is a message of the user."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        found = super().answer(messages, tools, call)
        return found.model_copy(update={"role": MessageRole.USER}) if call in CHATS else found


@breaks(
    "test_complete_answers_with_a_text",
    "test_questions_are_told_apart",
    "test_last_chunk_is_the_whole_answer",
    "test_threads_get_their_own_answers",
    "test_tasks_get_their_own_answers",
)
class CompletesWithNothing(ReferenceLLM):
    """A completion has no text."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        found = super().answer(messages, tools, call)
        return message(TextBlock(text="")) if call in {"complete", "acomplete"} else found


@breaks("test_async_answers_are_the_same", "test_predict_returns_a_text")
class AnswersOtherwiseAsynchronously(ReferenceLLM):
    """`achat` says something of its own."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        found = super().answer(messages, tools, call)
        return message(TextBlock(text=f"{found.content}!")) if call == "achat" and not tools else found


@breaks("test_questions_are_told_apart")
class AnswersAlwaysTheSame(ReferenceLLM):
    """Each question gets the same answer, but for its number of blocks."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        return f"I do not know, says the model, {len(messages[-1].blocks)} blocks or not."


@breaks("test_messages_stay_as_they_are")
class MarksMessages(ReferenceLLM):
    """A system message is marked as read."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        if messages[0].role == MessageRole.SYSTEM:
            messages[0].additional_kwargs["read"] = True
        return super().text(messages)


@breaks("test_conversation_is_answered")
class ForgetsConversations(ReferenceLLM):
    """A conversation that the assistant took part in gets no text."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        roles = {one.role for one in messages}
        return "" if MessageRole.ASSISTANT in roles and MessageRole.TOOL not in roles else super().text(messages)


@breaks("test_all_text_blocks_are_read")
class ReadsTheFirstBlock(ReferenceLLM):
    """Of a message's text blocks only the first is read."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        return super().text([*messages[:-1], message(messages[-1].blocks[0])])


# -- streams -------------------------------------------------------------------------------------------------------


@breaks("test_streams_are_generators", ANY)
class StreamsWithoutAwait(ReferenceLLM):
    """`astream_chat` returns an async generator, where a coroutine is expected."""

    @llm_chat_callback()
    def astream_chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> Any:
        return eventually(self.chunks(messages, tools, "astream_chat"))


@breaks("test_chunks_are_cumulative", "test_stream_streams_the_prediction")
class RepeatsADelta(ReferenceLLM):
    """The second chunk's delta is also the first one's."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        chunks = list(super().chunks(messages, tools, call)) if not self.breaks else []
        for number, chunk in enumerate(chunks or super().chunks(messages, tools, call)):
            yield chunk if number or not chunks else chunk.model_copy(update={"delta": chunks[-1].delta})


@breaks("test_chunks_are_of_the_assistant")
class StreamsAsTheUser(ReferenceLLM):
    """The first chunk is a message of the user."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        for number, chunk in enumerate(super().chunks(messages, tools, call)):
            if not number:
                chunk.message.role = MessageRole.USER
            yield chunk


@breaks("test_last_chunk_is_the_whole_answer", "test_stream_streams_the_prediction")
class StopsEarly(ReferenceLLM):
    """The last word of an answer is not streamed."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        chunks = super().chunks(messages, tools, call)
        yield from chunks if tools or self.breaks else list(chunks)[:-1]


@breaks("test_async_streams_are_the_same")
class StreamsAtOnceAsynchronously(ReferenceLLM):
    """`astream_chat` streams the whole answer as one chunk of text, and an empty one."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        if call != "astream_chat" or tools or self.breaks:
            yield from super().chunks(messages, tools, call)
            return
        whole = self.answer(messages, tools, call)
        yield ChatResponse(message=message(TextBlock(text="")), delta="")
        yield ChatResponse(message=whole, delta=whole.content)


@breaks("test_chunks_stay_as_they_are", "test_chunks_are_cumulative")
class GrowsOneMessage(ReferenceLLM):
    """All chunks of a stream share one message, which grows."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        shared: ChatMessage | None = None
        for chunk in super().chunks(messages, tools, call):
            shared = shared or chunk.message
            shared.blocks = chunk.message.blocks
            yield ChatResponse(message=shared, delta=chunk.delta)


@breaks("test_stream_can_be_closed_early")
class BusyAfterClosing(ReferenceLLM):
    """After a stream was closed early, the next one says nothing."""

    _busy: bool = PrivateAttr(default=False)

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        if self._busy:
            return
        self._busy = True
        yield from super().chunks(messages, tools, call)
        self._busy = False


# -- prompts -------------------------------------------------------------------------------------------------------


@breaks("test_predict_returns_a_text")
class PredictsMore(ReferenceLLM):
    """`apredict` adds something."""

    async def apredict(self, prompt: Any, **kwargs: Any) -> str:
        return f"{await super().apredict(prompt, **kwargs)}!"


@breaks("test_stream_streams_the_prediction")
class StreamsLessThanItPredicts(ReferenceLLM):
    """`stream` leaves out its first piece."""

    def stream(self, prompt: Any, **kwargs: Any) -> Any:
        pieces = super().stream(prompt, **kwargs)
        next(pieces)
        yield from pieces


# -- tools ---------------------------------------------------------------------------------------------------------


@breaks("test_tool_is_asked_for")
class AsksWithoutId(ReferenceLLM):
    """A tool call has no id."""

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        found = super().get_tool_calls_from_response(response, error_on_no_tool_call, **kwargs)
        return [one.model_copy(update={"tool_id": ""}) for one in found]


@breaks("test_async_tool_calls_are_the_same")
class AsksForMoreAsynchronously(ReferenceLLM):
    """`achat` asks for the tool of another city."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        found = super().answer(messages, tools, call)
        if call == "achat" and isinstance(found.blocks[0], ToolCallBlock) and "degrees" not in str(found.blocks):
            return message(tool_call(tools[0], json.dumps({"city": "Rome"})))
        return found


@breaks("test_stream_ends_with_the_tool_call")
class StreamsHalfATool(ReferenceLLM):
    """A stream with a call of a function ends when half of the arguments are there."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        for chunk in super().chunks(messages, tools, call):
            yield chunk
            if tools and tools[0].metadata.name == "get_weather":
                return


@breaks("test_every_chunk_can_be_asked_for_tool_calls")
class ReadsWholeJsonOnly(ReferenceLLM):
    """Half the arguments of a tool call cannot be read."""

    def arguments(self, call: ToolCallBlock) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(str(call.tool_kwargs))
        return read


@breaks("test_tool_is_called")
class CallsNoTool(ReferenceLLM):
    """`predict_and_call` answers with a tool's result without calling the tool, unless a class is required."""

    def predict_and_call(self, tools: Any, *args: Any, **kwargs: Any) -> Any:
        found = super().predict_and_call(tools, *args, **kwargs)
        if tools[0].metadata.name == "get_weather":
            found.sources = []
        return found


@breaks("test_tool_result_is_answered")
class AsksAgain(ReferenceLLM):
    """The result of a tool is answered with the same tool call."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        if tools and messages[-1].role == MessageRole.TOOL:
            return message(tool_call(tools[0], "{}"))
        return super().answer(messages, tools, call)


@breaks("test_missing_tool_call_is_an_error_if_asked")
class ForgivesTexts(ReferenceLLM):
    """An answer without a tool call is never an error."""

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return super().get_tool_calls_from_response(response, error_on_no_tool_call=False, **kwargs)


# -- structured output ---------------------------------------------------------------------------------------------


@breaks("test_structured_predict_gives_an_instance")
class PredictsADict(ReferenceLLM):
    """`astructured_predict` returns a dict."""

    async def astructured_predict(self, output_cls: Any, prompt: Any, llm_kwargs: Any = None, **kwargs: Any) -> Any:
        found = await super().astructured_predict(output_cls, prompt, llm_kwargs, **kwargs)
        return found.model_dump() if kwargs else found


@breaks("test_stream_structured_predict_ends_with_it")
class EndsWithAnother(ReferenceLLM):
    """`stream_structured_predict` ends with another instance than `structured_predict` returns."""

    def stream_structured_predict(self, output_cls: Any, *args: Any, **kwargs: Any) -> Any:
        yield from super().stream_structured_predict(output_cls, *args, **kwargs)
        yield output_cls(city="Rome")


@breaks("test_structured_llm_gives_an_instance")
class LosesTheInstance(ReferenceLLM):
    """The instance of a structured LLM differs from its text."""

    def as_structured_llm(self, output_cls: Any, **kwargs: Any) -> Any:
        structured = super().as_structured_llm(output_cls, **kwargs)

        class Structured(type(structured)):  # type: ignore[misc]
            def chat(self, messages: Any, **more: Any) -> Any:
                return super().chat(messages, **more).model_copy(update={"raw": output_cls(city="Rome")})

        return Structured(llm=structured.llm, output_cls=output_cls)


# -- blocks --------------------------------------------------------------------------------------------------------


@breaks("test_blocks_are_answered", "test_blocks_stay_as_they_are")
class TakesNoPictures(ReferenceLLM):
    """A picture is refused."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        for block in messages[-1].blocks:
            if not isinstance(block, TextBlock):
                raise TypeError(f"a {type(block).__name__} isn't text")
        return super().text(messages)


@breaks("test_blocks_stay_as_they_are")
class EatsPictures(ReferenceLLM):
    """A picture is taken out of its message."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        messages[-1].blocks[:] = [block for block in messages[-1].blocks if isinstance(block, TextBlock)]
        return super().text(messages)


# -- events --------------------------------------------------------------------------------------------------------


@breaks("test_call_fires_one_start_and_one_end", "test_events_of_a_call_have_one_span")
class StartsTwice(ReferenceLLM):
    """A second start is fired, without a span."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> ChatResponse:
        get_dispatcher().event(
            LLMChatStartEvent(messages=messages, additional_kwargs={}, model_dict={}, span_id="none")
        )
        return ChatResponse(message=self.answer(messages, tools, "chat"))


@breaks("test_async_call_fires_one_start_and_one_end")
class BuildsAchatOnChat(ReferenceLLM):
    """`achat` calls `chat`, which fires its own events."""

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> ChatResponse:
        return self.chat(messages, tools=tools, **kwargs)


@breaks("test_stream_fires_an_event_for_each_chunk", "test_events_of_a_call_have_one_span")
class BuildsStreamOnAnother(ReferenceLLM):
    """`stream_chat` reads another decorated method, which fires its own events."""

    @llm_chat_callback()
    def other_stream(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> Any:
        yield from self.chunks(messages, tools, "stream_chat")

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> Any:
        yield from self.other_stream(messages, tools=tools, **kwargs)


@breaks("test_async_stream_fires_an_event_for_each_chunk")
class BuildsAstreamOnStream(ReferenceLLM):
    """`astream_chat` reads `stream_chat`, which fires its own events."""

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> Any:
        return eventually(self.stream_chat(messages, tools=tools, **kwargs))


@breaks("test_events_of_a_call_have_one_span")
class FiresOutsideItsSpan(ReferenceLLM):
    """A pair of events names a span that was never begun; the completion that fires it fires its own pair too."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        if call == "complete":
            given: Any = {"messages": list(messages), "span_id": "nowhere"}
            get_dispatcher().event(LLMChatStartEvent(additional_kwargs={}, model_dict={}, **given))
            get_dispatcher().event(LLMChatEndEvent(response=None, **given))
        return super().answer(messages, tools, call)


@breaks(
    "test_events_carry_question_and_answer", "test_async_answers_are_the_same", "test_last_chunk_is_the_whole_answer"
)
class TellsOtherwise(ReferenceLLM):
    """The caller of `complete` gets another answer than the end event carries."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=f"{super().complete(prompt, formatted, **kwargs).text}!")


@breaks("test_spans_are_closed")
class LeavesASpanOpen(ReferenceLLM):
    """A span is begun and never ended."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        if not self.fails:
            get_dispatcher().span_enter(id_=f"Other.part-{len(messages)}", bound_args=None)
        return super().answer(messages, tools, call)


@breaks("test_closed_stream_ends_without_an_end")
class EndsWhenItIsClosed(ReferenceLLM):
    """A stream that is closed fires an end."""

    def stream_chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> Any:
        stream = super().stream_chat(messages, tools=tools, **kwargs)
        try:
            yield from stream
        except GeneratorExit:
            get_dispatcher().event(LLMChatEndEvent(messages=list(messages), response=None, span_id="none"))
            raise


@breaks("test_older_callbacks_begin_and_end")
class LeavesACallbackOpen(ReferenceLLM):
    """A callback receives an event that never ends."""

    def text(self, messages: Sequence[ChatMessage]) -> str:
        self.callback_manager.on_event_start(CBEventType.LLM)
        return super().text(messages)


@breaks("test_events_tell_no_secrets", "test_payload_is_safe")
class TellsItsKey(ReferenceLLM):
    """The payload holds the key."""

    def to_payload(self) -> dict[str, Any]:
        return {**super().to_payload(), "api_key": self.api_key}


# -- errors --------------------------------------------------------------------------------------------------------


@breaks("test_error_reaches_the_caller", "test_error_ends_what_was_begun")
class AnswersErrors(ReferenceLLM):
    """An error is reported as an answer."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        try:
            return super().answer(messages, tools, call)
        except OutOfOrderError as error:
            return message(TextBlock(text=str(error)))


@breaks("test_error_reaches_the_caller")
class RaisesAnother(ReferenceLLM):
    """`complete` raises another type than the rest."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        if self.fails and call == "complete":
            raise RuntimeError("something went wrong")
        return super().answer(messages, tools, call)


@breaks("test_error_ends_what_was_begun")
class LeavesASpanOpenOnError(ReferenceLLM):
    """A span stays open when the service fails."""

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        if self.fails:
            get_dispatcher().span_enter(id_="Other.part-1", bound_args=None)
        return super().answer(messages, tools, call)


@breaks("test_broken_stream_keeps_its_chunks")
class EndsBrokenStreams(ReferenceLLM):
    """A stream that breaks just ends."""

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        try:
            yield from super().chunks(messages, tools, call)
        except OutOfOrderError:
            if self.fails:
                raise


# -- objects -------------------------------------------------------------------------------------------------------


@breaks("test_metadata_says_what_it_is")
class HasNoWindow(ReferenceLLM):
    """Its context window is empty."""

    @property
    def metadata(self) -> LLMMetadata:
        return super().metadata.model_copy(update={"context_window": 0})


class PlainLLM(CustomLLM):
    """No function calling LLM, whatever its metadata says."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="plain", is_function_calling_model=True)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        for sofar, delta in growing(prompt):
            yield CompletionResponse(text=sofar, delta=delta)


@breaks("test_payload_is_safe")
class HasAnotherPayload(ReferenceLLM):
    """The payload names another class."""

    def to_payload(self) -> dict[str, Any]:
        return {**super().to_payload(), "class_name": "Another"}


@breaks("test_description_names_the_class")
class DescribesAnother(ReferenceLLM):
    """`to_dict` names another class."""

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().to_dict(**kwargs), "class_name": "Another"}


@breaks("test_copies_answer_the_same")
class CannotBeCopied(ReferenceLLM):
    """A deep copy says something else."""

    number: int = 0

    def __deepcopy__(self, memo: Any = None) -> CannotBeCopied:
        return type(self)(number=self.number + 1)

    def text(self, messages: Sequence[ChatMessage]) -> str:
        return super().text(messages) + "!" * self.number


@breaks("test_copy_is_on_its_own")
class SharesItself(ReferenceLLM):
    """A copy is the original."""

    def model_copy(self, *, update: Any = None, deep: bool = False) -> SharesItself:
        for name, value in (update or {}).items():
            setattr(self, name, value)
        return self


@breaks("test_pickled_answers_the_same")
class LosesItselfInPickles(ReferenceLLM):
    """An object comes out of a pickle changed."""

    number: int = 0

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "number": 1}}

    def __deepcopy__(self, memo: Any = None) -> LosesItselfInPickles:
        return type(self)(number=self.number)

    def __copy__(self) -> LosesItselfInPickles:
        return type(self)(number=self.number)

    def text(self, messages: Sequence[ChatMessage]) -> str:
        return super().text(messages) + "!" * self.number


@breaks("test_plain_answers_stay_as_they_are")
class KeepsItsAnswers(ReferenceLLM):
    """Equal questions get the same object."""

    kept: ClassVar[dict[Any, ChatMessage]] = {}

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        if tools or call != "chat" or self.fails:
            return super().answer(messages, tools, call)
        asked = (id(self), messages[-1].content, len(messages[-1].blocks), len(messages))
        return self.kept.setdefault(asked, super().answer(messages, tools, call))


# -- concurrency ---------------------------------------------------------------------------------------------------


@breaks("test_threads_get_their_own_answers")
class CountsItsCalls(ReferenceLLM):
    """From the fourth plain call on, an LLM says something else."""

    _calls: int = PrivateAttr(default=0)

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        self._calls += call == "chat"
        found = super().answer(messages, tools, call)
        return message(TextBlock(text=f"{found.content}!")) if self._calls > 3 else found


@breaks("test_tasks_get_their_own_answers")
class CountsItsTasks(ReferenceLLM):
    """From the fourth asynchronous call on, an LLM says something else."""

    _calls: int = PrivateAttr(default=0)

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        self._calls += call == "achat"
        found = super().answer(messages, tools, call)
        return message(TextBlock(text=f"{found.content}!")) if self._calls > 3 else found


# -- the tests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "also", "suite"), BROKEN, ids=[suite.__name__ for _, _, suite in BROKEN])
def test_only_the_broken_points_fail(
    check: str, also: frozenset[str], suite: type[LLMConformance], pytestconfig: pytest.Config
) -> None:
    """The kit fails at what an LLM breaks, and nowhere else.

    Without `--every-check`, each check has a quarter of the LLMs that break another one.
    """
    known, number = checks_of(suite), [broken for _, _, broken in BROKEN].index(suite)
    chosen = known if pytestconfig.getoption("every_check") else {check, *also - {ANY}, *known[number % 4 :: 4]}
    failed = {each.check: str(each.error) for each in run_conformance(suite, chosen) if each.outcome == "failed"}
    assert check in failed
    assert ANY in also or set(failed) == {check} | also, failed


def test_class_must_fit_the_metadata() -> None:
    """An LLM that says that it calls functions, and is of a class that cannot, fails at its check."""

    class ClaimsTools(LLMConformance):
        """Its metadata says that it calls functions, its class cannot."""

        def make(self) -> PlainLLM:
            return PlainLLM()

    (result,) = run_conformance(ClaimsTools, {"test_metadata_agrees_with_the_class"})
    assert result.outcome == "failed"


def test_each_point_is_broken_once() -> None:
    """There is a broken LLM for each check."""
    broken = {check for check, _, _ in BROKEN} | {"test_metadata_agrees_with_the_class"}
    assert broken == set(checks_of(LLMConformance))


def test_reference_keeps_every_point() -> None:
    """The reference passes all of them, and skips none."""
    results = run_conformance(ReferenceLLMConformance)
    assert [str(result) for result in results if result.outcome != "passed"] == []
