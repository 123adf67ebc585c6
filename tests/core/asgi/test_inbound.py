"""A cassette for each request of an ASGI server, and requests sent again from their cassettes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, replay_source, use_cassette
from agenttape_core.asgi import TapeInbound
from agenttape_core.errors import ConfigurationError
from agenttape_core.storage import Cassette

KEY = "Bearer " + "tok-" + "4f9a1c7be2d83560"


@boundary("tool")
async def look_up(city: str) -> str:
    """Reach the outside."""
    await asyncio.sleep(0)
    return f"{city}: sunny"


class App:
    """A server that streams its answer, and may go on after it.

    Args:
        later: The cities that it looks up when it has answered.
        fails: Whether it fails in the middle.
    """

    def __init__(self, later: tuple[str, ...] = (), *, fails: bool = False) -> None:
        self._later = later
        self._fails = fails
        self.seen: list[Any] = []
        self.may_go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or take part in the startup."""
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{event}"
                self.seen.append(event)
                await send({"type": f"lifespan.{event}.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        cities = json.loads(body)["cities"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        for city in cities:
            line = f"{await look_up(city)}\n".encode()
            await send({"type": "http.response.body", "body": line, "more_body": True})
        if self._fails:
            raise LookupError("no more cities")
        if self._later:
            self.task = asyncio.ensure_future(self._go_on())
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if self._later:
            del self.task  # or the one that is done would keep its context

    async def _go_on(self) -> None:
        for city in self._later:
            await look_up(city)


async def ask(app: Any, *cities: str, headers: dict[str, str] | None = None, gone: bool = False) -> str:
    """Send a request in two parts, and return the body of the answer.

    Args:
        app: The application.
        cities: What is asked for.
        headers: Headers of the request.
        gone: Whether the client goes away as soon as the answer has begun.
    """
    body = json.dumps({"cities": cities}).encode()
    parts = [(body[:4], True), (body[4:], False)]
    answer, begun = bytearray(), asyncio.Event()

    async def receive() -> Any:
        if not parts:
            return {"type": "http.disconnect"}
        part, more = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": more}

    async def send(message: Any) -> None:
        answer.extend(message.get("body", b""))
        begun.set()
        if gone:
            await asyncio.Event().wait()  # until it is cancelled

    pairs = {"content-type": "application/json", "authorization": KEY, **(headers or {})}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/weather",
        "query_string": b"unit=c",
        "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
    }
    asked = asyncio.ensure_future(app(scope, receive, send))
    if gone:
        await begun.wait()
        asked.cancel()
        await asyncio.wait([asked])
    else:
        await asked
    return answer.decode()


def run(middleware: TapeInbound, *work: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Do things at once, and wait for the cassettes."""

    async def all_of_it() -> list[Any]:
        found = await asyncio.gather(*(one() for one in work), return_exceptions=True)
        await asyncio.wait_for(middleware.written(), 60)
        return list(found)

    return asyncio.run(all_of_it())


def only(folder: Path) -> Cassette:
    """Return the only cassette of a folder."""
    (path,) = folder.iterdir()
    return open_cassette(path)


@pytest.mark.slow
def test_requests_at_once_have_a_cassette_each(tmp_path: Path) -> None:
    """Twenty requests at once are twenty cassettes with their own ids and no authorization, and are answered again."""
    taped = TapeInbound(App(), tmp_path)
    work = [
        (lambda n=n: ask(taped, f"city {n}", "Rome", headers={"X-Workflow-Id": f"flow-{n}"}))  # type: ignore[misc]
        for n in range(20)
    ]
    answers = run(taped, *work)
    found = {}
    for path in tmp_path.iterdir():
        cassette = open_cassette(path)
        request = cassette.header.input["$request"]
        (step,) = cassette.steps()
        flow = request["headers"]["x-workflow-id"]
        assert request["headers"] == {"content-type": "application/json", "x-workflow-id": flow}
        assert (request["method"], request["path"], request["query"]) == ("POST", "/weather", "unit=c")
        assert (step.kind, step.name, step.metadata["x-workflow-id"]) == ("request", "POST /weather", flow)
        assert path.stem == cassette.header.volatile.run_id
        assert KEY[7:] not in path.read_text()
        assert len(list(cassette.interactions())) == 2
        again = replay_source(path, App())
        assert again.answer.differences == []
        found[flow] = again.answer.text
    assert found == {f"flow-{n}": answer for n, answer in enumerate(answers)}


def test_no_request_looks_through_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request costs the same beside ten thousand cassettes as beside none: it looks for none of them."""
    looked: list[Path] = []
    for name in ("listdir", "scandir"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda path=".", real=real: looked.append(Path(path)) or real(path))
    run(taped := TapeInbound(App(), tmp_path), lambda: ask(taped, "Paris"))
    assert tmp_path not in looked
    assert list(tmp_path.iterdir())
    assert tmp_path in looked


def test_the_next_request_of_a_connection(tmp_path: Path) -> None:
    """A server may begin its next request while it reads or sends for the last one: that is a request of its own."""
    taped = TapeInbound(App(), tmp_path, patience=60)
    later: list[asyncio.Task[str]] = []

    async def server(scope: Any, receive: Any, send: Any) -> None:
        async def receiving() -> Any:
            later.append(asyncio.ensure_future(ask(taped, "Rome")))
            return await receive()

        async def sending(message: Any) -> None:
            later.append(asyncio.ensure_future(ask(taped, "Oslo")))
            await send(message)

        await taped(scope, receiving, sending)

    async def both() -> list[str]:
        return [await ask(server, "Paris"), *await asyncio.gather(*later)]

    (found,) = run(taped, both)
    assert found == ["Paris: sunny\n", *["Rome: sunny\n"] * 2, *["Oslo: sunny\n"] * 3]
    cities = [[call.request["arguments"] for call in open_cassette(path).interactions()] for path in tmp_path.iterdir()]
    assert sorted(cities, key=str) == [[{"city": city}] for city in ["Oslo"] * 3 + ["Paris"] + ["Rome"] * 2]


def test_the_server_keeps_its_own_context(tmp_path: Path) -> None:
    """What a server reads and sends runs in its own context, and gets what the application is told: errors, its end."""
    where: ContextVar[str] = ContextVar("where")
    seen: list[str] = []

    async def receive() -> Any:
        await asyncio.sleep(0)
        seen.append(where.get())
        raise ConnectionResetError("gone")

    async def send(message: Any) -> None:
        seen.append(where.get())
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        where.set("in the application")
        with pytest.raises(ConnectionResetError):
            await receive()
        async with asyncio.timeout(0.01):
            await send({"type": "http.response.start", "status": 200})

    async def request() -> None:
        where.set("in the server")
        await taped({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)

    taped = TapeInbound(app, tmp_path, patience=0)  # the exception that is kept here keeps the context
    (found,) = run(taped, request)
    assert isinstance(found, TimeoutError)
    assert seen == ["in the server", "in the server", "cancelled"]


def test_streams_of_others(tmp_path: Path) -> None:
    """A request says nothing of what others of the process have made while it was answered, and begin after its end."""
    made: list[Awaitable[str]] = []

    async def server(scope: Any, receive: Any, send: Any) -> None:
        async def receiving() -> Any:
            made.append(look_up("Oslo"))
            return await receive()

        await taped(scope, receiving, send)

    async def one_after_the_other() -> str:
        await ask(server, "Paris")
        await taped.written()
        return " ".join([await each for each in made])

    taped = TapeInbound(App(), tmp_path)
    assert run(taped, one_after_the_other) == ["Oslo: sunny Oslo: sunny"]
    assert len(list(only(tmp_path).interactions())) == 1


def test_what_outlives_an_answer_is_recorded(tmp_path: Path) -> None:
    """A task that goes on when the answer was sent is in the cassette, and in the replay."""
    app = App(later=("Oslo", "Bern"))
    taped = TapeInbound(app, tmp_path)
    run(taped, lambda: ask(taped, "Paris"))
    cassette = only(tmp_path)
    assert [item.request["arguments"]["city"] for item in cassette.interactions()] == ["Paris", "Oslo", "Bern"]
    assert len(replay_source(cassette.path, App(later=("Oslo", "Bern"))).report.replayed) == 3


def test_a_client_that_goes_away(tmp_path: Path) -> None:
    """A request that was cancelled in its answer is recorded as far as it came; the server sees its cancellation."""
    taped = TapeInbound(App(), tmp_path)
    run(taped, lambda: ask(taped, "Paris", gone=True))
    (step,) = only(tmp_path).steps()
    assert (step.status, step.output["status"]) == ("failed", 200)


def until_gone(told: str, seen: list[str]) -> Any:
    """Return an application that looks cities up until its client has gone.

    Args:
        told: When it is told so.
        seen: What it has found.
    """

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.ensure_future(receive()) if told != "when it asks" else None
        for number in range(100):
            said = await look_up(f"city {number}")
            seen.append(said)
            if told == "while it sends":
                await send({"type": "http.response.body", "body": f"{said}\n".encode(), "more_body": True})
            if gone is None and number >= 3 and (await receive())["type"] == "http.disconnect":
                break
            if gone is not None and told == "while it waits" and number == 3:
                await gone
            if gone is not None and gone.done():
                break
        await send({"type": "http.response.body", "body": b"the end"})

    return app


@pytest.mark.parametrize("told", ["while it sends", "while it waits", "when it asks"])
def test_a_client_goes_away_again(tmp_path: Path, told: str) -> None:
    """Sent again, a request is left by its client where it was left: the application is told so after the same call."""
    seen: list[str] = []

    async def request() -> None:
        messages = [{"type": "http.request", "body": b""}]
        left = asyncio.Event()

        async def receive() -> Any:
            if not messages:
                await left.wait()
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if len(seen) == 4:
                left.set()
                await asyncio.sleep(0)

        if told != "while it sends":
            left.set()
        await taped({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)

    app = until_gone(told, seen)
    taped = TapeInbound(app, tmp_path)
    run(taped, request)
    recorded = seen[:]
    seen.clear()
    again = replay_source(only(tmp_path).path, app)
    assert (seen, again.answer.differences) == (recorded, [])
    assert len(recorded) < 6


def test_what_the_startup_gives_to_requests(tmp_path: Path) -> None:
    """A request that is sent again has the state that the application has made at its startup."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            scope["state"]["city"] = "Rome"
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": (await look_up(scope["state"]["city"])).encode()})

    async def request() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "state": {"city": "Rome"}}
        await taped(scope, lambda: asyncio.sleep(0, {"type": "http.request"}), lambda _: asyncio.sleep(0))

    taped = TapeInbound(app, tmp_path)
    run(taped, request)
    assert replay_source(only(tmp_path).path, app).answer.text == "Rome: sunny"


def test_what_an_application_raises_is_raised(tmp_path: Path) -> None:
    """The server gets the application's own exception, and the cassette has what came before it."""
    taped = TapeInbound(App(fails=True), tmp_path)
    (error,) = run(taped, lambda: ask(taped, "Paris"))
    assert (type(error), str(error)) == (LookupError, "no more cities")
    cassette = only(tmp_path)
    assert (len(list(cassette.interactions())), next(cassette.steps()).error.type) == (1, "builtins:LookupError")


async def times_out() -> None:
    """Wait in vain."""
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()


async def gives_up() -> None:
    """Wait in vain for a task."""
    await asyncio.wait_for(asyncio.Event().wait(), 0.01)


async def fails_after_a_task() -> None:
    """Fail when a task has ended that a frame still has."""
    task = asyncio.create_task(asyncio.sleep(0))
    await task
    raise LookupError("no more cities")


@pytest.mark.parametrize("fails", [times_out, gives_up, fails_after_a_task])
def test_a_failure_is_written_at_once(fails: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the frames of an exception hold outlives no answer: no request waits for its patience or a collection."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await fails()

    async def request() -> None:
        with pytest.raises((TimeoutError, LookupError)):
            await taped({"type": "http", "method": "GET", "path": "/", "headers": []}, nothing, nothing)

    async def nothing(_: Any = None) -> Any:
        return {"type": "http.request"}

    ends: list[bool] = []
    real = TapeInbound._outlived

    async def outlived(self: TapeInbound, gone: asyncio.Event, hurry: asyncio.Event) -> None:
        for _ in range(20):  # rounds of the loop, in which the server drops the exception
            await asyncio.sleep(0)
        ends.append(gone.is_set())
        hurry.set()
        await real(self, gone, hurry)

    monkeypatch.setattr(TapeInbound, "_outlived", outlived)
    taped = TapeInbound(app, tmp_path)
    gc.disable()
    try:
        run(taped, request)
    finally:
        gc.enable()
    assert ends == [True]
    assert next(only(tmp_path).steps()).error is not None


def test_recording_never_reaches_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where a cassette cannot be written, the request is answered all the same, and the log says why."""
    (tmp_path / "file").write_text("")
    taped = TapeInbound(App(), tmp_path / "file" / "runs")
    with caplog.at_level(logging.ERROR, "agenttape"):
        assert run(taped, lambda: ask(taped, "Paris")) == ["Paris: sunny\n"]
    assert "TapeInbound could not record" in caplog.text


def test_another_library_than_asyncio(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Under trio, for example, requests are answered without a cassette, and the log says why."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": scope["type"]})

    async def send(message: Any) -> None:
        sent.append(message["type"])

    sent: list[str] = []
    for kind in ("lifespan", "http"):
        with pytest.raises(StopIteration), caplog.at_level(logging.ERROR, "agenttape"):
            TapeInbound(app, tmp_path)({"type": kind}, send, send).send(None)
    assert sent == ["lifespan", "http"]
    assert "asyncio" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_other_threads_are_not_the_requests(tmp_path: Path) -> None:
    """What a thread of the server does beside a request is not in the cassette of that request."""
    done = threading.Event()
    start = threading.Event()

    def beside() -> None:
        assert start.wait(20)
        asyncio.run(look_up("beside"))
        done.set()

    thread = threading.Thread(target=beside)
    thread.start()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        start.set()
        assert await asyncio.to_thread(done.wait, 20)
        await App()(scope, receive, send)

    taped = TapeInbound(app, tmp_path)
    run(taped, lambda: ask(taped, "Paris"))
    thread.join(20)
    assert [item.request["arguments"]["city"] for item in only(tmp_path).interactions()] == ["Paris"]


def test_the_shutdown_of_the_server_writes(tmp_path: Path) -> None:
    """The shutdown waits for no task that goes on for ever, but writes what there is."""
    held = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            tasks.append(asyncio.ensure_future(held.wait()))
        await App()(scope, receive, send)

    tasks: list[Any] = []
    taped = TapeInbound(app, tmp_path, patience=600)

    async def server() -> None:
        messages = iter(["startup", "shutdown"])

        async def receive() -> Any:
            return {"type": f"lifespan.{next(messages)}"}

        async def send(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                await ask(taped, "Paris")

        await taped({"type": "lifespan"}, receive, send)
        assert len(list(only(tmp_path).interactions())) == 1
        tasks[0].cancel()

    asyncio.run(server())


def test_a_session_comes_first(tmp_path: Path) -> None:
    """Within a session, such as that of a test, the middleware makes no file, and the calls are the session's."""
    taped = TapeInbound(App(), tmp_path / "runs")
    with use_cassette(tmp_path / "test.yaml", mode="all") as cassette:
        run(taped, lambda: ask(taped, "Paris"))
    assert (len(cassette.report.recorded), (tmp_path / "runs").exists()) == (1, False)


def test_requests_are_chosen(tmp_path: Path) -> None:
    """A request that `when` refuses is answered without a cassette."""
    taped = TapeInbound(App(), tmp_path, when=lambda scope: scope["path"] != "/weather")
    assert run(taped, lambda: ask(taped, "Paris")) == ["Paris: sunny\n"]
    assert list(tmp_path.iterdir()) == []


def test_another_answer_is_told(tmp_path: Path) -> None:
    """A changed server that answers otherwise is told, line by line, with ids and times apart."""

    def made(told: str) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": told.encode()})

        return app

    first = "at 2026-11-23T01:02:03Z\nid 0b9c1ffe-4a4c-4f0e-b8a4-6a2a8f9f8b11\nsunny"
    taped = TapeInbound(made(first), tmp_path)
    run(taped, lambda: ask(taped, "Paris"))
    path = only(tmp_path).path
    same = "at 2027-01-01T00:00:00Z\nid 1b9c1ffe-4a4c-4f0e-b8a4-6a2a8f9f8b12\nsunny"
    assert replay_source(path, made(same)).answer.differences == []
    assert replay_source(path, made(first.replace("sunny", "rain"))).answer.differences[-2:] == ["-sunny", "+rain"]


def test_the_application_starts_and_stops(tmp_path: Path) -> None:
    """An application has its startup before and its shutdown after the request, which may have more headers."""
    taped = TapeInbound(App(), tmp_path)
    run(taped, lambda: ask(taped, "Paris"))
    app, scopes = App(), list[Any]()

    async def seeing(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        app.seen.append(scope["type"])
        await app(scope, receive, send)

    replay_source(only(tmp_path).path, seeing, headers=["Authorization: Bearer dev", "Accept: text/plain"])
    assert app.seen == ["lifespan", "startup", "http", "shutdown"]
    assert {(b"authorization", b"Bearer dev"), (b"accept", b"text/plain")} <= set(scopes[1]["headers"])
    with pytest.raises(ConfigurationError, match="--header Authorization: expected a name and a value"):
        replay_source(only(tmp_path).path, seeing, headers=["Authorization"])


def test_bytes_are_sent_as_they_were(tmp_path: Path) -> None:
    """A body that is no text comes back byte by byte."""
    bodies: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            bodies.append((await receive())["body"])
            await look_up("Paris")
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    taped = TapeInbound(app, tmp_path, suffix=".yaml")
    sent = bytes(range(256))

    async def receive() -> Any:
        return {"type": "http.request", "body": sent}

    async def send(_: Any) -> None:
        pass

    scope = {"type": "http", "method": "PUT", "path": "/ä", "query_string": b"", "headers": []}
    run(taped, lambda: taped(scope, receive, send))
    assert replay_source(only(tmp_path).path, app).answer.status == 204
    assert bodies == [sent, sent]


@pytest.mark.parametrize(
    ("options", "problem"), [({"suffix": ".txt"}, "suffix='.txt'"), ({"freeze": ["moon"]}, "moon")], ids=str
)
def test_wrong_options(tmp_path: Path, options: Any, problem: str) -> None:
    """A wrong option is refused when the server is made."""
    with pytest.raises(ConfigurationError, match=problem):
        TapeInbound(App(), tmp_path, **options)
