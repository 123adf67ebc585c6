"""The model service of these tests: OpenAI's API on this machine, which answers equal requests alike."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KEY = "-".join(("sk", "proj", "Zx9" * 9))
ARGUMENTS = {"city": "Paris", "degrees": 21, "answer": "Paris"}


class Weather(BaseModel):
    """The weather in a city."""

    city: str = Field(default="Paris", description="The city.")
    degrees: int = Field(default=20, description="The temperature in degrees Celsius.")


def example(name: str) -> Any:
    """Return a module of the weather agent, whose server this is."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return import_module(f"weather_agent.{name}")


def answered(turn: Any) -> Any:
    """Answer a request by what it says: call a tool that it offers, fill a schema, or repeat the question."""
    reply, body = example("policy").Reply, turn.body
    offered = [tool["function"] for tool in body.get("tools") or () if tool["type"] == "function"]
    if offered and not turn.tool_results and body.get("tool_choice") != "none":
        named = offered[0]
        return reply(tool_calls=((named["name"], filled(named["parameters"])),))
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return reply(json.dumps(filled(wanted["json_schema"]["schema"])))
    about = " ".join(turn.tool_results)
    return reply(f"You asked in {len(body['messages'])} messages: {asked(body['messages'][-1])} {about}".strip())


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for a schema."""
    return {name: ARGUMENTS.get(name, 1) for name in schema.get("properties", {})}


def asked(message: dict[str, Any]) -> str:
    """Return the text of a message, and what it has besides."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or f"<{part['type']}>" for part in content)


def answered_twice(turn: Any) -> Any:
    """Answer as `answered` does, with each tool call twice."""
    reply = answered(turn)
    return dataclasses.replace(reply, tool_calls=reply.tool_calls * 2)


def service(policy: Callable[[Any], Any] = answered) -> Any:
    """Return the service, not started."""
    return example("server").OpenAILoopback(policy, same_vectors=True)
