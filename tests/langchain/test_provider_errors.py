"""Errors of providers' SDKs come back as what retry and fallback policies look at: type, status, response, ids."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_openai import ChatOpenAI

from agenttape_core import use_cassette

from ..kit.replaying import Twice
from ..kit.serving import serving

KINDS = {400: "BadRequestError", 401: "AuthenticationError", 429: "RateLimitError", 500: "InternalServerError"}


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with the status in its path."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        status = int(self.path.split("/")[1])
        error = {"type": "an_error", "code": "a_code", "param": "model", "message": f"refused with {status}"}
        data = json.dumps({"type": "error", "error": error}).encode()
        self.send_response(status)
        for name in ("x-request-id", "request-id"):  # OpenAI's and Anthropic's
            self.send_header(name, f"req_{len(self.server.asked)}")  # type: ignore[attr-defined]
        self.send_header("retry-after", "7")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@pytest.fixture
def service() -> Iterator[Any]:
    """A running service that refuses every request, and notes it."""
    refusing = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    refusing.asked = []  # type: ignore[attr-defined]
    with serving(refusing) as server:
        yield server


def of_openai(base: str) -> Any:
    return ChatOpenAI(model="gpt-5-mini", base_url=f"{base}/v1", api_key="any-text", max_retries=0)  # type: ignore[arg-type]


def of_anthropic(base: str) -> Any:
    package = pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")
    return package.ChatAnthropic(model="claude-sonnet-5", base_url=base, api_key="any-text", max_retries=0)


@pytest.mark.sweep
@pytest.mark.parametrize("status", KINDS)
@pytest.mark.parametrize("provider", [of_openai, of_anthropic])
@pytest.mark.parametrize("is_async", [False, True])
async def test_errors(is_async: bool, provider: Callable[[str], Any], status: int, service: Any, twice: Twice) -> None:
    """An SDK's error is raised again with all its attributes, and tracers receive the same."""

    class Watching(BaseCallbackHandler):
        """Keeps the response of an error that callbacks receive, as tracers show it."""

        def __init__(self) -> None:
            self.told: list[Any] = []

        def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
            """Keep it."""
            self.told.append(kwargs["response"].model_dump())

    def seen_of(error: Any) -> dict[str, Any]:
        """The attributes of an SDK's error that programs read."""
        response = error.response
        return {
            "type": type(error),
            "text": str(error),
            "status": (error.status_code, response.status_code, response.is_error),
            "request_id": error.request_id,
            "body": error.body,
            "json": response.json(),
            "headers": dict(response.headers),
            "asked": (response.request.method, str(response.request.url)),
            "code": getattr(error, "code", None),
        }

    model = provider(f"http://127.0.0.1:{service.server_port}/{status}")

    async def provoke() -> tuple[dict[str, Any], Any]:
        watching = Watching()
        config: Any = {"callbacks": [watching]}
        with pytest.raises(Exception, match=f"refused with {status}") as caught:
            _ = await model.ainvoke("hi", config) if is_async else model.invoke("hi", config)
        return seen_of(caught.value), watching.told

    recorded = await twice.awaited(provoke)
    assert KINDS[status] in {cls.__name__ for cls in recorded[0]["type"].__mro__}
    assert recorded[0]["request_id"] == "req_1"
    assert len(service.asked) == 1


@pytest.mark.parametrize("provider", [of_openai, of_anthropic])
def test_policies(provider: Callable[[str], Any], service: Any, tmp_path: Path) -> None:
    """A retry by type and a fallback by type decide on a replay as they did on the recorded errors."""
    base = f"http://127.0.0.1:{service.server_port}"
    limited, broken = provider(f"{base}/429"), provider(f"{base}/500")
    path = tmp_path / "errors.yaml"
    jitter: Any = {"max": 0.001}

    def provoke() -> int:
        with pytest.raises(Exception, match="refused with 429") as caught:
            limited.invoke("hi")
        kind = type(caught.value)
        retrying = limited.with_retry(
            retry_if_exception_type=(kind,), stop_after_attempt=3, exponential_jitter_params=jitter
        )
        falling_back = retrying.with_fallbacks([broken], exceptions_to_handle=(kind,))
        with pytest.raises(Exception, match="refused with 500"):
            falling_back.invoke("ho")
        return len(service.asked)

    with use_cassette(path, mode="all") as recording:
        assert provoke() == 5, "one, three attempts and the fallback"
    names = [row.outcome.error.message for row in recording.interactions if row.outcome.error is not None]
    assert sum("500" in name for name in names) == 1
    with use_cassette(path) as replay:
        assert provoke() == 5
    assert str(replay.report) == "5 replayed, 0 recorded"
