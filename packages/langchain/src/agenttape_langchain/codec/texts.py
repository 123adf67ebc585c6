"""Streams of a text model as results and back."""

from __future__ import annotations

import functools
import operator

from langchain_core.outputs import GenerationChunk, LLMResult


def join_texts(chunks: list[GenerationChunk]) -> LLMResult:
    """Return the result that LangChain makes of a stream of text.

    Raises:
        ValueError: If there are no chunks, as LangChain does for a model that streams nothing.
    """
    if not chunks:
        raise ValueError("No generation chunks were returned")
    return LLMResult(generations=[[functools.reduce(operator.add, chunks)]])


def split_texts(result: LLMResult) -> list[GenerationChunk]:
    """Return a stream of one chunk that holds the first generation of the first prompt.

    Raises:
        ValueError: If the result has no generation.
    """
    if not result.generations or not result.generations[0]:
        raise ValueError("expected a result with at least one generation, found none")
    generation = result.generations[0][0]
    return [GenerationChunk(text=generation.text, generation_info=generation.generation_info)]
