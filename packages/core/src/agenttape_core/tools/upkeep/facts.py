"""The facts of a cassette about the program it was recorded from, which show whether it is stale."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import input_messages, system_instructions, tool_definitions
from agenttape_core.tools.reading.summary import MODELS, model_of
from agenttape_core.tools.upkeep.age import recorded_at

_COUNTED = re.compile(r"[@#~]\d+|\[\d+\]")
"""The parts of an address that tell the calls of one place in a program apart."""
_SYSTEM = frozenset({"system", "developer"})

Subject = tuple[str, ...]
"""The subject of a text, by which those of several cassettes are comparable."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a cassette about the program it was recorded from.

    Args:
        path: The name of the cassette.
        created: The time of the recording; `None` if not known.
        packages: Versions of the packages that shaped the recording.
        models: The models that were called.
        prompts: The system prompts, by the address without what counts and the names of the tools beside them.
        tools: The definitions of the tools that models were offered, as JSON, by their name.
        is_derived: Whether it was derived from another cassette.
    """

    path: str
    created: datetime | None
    packages: Mapping[str, str]
    models: set[str] = field(default_factory=set)
    prompts: dict[Subject, set[str]] = field(default_factory=dict)
    tools: dict[Subject, set[str]] = field(default_factory=dict)
    is_derived: bool = False


def facts_of(path: str, cassette: Cassette) -> Facts:
    """Read a whole cassette and return its facts.

    Args:
        path: Its name in reports.
        cassette: The cassette.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    volatile = cassette.preface.volatile
    is_derived = cassette.preface.derived_from is not None
    facts = Facts(path, recorded_at(volatile.created), volatile.packages, is_derived=is_derived)
    for item in cassette.interactions():
        if item.kind not in MODELS:
            continue
        if model := model_of(item):
            facts.models.add(model)
        tools = {str(tool.get("name", "")): tool for tool in tool_definitions(item.request)}
        for name, tool in tools.items():
            facts.tools.setdefault((name,), set()).add(json.dumps(tool, sort_keys=True))
        if prompt := _system_prompt(item.request):
            subject = (_COUNTED.sub("", item.address), *sorted(tools))
            facts.prompts.setdefault(subject, set()).add(prompt)
    return facts


def _system_prompt(request: Mapping[str, Any]) -> str:
    messages = [message for message in input_messages(request) if message["role"] in _SYSTEM]
    parts = [*system_instructions(request), *(part for message in messages for part in message["parts"])]
    return "\n".join(str(part["content"]) for part in parts if part.get("type") == "text")
