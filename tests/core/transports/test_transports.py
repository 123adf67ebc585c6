"""The transports themselves: outside sessions, around other transports, side by side, and where they do not fit."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Boundary, aintercept

from .faces import CLIENTS, FACES, Face, face_id, settled
from .service import Service

ASYNC = pytest.mark.parametrize("face", [face for face in FACES if face.is_async], ids=face_id)
URL = "http://service.test/"


async def test_outside_any_session(face: Face) -> None:
    """Outside any session the answer is the very object that the inner transport gives."""
    answer = face.module.Response(200, text="real")
    requests: list[Any] = []
    transport = face.tape(face.module.MockTransport(lambda request: requests.append(request) or answer))
    request = face.module.Request("GET", URL)
    send = transport.handle_async_request if face.is_async else transport.handle_request
    assert await settled(send(request)) is answer
    assert requests == [request]


async def test_surrounds_the_inner_one(face: Face) -> None:
    """Opening and closing a client opens and closes the inner transport."""
    happened: list[str] = []

    class Inner(face.module.MockTransport):  # type: ignore[misc, name-defined]
        def __enter__(self) -> Any:
            happened.append("enter")

        def __exit__(self, *error: object) -> None:
            happened.append("exit")

        def close(self) -> None:
            happened.append("close")

        async def __aenter__(self) -> Any:
            happened.append("enter")

        async def __aexit__(self, *error: object) -> None:
            happened.append("exit")

        async def aclose(self) -> None:
            happened.append("close")

    def respond(_: Any) -> Any:
        return face.module.Response(200)

    async with face.client(Inner(respond)):
        assert happened == ["enter"]
    client = (face.module.AsyncClient if face.is_async else face.module.Client)(transport=face.tape(Inner(respond)))
    await settled(client.aclose() if face.is_async else client.close())
    assert happened == ["enter", "exit", "close"]


async def test_gives_connections_back(face: Face) -> None:
    """A real response is closed with the one that stands for it, and its connection is within reach until then."""
    closed: list[str] = []

    class Stream(face.module.ByteStream):  # type: ignore[misc, name-defined]
        def close(self) -> None:
            closed.append("closed")

        async def aclose(self) -> None:
            closed.append("closed")

    extensions = {"network_stream": object(), "http_version": b"HTTP/2"}
    inner = face.module.MockTransport(
        lambda _: face.module.Response(200, stream=Stream(b"body"), extensions=extensions)
    )
    with use_cassette("c", mode="once") as session:
        async with face.client(inner) as client:
            async with face.stream(client, "GET", URL) as response:
                assert response.extensions["network_stream"] is extensions["network_stream"]
                assert closed == []
            assert closed == ["closed"]
            await settled(client.get(URL))
            assert set(closed[1:]) == {"closed"}
    head = (session.interactions[0].outcome.chunks or [])[0]
    assert head == {"status": 200, "http_version": "HTTP/2", "headers": []}


async def test_default_inner_transport(face: Face, service: Service) -> None:
    """Without an inner transport the client's own is used, and only when something is really sent."""
    bodies = []
    for mode in ("once", "none"):
        async with face.untaped(face.tape()) as client:
            with use_cassette("c", mode=mode):
                bodies.append((await settled(client.get(service.url + "/echo"))).json())
    async with face.untaped(face.tape()) as client:
        assert (await settled(client.get(service.url + "/echo"))).json()["number"] == 2
    assert [body["number"] for body in bodies] == [1, 1]


async def test_auth_and_hooks(face: Face, service: Service) -> None:
    """An auth flow runs as it does without a tape, so do event hooks: they belong to the client."""

    def async_hook(seen: list[Any]) -> Any:
        async def hook(response: Any) -> None:
            seen.append(response)

        return hook

    class Auth(face.module.Auth):  # type: ignore[misc, name-defined]
        requires_response_body = True

        def auth_flow(self, request: Any) -> Iterator[Any]:
            response = yield request
            if response.status_code == 401 and response.text == "who are you?":
                request.headers["Authorization"] = "Bearer opaque"
                yield request

    for mode in ("once", "none"):
        seen: list[Any] = []
        hook = async_hook(seen) if face.is_async else seen.append
        with use_cassette("c", mode=mode) as session:
            async with face.client(auth=Auth(), event_hooks={"response": [hook]}) as client:
                response = await settled(client.get(service.url + "/guarded"))
        assert (response.status_code, response.json()["number"]) == (200, 2)
        assert [each.status_code for each in seen] == [401, 200]
        assert len({item.fingerprint for item in session.interactions}) == 1
        service.stop()


