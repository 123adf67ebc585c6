"""Checks about content that is not text."""

from __future__ import annotations

from copy import deepcopy

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.calls import CHATS, finished
from agenttape_llamaindex.testing.comparison import text_of
from agenttape_llamaindex.testing.llm_hooks import LLMHooks
from agenttape_llamaindex.testing.suite import check, needs, shown


class BlockChecks(LLMHooks):
    """The checks about images, sound, documents: skipped for an LLM that names no `blocks`."""

    @check
    def test_blocks_are_answered(self) -> None:
        """Each call answers a message with a text and each sort of block that the author names."""
        needs(self.blocks, "names no `blocks`")
        for block in self.blocks:
            for call in (name for name in self.calls if name in CHATS):
                answer = finished(getattr(self.make(), call)([self._message(block)]))
                last = answer[-1] if isinstance(answer, list) else answer
                sort = type(block).__name__
                expect(text_of(last), f"{call} with a {sort}: the answer has no text: {shown(last)}")

    @check
    def test_blocks_stay_as_they_are(self) -> None:
        """No call changes the blocks that it is given."""
        needs(self.blocks, "names no `blocks`")
        for block in self.blocks:
            message = self._message(block)
            before = deepcopy(message)
            self.make().chat([message])
            expect(message == before, f"a {type(block).__name__} became {shown(message.blocks[-1])}")

    def _message(self, block: object) -> ChatMessage:
        return ChatMessage(role=MessageRole.USER, content=[TextBlock(text=self.questions[0]), deepcopy(block)])
