"""Services of models: which one an exchange is of, and the model of LangChain that speaks to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agenttape_core.integration.importing import Exchange
from agenttape_langchain.importers import anthropic_messages, openai_completions, openai_responses
from agenttape_langchain.importers.requests import History, ModelCall

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/chat/completions$")
_KEY = "agenttape"
"""A key for clients that need one; their requests go nowhere."""


@dataclass(frozen=True, slots=True)
class Service:
    """A form of requests and answers."""

    name: str  # the class of the model that speaks it
    package: str  # the package that has the class
    sdk: str  # the package that it sends with
    pattern: re.Pattern[str]  # the end of the path of its requests
    # Reads the call of a model from the body of a request.
    read_call: Callable[[dict[str, Any], History, Sequence[type]], ModelCall]
    # Returns the arguments with which a model sends to where the exchange went.
    connection: Callable[[Exchange], dict[str, Any]]


def _openai(exchange: Exchange) -> dict[str, Any]:
    base = re.sub(r"/(chat/completions|responses|embeddings)$", "", exchange.path)
    return {"base_url": exchange.origin + base, "api_key": _KEY, "openai_proxy": None}


def _azure(exchange: Exchange) -> dict[str, Any]:
    found = _DEPLOYMENT.search(exchange.path)
    return {
        "azure_endpoint": exchange.origin,
        "azure_deployment": found[1] if found else "",
        "api_version": exchange.query.get("api-version", "2024-10-21"),
        "api_key": _KEY,
        "openai_proxy": None,
    }


def _anthropic(exchange: Exchange) -> dict[str, Any]:
    base = re.sub(r"/v1/messages$", "", exchange.path)
    betas = dict(exchange.request_headers).get("anthropic-beta", "")
    named = {"betas": betas.split(",")} if betas and exchange.query.get("beta") else {}
    return {"base_url": exchange.origin + base, "api_key": _KEY, **named}


_SERVICES = (
    Service("AzureChatOpenAI", "langchain_openai", "openai", _DEPLOYMENT, openai_completions.read_call, _azure),
    Service(
        "ChatOpenAI",
        "langchain_openai",
        "openai",
        re.compile(r"/chat/completions$"),
        openai_completions.read_call,
        _openai,
    ),
    Service(
        "ChatOpenAI", "langchain_openai", "openai", re.compile(r"/responses$"), openai_responses.read_call, _openai
    ),
    Service(
        "ChatAnthropic",
        "langchain_anthropic",
        "anthropic",
        re.compile(r"/v1/messages$"),
        anthropic_messages.read_call,
        _anthropic,
    ),
)


def service_of(exchange: Exchange) -> Service:
    """Return the service of chat models that an exchange with one is of, by the path of its request."""
    return next(service for service in _SERVICES if service.pattern.search(exchange.path))


def embedding_connection(exchange: Exchange) -> dict[str, Any]:
    """Return the arguments with which an embedding model sends to where the exchange went."""
    return _openai(exchange)
