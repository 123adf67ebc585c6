"""A client that is refused for want of a key in a replay by the command: its end says that any text will do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core.asgi import TapeInbound

from .conftest import Ended

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("forked_python", "forked_functions")]

ADVICE = "agenttape: in a replay any text will do as a key, since no call is sent: set SHOP_API_KEY=no-key"
SHOP = """
import os
from agenttape_core import boundary

class Client:
    def __init__(self):
        if "SHOP_API_KEY" not in os.environ:
            raise ValueError("The api_key must be set, also by the environment variable SHOP_API_KEY")

@boundary("tool")
def look_up(city):
    return city

def main(city="Paris"):
    Client()
    return look_up(city)
"""
PROGRAMS = {
    "command": "from shop import main\nmain()\n",
    "child": """
        import subprocess, sys
        words = [sys.executable, "-c", "from shop import main; main()"]
        sys.exit(subprocess.run(words, capture_output=True).returncode)
        """,
    "thread": """
        import threading
        from shop import main
        thread = threading.Thread(target=main)
        thread.start()
        thread.join()
        """,
    **{
        way: f"""
        import multiprocessing
        from shop import main
        if __name__ == "__main__":
            process = multiprocessing.get_context("{way}").Process(target=main)
            process.start()
            process.join()
        """
        for way in ("fork", "spawn")
    },
    "test_it": """
        from shop import main
        def test_it():
            assert main() == "Paris"
        """,
    "before any session": """
        import os
        if "SHOP_API_KEY" not in os.environ:
            raise ValueError("No API key found: set SHOP_API_KEY")
        from shop import main
        main()
        """,
}


@pytest.fixture(autouse=True)
def shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with a client, which has its key for now."""
    (folder / "shop.py").write_text(SHOP)
    monkeypatch.setenv("SHOP_API_KEY", "sk")


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(each, marks=pytest.mark.night) for each in ("child", "spawn")),
        *(each for each in PROGRAMS if each not in {"child", "spawn"}),
        "function",
    ],
)
def test_a_command_says_so(
    kind: str, program: Callable[..., str], agenttape: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice is at the end of a replay, once, whichever process and thread has raised; no recording says it."""
    words: tuple[str, ...] = ("shop:main",)
    if kind != "function":
        name = program(f"{kind.replace(' ', '_')}.py", PROGRAMS[kind])
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take longer than the run
        of_pytest = (sys.executable, "-m", "pytest", "-q", "-rN", "-p", "agenttape", "-p", "no:cacheprovider")
        words = (*(of_pytest if kind == "test_it" else ("python",)), name)
    assert agenttape("record", "--cassette", "c", "--", *words).code == 0
    monkeypatch.delenv("SHOP_API_KEY")
    ended = agenttape("replay", "--cassette", "c", "--", *words)
    said = ended.out if kind == "test_it" else ended.err  # of a test, it's in the failure
    assert ended.code == 1
    assert said.lower().count(ADVICE.lower()) == 1, said
    if kind == "command":
        assert "any text will do" not in agenttape("record", "--cassette", "c", "--", *words).err
        monkeypatch.setenv("SHOP_API_KEY", "no-key")
        assert agenttape("replay", "--cassette", "c", "--", *words).code == 0


@pytest.mark.parametrize("at_startup", [True, False])
def test_a_server_says_so(
    at_startup: bool, folder: Path, agenttape: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that makes its client when it starts, or for a request, ends with the advice."""
    app = dedent("""
        from shop import Client, look_up

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                message = await receive()
                if AT_STARTUP:
                    try:
                        Client()
                    except ValueError as error:
                        await send({"type": "lifespan.startup.failed", "message": str(error)})
                        return
                await send({"type": "lifespan.startup.complete"})
                await receive()
                await send({"type": "lifespan.shutdown.complete"})
                return
            Client()
            look_up("Paris")
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"Paris"})
    """)

    (folder / "replayed.py").write_text(app.replace("AT_STARTUP", str(at_startup)))
    monkeypatch.syspath_prepend(folder)
    for name in ("replayed", "shop"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import replayed  # type: ignore[import-not-found]

    taped = TapeInbound(replayed.app, "runs")

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(_: Any) -> None:
        pass

    async def request() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
        await taped(scope, receive, send)
        await taped.written()

    asyncio.run(request())
    for name in ("replayed", "shop"):
        monkeypatch.delitem(sys.modules, name)
    (run,) = (folder / "runs").iterdir()
    monkeypatch.delenv("SHOP_API_KEY")
    ended = agenttape("replay", "--run", str(run), "--asgi", "replayed:app")
    assert ended.code != 0
    assert ended.err.count(ADVICE.removeprefix("agenttape: ")) == 1, ended.err
    monkeypatch.setenv("SHOP_API_KEY", "no-key")
    assert agenttape("replay", "--run", str(run), "--asgi", "replayed:app").code == 0
