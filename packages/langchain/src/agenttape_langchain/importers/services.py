"""Which service an exchange is of, and the model of LangChain that speaks to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenttape_langchain.importers import anthropic_messages, openai_completions, openai_responses
from agenttape_langchain.importers.http_exchanges import Exchange
from agenttape_langchain.importers.requests import Asked, History

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/chat/completions$")
_KEY = "agenttape"
"""A key for clients that want one; what they send goes nowhere."""


@dataclass(frozen=True, slots=True)
class Service:
    """A form of requests and answers.

    Args:
        name: The class of the model that speaks it.
        package: The package that has the class.
        sdk: The package that it sends with.
        pattern: What the path of a request ends with.
        asked: Tells what was asked.
        connection: What the model is constructed with to reach where the exchange went.
    """

    name: str
    package: str
    sdk: str
    pattern: re.Pattern[str]
    asked: Callable[[dict[str, Any], History, Sequence[type]], Asked]
    connection: Callable[[Exchange], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Options:
    """What the user of an importer knows of the program, and the recording does not.

    Args:
        model_options: What its models are constructed with, beyond what is sent: `output_version`.
        schemas: The pydantic classes that it passes as response formats.
        detokenize: Makes text of tokens, given the name of the model, for embeddings that were asked for by tokens.
    """

    model_options: Mapping[str, Any] = field(default_factory=dict)
    schemas: Sequence[type] = ()
    detokenize: Callable[[str, list[int]], str] | None = None


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
    Service("AzureChatOpenAI", "langchain_openai", "openai", _DEPLOYMENT, openai_completions.asked, _azure),
    Service(
        "ChatOpenAI",
        "langchain_openai",
        "openai",
        re.compile(r"/chat/completions$"),
        openai_completions.asked,
        _openai,
    ),
    Service("ChatOpenAI", "langchain_openai", "openai", re.compile(r"/responses$"), openai_responses.asked, _openai),
    Service(
        "ChatAnthropic",
        "langchain_anthropic",
        "anthropic",
        re.compile(r"/v1/messages$"),
        anthropic_messages.asked,
        _anthropic,
    ),
)


def service_of(exchange: Exchange) -> Service | None:
    """Return the service of chat models that an exchange is of, by the path that was asked for."""
    if exchange.method != "POST":
        return None
    return next((service for service in _SERVICES if service.pattern.search(exchange.path)), None)


def embeds(exchange: Exchange) -> bool:
    """Whether an exchange is one of OpenAI's embeddings, as every compatible service speaks it."""
    return exchange.method == "POST" and exchange.path.endswith("/embeddings")


def embedding_connection(exchange: Exchange) -> dict[str, Any]:
    """Return what an embedding model is constructed with to reach where the exchange went."""
    return _openai(exchange)
