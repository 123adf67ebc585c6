"""`agenttape serve --as`: its refusals, and what its server refuses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.integration import Boundary, current_session, intercept
from agenttape_core.tools.model_server import ModelServer, serve_models

ASKED = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Hello"}]}


@boundary("tool")
def walk() -> str:
    """Walk."""
    return "far"


@pytest.fixture
def talk(folder: Path) -> Path:
    """A recorded call of a model."""
    with use_cassette(folder / "talk.yaml", mode="record"):
        session = current_session()
        assert session is not None
        intercept(session.cross(Boundary("chat"), "Model", ASKED), lambda: "Good morning.")
    return folder / "talk.yaml"


@pytest.fixture
def served(talk: Path) -> Iterator[ModelServer]:
    """A server of that call, in OpenAI's wire format."""
    with serve_models(talk) as server:
        yield server


def posted(
    server: ModelServer, body: bytes | None, path: str = "/v1/chat/completions", **headers: str
) -> tuple[int, Any]:
    """Post a body, and return the status and the object of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        given = {"Content-Type": "application/json", "Connection": "close", **headers}
        connection.request("GET" if body is None else "POST", path, body, given)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pace", "slow"], "--pace: expected none, recorded or a factor"),
        (["--as", "google"], "'google' is not one of 'openai', 'anthropic'"),
    ],
)
def test_wrong_options_are_refused(talk: Path, command: Any, words: list[str], said: str) -> None:
    """A pace or a provider that isn't known is refused before the server starts."""
    done = command("serve", talk, "--as", "openai", *words)
    assert done.code == 2
    assert said in done.err.replace("\n", " ")


def test_options_of_models_need_a_provider(talk: Path, command: Any) -> None:
    """Several cassettes, a pace and repeats are for models, so they need --as."""
    for words in ([talk], ["--pace", "recorded"], ["--on-repeat", "cycle"]):
        done = command("serve", talk, *words)
        assert done.code == 2
        assert "--as openai or --as anthropic" in done.err


def test_a_recording_without_models_is_refused(folder: Path, command: Any) -> None:
    """A cassette in which no model was called has nothing to serve, and the message says what to do."""
    with use_cassette(folder / "walk.yaml", mode="record"):
        walk()
    done = command("serve", "walk.yaml", "--as", "openai")
    assert done.code == 2
    assert "walk.yaml: no call of a model is recorded" in done.err


def test_a_port_in_use_is_refused(served: ModelServer, talk: Path, command: Any) -> None:
    """A port that another program has is refused with the option for another one."""
    done = command("serve", talk, "--as", "openai", "--port", served.server_port)
    assert done.code == 2
    assert "--port" in done.err


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": "999999999"}, 400),
    ],
)
def test_pages_and_large_bodies_get_nothing(served: ModelServer, headers: dict[str, str], status: int) -> None:
    """Another host, a page of a browser, another type and a body that is too large are refused."""
    found, answer = posted(served, json.dumps(ASKED).encode(), **headers)
    assert found == status
    assert answer["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"messages": 3}', b'{"messages": [{"content": {"a": [[]]}}]}'])
def test_a_body_that_is_no_request_is_told_so(served: ModelServer, body: bytes) -> None:
    """A body that isn't a request of the provider gets an answer, and the server goes on."""
    assert posted(served, body)[0] in {400, 409}
    assert posted(served, json.dumps(ASKED).encode())[0] == 200


def test_another_path_is_named(served: ModelServer) -> None:
    """A path that this provider doesn't have gets 404, with those that it has."""
    status, answer = posted(served, b"{}", "/v1/messages")
    assert status == 404
    assert "/chat/completions" in answer["error"]["message"]


def test_unrecorded_requests_are_listed_and_bounded(served: ModelServer) -> None:
    """Requests without a recording are all counted, and the first hundred are kept."""
    other = json.dumps({**ASKED, "model": "gpt-5"}).encode()
    for _ in range(105):
        assert posted(served, other)[0] == 409
    status, answer = posted(served, None, "/unrecorded")
    assert status == 200
    assert (answer["answered"], answer["unknown"], len(answer["unrecorded"])) == (0, 105, 100)
    assert answer["unrecorded"][0]["nearest"] == "talk.yaml call 1"


def test_a_client_that_leaves_changes_nothing(served: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A client that closes its connection before the answer leaves the server as it was."""
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port, timeout=10)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"{")
    connection.close()
    assert posted(served, json.dumps(ASKED).encode())[0] == 200
    assert capsys.readouterr().err == ""