@ASYNC
async def test_gathered(face: Face, service: Service) -> None:
    """Equal requests at once find a recording each, the same in every run."""

    async def ask(client: Any, _: int) -> Any:
        return (await client.get(service.url + "/echo")).json()["number"]

    runs = []
    for mode in ("once", "none", "none"):
        with use_cassette("c", mode=mode):
            async with face.client() as client:
                runs.append(await asyncio.gather(*(ask(client, n) for n in range(6))))
    assert sorted(runs[0]) == [1, 2, 3, 4, 5, 6]
    assert runs[1] == runs[2] == runs[0]


@pytest.mark.parametrize("face", [face for face in FACES if not face.is_async], ids=face_id)
def test_threads(face: Face, service: Service) -> None:
    """A client that threads share serves each of them its own question."""

    def ask(client: Any, number: int) -> Any:
        return client.get(service.url + "/echo", params={"n": number}).json()["target"]

    for mode in ("once", "none"):
        with (
            use_cassette("c", mode=mode) as session,
            face.module.Client(transport=face.tape(face.real())) as client,
            ThreadPoolExecutor(4) as pool,
        ):
            asking = [pool.submit(copy_context().run, ask, client, n) for n in range(12)]
            assert [done.result() for done in asking] == [f"/echo?n={n}" for n in range(12)]
        assert len(session.interactions) == 12
        service.stop()


async def test_inside_another_boundary(face: Face, service: Service) -> None:
    """What a tool asks over HTTP is recorded inside its call, and replayed when the tool is stepped into."""

    async def weather() -> Any:
        async with face.client() as client:
            return (await settled(client.get(service.url + "/json"))).json()

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode) as session:
            session_call = session.cross(Boundary("tool"), "weather", {})
            assert await aintercept(session_call, weather) == {"city": "Zürich", "sun": True}
        service.stop()
    tool, http = session.interactions
    assert (tool.kind, http.kind, http.parent) == ("tool", "http", tool.number)
    assert str(session.report) == "1 replayed, 0 recorded, 1 stepped into"


async def test_live_by_its_host(face: Face, service: Service) -> None:
    """A host can be named as live."""
    with use_cassette("c", mode="once"):
        async with face.client() as client:
            await settled(client.get(service.url + "/echo"))
    with use_cassette("c", live=("127.0.0.1",)) as session:
        async with face.client() as client:
            assert (await settled(client.get(service.url + "/echo"))).json()["number"] == 2
    assert session.report.recorded[0].name == "127.0.0.1"


async def test_websockets_are_refused(face: Face) -> None:
    """A connection that becomes another protocol is no response: it is refused, and the session fails."""
    with pytest.raises(ConfigurationError, match="WebSocket cannot be recorded"), use_cassette("c", mode="once"):
        async with face.client(face.no_network()) as client:
            with suppress(ConfigurationError):
                await settled(client.get(URL, headers={"Connection": "upgrade", "Upgrade": "websocket"}))


@pytest.mark.parametrize("name", CLIENTS)
def test_without_the_client(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the client is not installed, the import says which extra installs it."""
    module = f"agenttape_core.transports.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'pip install "agenttape-core\[{name}\]"') as caught:
        importlib.import_module(module)
    assert caught.value.name == name


@pytest.mark.parametrize("name", CLIENTS)
def test_accepted_by_the_client(name: str) -> None:
    """The transports are of the classes that their client asks for."""
    client, taping = importlib.import_module(name), importlib.import_module(f"agenttape_core.transports.{name}")
    assert issubclass(taping.TapeTransport, client.BaseTransport)
    assert issubclass(taping.AsyncTapeTransport, client.AsyncBaseTransport)
