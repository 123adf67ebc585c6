"""Checks about plain answers of LLMs."""

from __future__ import annotations

from copy import deepcopy

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole, TextBlock

from agenttape_core.testing import expect

from ..calls import CHATS, finished
from ..comparison import text_of
from ..llm_hooks import LLMHooks
from ..suite import check, shown


class AnswerChecks(LLMHooks):
    """The checks about plain answers."""

    @check
    def test_chat_answers_with_an_assistant_message(self) -> None:
        """`chat` and `achat` return a `ChatResponse` whose message is the assistant's and has a text."""
        for call in self.calls_of("chat", "achat"):
            answer = self.ask(self.make(), call)
            expect(isinstance(answer, ChatResponse), f"{call} returned a {type(answer).__name__}")
            expect(answer.message.role == MessageRole.ASSISTANT, f"{call}: the role is {answer.message.role!r}")
            expect(text_of(answer), f"{call}: the answer has no text: {shown(answer)}")

    @check
    def test_complete_answers_with_a_text(self) -> None:
        """`complete` and `acomplete` return a `CompletionResponse` with a text."""
        for call in self.calls_of("complete", "acomplete"):
            answer = self.ask(self.make(), call)
            expect(isinstance(answer, CompletionResponse), f"{call} returned a {type(answer).__name__}")
            expect(answer.text, f"{call}: the answer has no text: {shown(answer)}")

    @check
    def test_async_answers_are_the_same(self) -> None:
        """`achat` gives the answer of `chat`, `acomplete` that of `complete`."""
        for call in self.calls_of("chat", "complete"):
            first, second = self.ask(self.make(), call), self.ask(self.make(), f"a{call}")
            self.expect_same(f"{call}, then a{call}", first, second)

    @check
    def test_questions_are_told_apart(self) -> None:
        """Different questions get different answers."""
        llm = self.make()
        for call in self.calls_of("chat", "complete"):
            answers = [text_of(self.ask(llm, call, question)) for question in self.questions]
            expect(
                len(set(answers)) == len(answers),
                f"{call}: {len(answers)} questions were answered with {shown(answers)}",
            )

    @check
    def test_messages_stay_as_they_are(self) -> None:
        """No call changes the messages that it is given."""
        for call in (name for name in self.calls if name in CHATS):
            messages = [
                ChatMessage(role=MessageRole.SYSTEM, content="Be brief."),
                ChatMessage(role=MessageRole.USER, content=self.questions[0], additional_kwargs={}),
            ]
            before = deepcopy(messages)
            finished(getattr(self.make(), call)(messages))
            expect(messages == before, f"{call} made of {shown(before)}: {shown(messages)}")

    @check
    def test_conversation_is_answered(self) -> None:
        """A conversation with messages of the system, the user and the assistant gets an answer."""
        conversation = [
            ChatMessage(role=MessageRole.SYSTEM, content="Be brief."),
            ChatMessage(role=MessageRole.USER, content=self.questions[1]),
            ChatMessage(role=MessageRole.ASSISTANT, content="I do not know."),
            ChatMessage(role=MessageRole.USER, content=self.questions[0]),
        ]
        for call in self.calls_of("chat", "achat"):
            answer = finished(getattr(self.make(), call)(conversation))
            expect(text_of(answer), f"{call}: the answer has no text: {shown(answer)}")

    @check
    def test_all_text_blocks_are_read(self) -> None:
        """A message of two text blocks gets another answer than its first or its second block alone."""
        llm, texts = self.make(), self.questions[:2]
        both = ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text=text) for text in texts])
        alone = [text_of(self.ask(llm, "chat", text)) for text in texts]
        expect(text_of(llm.chat([both])) not in alone, f"of two text blocks only one is read: {shown(alone)}")
