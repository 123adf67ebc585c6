"""A server under uvicorn, recorded request by request: kept-alive connections, large uploads, streams, WebSockets.

It is skipped where the packages could not be installed.
"""

# ruff: noqa: E402 - after it is known that the packages are there
from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, replay_source
from agenttape_core.asgi import TapeInbound

uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
websockets = pytest.importorskip("websockets")
pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute

pytestmark = pytest.mark.filterwarnings("ignore")
CLIENTS, ROUNDS = 10, 2
UPLOAD = b"x" * 200_000


@boundary("tool")
async def look_up(what: str) -> str:
    """Reach the outside."""
    await asyncio.sleep(0)
    return f"{what}: found"


async def upload(request: Request) -> Response:
    """Look up how long a body is."""
    return PlainTextResponse(await look_up(f"{request.path_params['name']} {len(await request.body())}"))


async def stream(request: Request) -> Response:
    """Look up three things, one after the other."""

    async def lines() -> AsyncIterator[str]:
        for number in range(3):
            yield await look_up(f"{request.path_params['name']} {number}")

    return StreamingResponse(lines())


async def later(request: Request) -> Response:
    """Look up something after the answer."""
    return PlainTextResponse("yes", background=BackgroundTask(look_up, request.path_params["name"]))


def test_requests_at_once_on_kept_connections(tmp_path: Path) -> None:
    """Each request has its own calls in a cassette of its own, none is lost, and they are answered again."""

    async def chat(socket: Any) -> None:
        """Look up what is said on a WebSocket."""
        await socket.accept()
        await socket.send_text(await look_up(await socket.receive_text()))
        await socket.close()

    def app() -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/upload/{name}", upload, methods=["POST"]),
                Route("/stream/{name}", stream),
                Route("/later/{name}", later),
                WebSocketRoute("/chat", chat),
            ]
        )

    async def used(taped: TapeInbound) -> list[str]:
        """Let clients send requests at once, each on a connection that it keeps; return the paths."""
        running = uvicorn.Server(uvicorn.Config(taped, port=0, log_level="error"))
        serving = asyncio.ensure_future(running.serve())
        paths: list[str] = []

        async def client(number: int, port: int) -> None:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:
                for turn in range(ROUNDS):
                    for kind in ("upload", "stream", "later"):
                        paths.append(f"/{kind}/{number}-{turn}")
                        sent = {"method": "POST", "content": UPLOAD} if kind == "upload" else {"method": "GET"}
                        assert (await http.request(url=paths[-1], **sent)).status_code == 200

        async with asyncio.timeout(120):
            while not running.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            port = running.servers[0].sockets[0].getsockname()[1]
            async with websockets.connect(f"ws://127.0.0.1:{port}/chat") as socket:
                await socket.send("weather")
                assert await socket.recv() == "weather: found"
            await asyncio.gather(*(client(number, port) for number in range(CLIENTS)))
            running.should_exit = True
            await serving
        return paths

    paths = asyncio.run(used(TapeInbound(app(), tmp_path)))
    found: Counter[str] = Counter()
    for path in sorted(tmp_path.iterdir()):
        cassette = open_cassette(path)
        name = cassette.header.input["$request"]["path"]
        found[name] += 1
        what = [call.request["arguments"]["what"] for call in cassette.interactions()]
        kind, key = name.split("/")[1:]
        wanted = {"upload": [f"{key} {len(UPLOAD)}"], "stream": [f"{key} {n}" for n in range(3)], "later": [key]}
        assert what == wanted[kind]
        if key.endswith("-1") and key.startswith("1"):
            again = replay_source(path, app())
            assert (again.answer.differences, len(again.report.replayed)) == ([], len(what))
    assert found == Counter(paths)
    assert len(paths) == CLIENTS * ROUNDS * 3
