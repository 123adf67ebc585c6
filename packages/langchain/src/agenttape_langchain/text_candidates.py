"""Ask a candidate, which is a chat model, what a text model of the program is asked: each prompt is a message to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, Generation, GenerationChunk, LLMResult

from agenttape_core.integration import Crossing, candidate_of, state_of
from agenttape_langchain.candidates import FRAMEWORK, Asked

_COUNTS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
"""The counts of tokens of text models, by those of chat models."""


class AskedForText(NamedTuple):
    """A candidate that completes prompts.

    Args:
        asked: The candidate. The parameters of the call are those of a text model, and not passed on.
    """

    asked: Asked

    def generate(self, prompts: Sequence[str], stop: Any, manager: Any) -> LLMResult:
        """Complete each prompt."""
        return _whole([self.asked.generate(_messages(prompt), stop, None) for prompt in prompts])

    async def agenerate(self, prompts: Sequence[str], stop: Any, manager: Any) -> LLMResult:
        """Complete each prompt, awaited."""
        return _whole([await self.asked.agenerate(_messages(prompt), stop, None) for prompt in prompts])

    def stream(self, prompt: str, stop: Any, manager: Any) -> Iterator[GenerationChunk]:
        """Complete a prompt in chunks."""
        for part in self.asked.stream(_messages(prompt), stop, None):
            chunk = _chunk(part)
            if manager is not None:
                manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def astream(self, prompt: str, stop: Any, manager: Any) -> AsyncIterator[GenerationChunk]:
        """Complete a prompt in chunks, awaited."""
        async for part in self.asked.astream(_messages(prompt), stop, None):
            chunk = _chunk(part)
            if manager is not None:
                await manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def asked_for_text(crossing: Crossing | None) -> AskedForText | None:
    """Return the candidate that is asked in the place of the program's own text model, if the call has one.

    Args:
        crossing: The crossing of the call.

    Raises:
        ConfigurationError: If the candidate is a model of another framework.
    """
    candidate = candidate_of(crossing, FRAMEWORK)
    if candidate is None or crossing is None:
        return None
    crossing.owner = state_of(candidate.model)  # what it calls of its own is a part of this call
    return AskedForText(Asked(candidate.model, candidate.options))


def _messages(prompt: str) -> list[BaseMessage]:
    return [HumanMessage(prompt)]


def _whole(results: Sequence[ChatResult]) -> LLMResult:
    """Return the answers as a text model gives them, with the sum of their tokens."""
    counts = Counter[str]()
    for result in results:
        message = result.generations[0].message
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        counts.update({name: usage[key] for name, key in _COUNTS.items()} if usage else {})  # type: ignore[literal-required]
    generations = [
        [Generation(text=each.message.text, generation_info=each.generation_info) for each in result.generations]
        for result in results
    ]
    return LLMResult(generations=generations, llm_output={"token_usage": dict(counts)} if counts else None)


def _chunk(part: ChatGenerationChunk) -> GenerationChunk:
    return GenerationChunk(text=part.message.text, generation_info=part.generation_info)
