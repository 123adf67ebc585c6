"""Services of models: which one an exchange is of, and the class of LlamaIndex that speaks to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agenttape_core.integration.importing import Exchange
from agenttape_llamaindex.importers import anthropic_messages, openai_completions, openai_responses
from agenttape_llamaindex.importers.requests import History, ModelCall

_KEY = "agenttape"
"""A key for clients that need one; their requests go nowhere."""


@dataclass(frozen=True, slots=True)
class Service:
    """A form of requests and answers.

    Args:
        name: The class of the LLM that speaks it.
        package: The package that has the class.
        sdk: The package that it sends with.
        pattern: The end of the path of its requests.
        read_call: Reads the call of an LLM from the body of a request.
        address: The argument of the class for the address of the service.
    """

    name: str
    package: str
    sdk: str
    pattern: re.Pattern[str]
    read_call: Callable[[dict[str, Any], History], ModelCall]
    address: str

    def connection(self, exchange: Exchange) -> dict[str, Any]:
        """Return the arguments with which an LLM sends to where an exchange went."""
        return {self.address: exchange.origin + self.pattern.sub("", exchange.path), "api_key": _KEY}


_OPENAI, _ANTHROPIC = "llama_index.llms.openai", "llama_index.llms.anthropic"
_SERVICES = (
    Service("OpenAI", _OPENAI, "openai", re.compile(r"/chat/completions$"), openai_completions.read_call, "api_base"),
    Service("OpenAIResponses", _OPENAI, "openai", re.compile(r"/responses$"), openai_responses.read_call, "api_base"),
    Service(
        "Anthropic", _ANTHROPIC, "anthropic", re.compile(r"/v1/messages$"), anthropic_messages.read_call, "base_url"
    ),
)
EMBEDDINGS = Service(
    "OpenAIEmbedding",
    "llama_index.embeddings.openai",
    "openai",
    re.compile(r"/embeddings$"),
    openai_completions.read_call,
    "api_base",
)
"""OpenAI's embeddings, as every compatible service speaks them."""


def service_of(exchange: Exchange) -> Service:
    """Return the service of LLMs that an exchange with one is of, by the path of its request."""
    return next(service for service in _SERVICES if service.pattern.search(exchange.path))
