"""Services of models: which one an exchange is of, and the class of LlamaIndex that speaks to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agenttape_core.integration.importing import Exchange, Options
from agenttape_llamaindex.importers import anthropic_messages, openai_completions, openai_responses
from agenttape_llamaindex.importers.requests import History, ModelCall

_KEY = "agenttape"
"""A key for clients that need one; their requests go nowhere."""
_AZURE = re.compile(r"/openai/deployments/([^/]+)/(?:chat/completions|embeddings)$")
_MODEL = re.compile(rb'"model"\s*:\s*"([\w.-]+?)(?:-\d{4}-\d{2}-\d{2})?"')
_API_VERSION = "2024-10-21"
"""Of Azure's interface, where a recording does not say which."""


@dataclass(frozen=True, slots=True)
class Service:
    """A form of requests and answers."""

    name: str  # the class of the LLM that speaks it
    package: str  # the package that has the class
    sdk: str  # the package that it sends with
    pattern: re.Pattern[str]  # the end of the path of its requests
    read_call: Callable[[dict[str, Any], History], ModelCall]  # reads the call of an LLM from the body of a request
    address: str  # the argument of the class for the address of the service
    deployment: str = ""  # the argument of the class for the name of a deployment; empty if the service has none
    names_models: bool = True  # whether requests say which model the class was given

    def connection(self, exchange: Exchange) -> dict[str, Any]:
        """Return the arguments with which an LLM sends to where an exchange went."""
        if not self.deployment:
            return {self.address: exchange.origin + self.pattern.sub("", exchange.path), "api_key": _KEY}
        found = _AZURE.search(exchange.path)
        return {
            self.address: exchange.origin,
            self.deployment: found[1] if found else "",
            "api_version": exchange.query.get("api-version", _API_VERSION),
            "api_key": _KEY,
        }

    def model(self, exchange: Exchange) -> dict[str, Any]:
        """Return the argument for the model, as an answer names it, where requests do not; without its date."""
        found = None if self.names_models else _MODEL.search(exchange.body)
        return {"model": found[1].decode()} if found is not None else {}

    def doubt(self, options: Options) -> str:
        """Return the uncertain facts about the class that made a request; empty if there are none."""
        if self.names_models or "model" in options.model_options:
            return ""
        return (
            f"requests of {self.name} name the deployment only, and the model is taken from the answer: "
            "give the model of the program as model_options={'model': ...}"
        )


_OPENAI, _ANTHROPIC = "llama_index.llms.openai", "llama_index.llms.anthropic"
_CHATS, _EMBEDDINGS = re.compile(r"/chat/completions$"), re.compile(r"/embeddings$")
_SERVICES = (
    Service(
        "AzureOpenAI",
        "llama_index.llms.azure_openai",
        "openai",
        re.compile(r"/openai/deployments/[^/]+/chat/completions$"),
        openai_completions.read_call,
        "azure_endpoint",
        "engine",
        names_models=False,
    ),
    Service("OpenAI", _OPENAI, "openai", _CHATS, openai_completions.read_call, "api_base"),
    Service("OpenAI", _OPENAI, "openai", re.compile(r"/completions$"), openai_completions.read_completion, "api_base"),
    Service("OpenAIResponses", _OPENAI, "openai", re.compile(r"/responses$"), openai_responses.read_call, "api_base"),
    Service(
        "Anthropic", _ANTHROPIC, "anthropic", re.compile(r"/v1/messages$"), anthropic_messages.read_call, "base_url"
    ),
)
_EMBEDDING_SERVICES = (
    Service(
        "AzureOpenAIEmbedding",
        "llama_index.embeddings.azure_openai",
        "openai",
        re.compile(r"/openai/deployments/[^/]+/embeddings$"),
        openai_completions.read_call,
        "azure_endpoint",
        "azure_deployment",
    ),
    Service(
        "OpenAIEmbedding",
        "llama_index.embeddings.openai",
        "openai",
        _EMBEDDINGS,
        openai_completions.read_call,
        "api_base",
    ),
)
"""Those of embeddings: Azure's, and OpenAI's, as every compatible service speaks them."""


def service_of(exchange: Exchange) -> Service:
    """Return the service of LLMs that an exchange with one is of, by the path of its request."""
    return next(service for service in _SERVICES if service.pattern.search(exchange.path))


def embedding_service_of(exchange: Exchange) -> Service:
    """Return the service of embeddings that an exchange with one is of, by the path of its request."""
    return next(service for service in _EMBEDDING_SERVICES if service.pattern.search(exchange.path))
