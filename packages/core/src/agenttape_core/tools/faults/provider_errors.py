"""The errors that clients of providers raise, as real objects of theirs where those are installed.

The provider is known by the class of the model that was recorded: `ChatOpenAI`, `AzureChatOpenAI`, `Anthropic`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

Trouble = Literal["rate_limit", "timeout", "connection_reset", "broken_stream"]
"""The troubles of a client with its provider."""

_MESSAGES: dict[Trouble, str] = {
    "rate_limit": "Rate limit reached (429). Please try again in 1s.",
    "timeout": "Request timed out.",
    "connection_reset": "Connection error.",
    "broken_stream": "peer closed connection without sending complete message body (incomplete chunked read)",
}


class RateLimited(Exception):  # noqa: N818 - it stands for the error of a provider that is not installed
    """A provider refuses a call because there were too many.

    Args:
        message: The words of the provider.
    """

    status_code = 429

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.retry_after = 1


def provider_error(trouble: Trouble, name: str) -> Exception:
    """Return the error that the client of a provider raises.

    Args:
        trouble: The trouble.
        name: The name of the boundary: the class of the model.
    """
    for words, module, url in _PROVIDERS:
        if any(word in name.lower() for word in words):
            try:
                return _of_client(trouble, import_module(module), import_module("httpx"), url)
            except ImportError:
                break  # recorded with it, replayed without
    return _BUILT_IN[trouble](_MESSAGES[trouble])


_PROVIDERS = (
    (("openai",), "openai", "https://api.openai.com/v1/chat/completions"),
    (("anthropic", "claude"), "anthropic", "https://api.anthropic.com/v1/messages"),
)
_BUILT_IN: dict[Trouble, Callable[[str], Exception]] = {
    "rate_limit": RateLimited,
    "timeout": TimeoutError,
    "connection_reset": ConnectionResetError,
    "broken_stream": ConnectionError,
}


def _of_client(trouble: Trouble, client: Any, httpx: Any, url: str) -> Exception:
    """Return an error of a client that was generated from its provider's description, as OpenAI's and Anthropic's."""
    request, message = httpx.Request("POST", url), _MESSAGES[trouble]
    error: Exception
    if trouble == "rate_limit":
        body = {"error": {"message": message, "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
        response = httpx.Response(429, request=request, headers={"retry-after": "1"}, json=body)
        error = client.RateLimitError(f"Error code: 429 - {body}", response=response, body=body["error"])
    elif trouble == "timeout":
        error = client.APITimeoutError(request=request)
    elif trouble == "connection_reset":
        error = client.APIConnectionError(message=message, request=request)
    else:  # while a stream is read, the clients let the errors of httpx pass
        error = httpx.RemoteProtocolError(message, request=request)
    return error
