"""Agents, engines and workflows as people write them: plain LlamaIndex, nothing of AgentTape.

Each program gets the world it reaches and returns its result, as data that can be compared.
"""

from __future__ import annotations

from .agents import Weather, after_tools, city_tools, close
from .engines import documents, engine_tools, librarian, vector_index
from .extraction import extraction
from .registry import PROGRAMS, Program, followed, shown, shown_response
from .workflows import Answer, Ask, Interview, Parallel, Part

__all__ = [
    "PROGRAMS",
    "Answer",
    "Ask",
    "Interview",
    "Parallel",
    "Part",
    "Program",
    "Weather",
    "after_tools",
    "city_tools",
    "close",
    "documents",
    "engine_tools",
    "extraction",
    "followed",
    "librarian",
    "shown",
    "shown_response",
    "vector_index",
]
