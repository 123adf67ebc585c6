"""Services of models: which one an exchange is of, and the model of LangChain that speaks to it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agenttape_langchain.importers import anthropic_messages, openai_completions, openai_responses
from agenttape_langchain.importers.http_exchanges import Exchange
from agenttape_langchain.importers.requests import History, ModelCall

_OPENAI, _ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/chat/completions$")
_FIRST_EVENT = re.compile(rb"^data: ?(\{.*\})", re.MULTILINE)
_KEY = "agenttape"
"""A key for clients that need one; their requests go nowhere."""


@dataclass(frozen=True, slots=True)
class Service:
    """A form of requests and answers.

    Args:
        name: The class of the model that speaks it.
        package: The package that has the class.
        sdk: The package that it sends with.
        pattern: The end of the path of its requests.
        read_call: Reads the call of a model from the body of a request.
        connection: Returns the arguments with which a model sends to where the exchange went.
    """

    name: str
    package: str
    sdk: str
    pattern: re.Pattern[str]
    read_call: Callable[[dict[str, Any], History, Sequence[type]], ModelCall]
    connection: Callable[[Exchange], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Options:
    """Knowledge of the program that the user of an importer has, and the recording does not.

    Args:
        model_options: Arguments of its models that are not sent: `output_version`.
        schemas: The pydantic classes that it passes as response formats.
        detokenize: Makes text of tokens, given the name of the model, for embeddings of tokens.
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


def service_of(exchange: Exchange) -> Service | None:
    """Return the service of chat models that an exchange is of, by the path of its request."""
    if exchange.method != "POST":
        return None
    return next((service for service in _SERVICES if service.pattern.search(exchange.path)), None)


def embeds(exchange: Exchange) -> bool:
    """Return whether an exchange is one of OpenAI's embeddings, as every compatible service speaks it."""
    return exchange.method == "POST" and exchange.path.endswith("/embeddings")


def embedding_connection(exchange: Exchange) -> dict[str, Any]:
    """Return the arguments with which an embedding model sends to where the exchange went."""
    return _openai(exchange)


# -- exchanges whose address was filtered away -------------------------------------------------------------------------


def addressed(exchange: Exchange) -> Exchange:
    """Return an exchange with a URL: its own, or that of the service whose form its bodies have.

    Many recordings have their URLs and headers filtered away.
    """
    if re.match(r"https?://", exchange.url):
        return exchange
    url = _url(exchange.json or {}, exchange.answer or _first_event(exchange.body))
    return replace(exchange, url=url) if url else exchange


def _url(request: dict[str, Any], answer: dict[str, Any]) -> str:
    form = str(answer.get("object") or answer.get("type"))
    if "messages" in request and "model" in request:
        return f"{_ANTHROPIC}/messages" if form in {"message", "message_start"} else f"{_OPENAI}/chat/completions"
    if "input" in request and "model" in request:
        return f"{_OPENAI}/embeddings" if form == "list" else f"{_OPENAI}/responses"
    return ""


def _first_event(body: bytes) -> dict[str, Any]:
    found = _FIRST_EVENT.search(body)
    try:
        event = json.loads(found[1]) if found is not None else None
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
