"""`http=True`: clients that nobody taped are recorded and replayed as they are, below no boundary that covers them."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import httpcore
import httpx
import pytest
import requests
import urllib3

from agenttape_core import Session, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, NetworkBlockedError, UnrecordedConnectionWarning
from agenttape_core.integration import Boundary, intercept
from agenttape_core.integration.patching import register_tracer
from agenttape_core.transports.httpx import TapeTransport

from ...kit.installed import install
from .callers import CALLERS, Caller, Got, with_aiohttp
from .faces import settled
from .service import PNG, Service

_WRONG_ENCODING = ("Can not decode content-encoding", "Span callback error in on_body")


@pytest.fixture(params=CALLERS.values(), ids=CALLERS)
def caller(request: pytest.FixtureRequest) -> Caller:
    """One of the clients."""
    found: Caller = request.param
    return found


async def outcome(caller: Caller, url: str, **options: Any) -> Any:
    """Return a response, or the type and the text of the error."""
    try:
        return await settled(caller(url, **options))
    except Exception as error:
        # aiohttp has two texts for this: the first bytes of a body come with the headers, or later.
        return type(error), "" if any(words in str(error) for words in _WRONG_ENCODING) else str(error)


async def test_as_without_a_session(caller: Caller, service: Service) -> None:
    """A client gets the same outside a session, while it is recorded, and from the cassette, errors included."""
    paths = (
        *("/plain", "/json", "/chunked", "/sse", "/split", "/gzip", "/binary", "/untyped", "/latin", "/empty"),
        *("/no-content", "/missing", "/failing", "/moved", "/broken", "/broken-gzip", "/echo?a=1&b=%C3%A9"),
    )

    async def outcomes(caller: Caller, url: str) -> list[Any]:
        """Ask for all paths."""
        return [await outcome(caller, url + path) for path in paths]

    before = await outcomes(caller, service.url)
    with use_cassette("c", mode="once", http=True):
        recorded = await outcomes(caller, service.url)
    asked = len(service.asked)
    service.stop()
    with use_cassette("c") as session:
        assert await outcomes(caller, service.url) == recorded
    assert recorded[:-1] == before[:-1]
    assert recorded[paths.index("/binary")].content == PNG
    assert len(session.report.replayed) == asked - asked // 2


async def test_errors_of_the_client(caller: Caller, service: Service) -> None:
    """A refused connection and a timeout are raised again as the client's own errors."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"http://127.0.0.1:{server.getsockname()[1]}/"
    with use_cassette("c", mode="once", http=True):
        recorded = [await outcome(caller, nobody), await outcome(caller, service.url + "/slow", patience=0.02)]
    service.stop()
    with use_cassette("c"):
        replayed = [await outcome(caller, nobody), await outcome(caller, service.url + "/slow", patience=0.02)]
    assert replayed == recorded
    assert not any(isinstance(each, Got) for each in recorded)


async def test_one_recording_for_all_clients(service: Service) -> None:
    """What one client recorded serves every other: the records have one form."""
    paths = ("/gzip", "/chunked", "/moved")
    with use_cassette("c", mode="once", http=True):
        recorded = [await with_aiohttp(service.url + path) for path in paths]
    service.stop()
    for name, caller in CALLERS.items():
        paths = paths[:2] if name == "http_client" else paths  # it follows no redirects
        with use_cassette("c", ignore=("headers",), on_unused="ignore" if name == "http_client" else "fail"):
            got = [await settled(caller(service.url + path)) for path in paths]
        assert [each.content for each in got] == [each.content for each in recorded[: len(paths)]]


def ask(service: Service, path: str = "/plain") -> str:
    """Ask by one client above another."""
    return requests.get(service.url + path, timeout=5).text


def test_is_recorded_once(service: Service) -> None:
    """Of clients above one another the lowest is recorded, and a transport of ours is not recorded a second time."""
    with use_cassette("c", mode="once", http=True) as session:
        ask(service)
        with httpx.Client(transport=TapeTransport()) as client:
            client.get(service.url + "/json")
    assert [item.request["url"]["path"] for item in session.interactions] == ["/plain", "/json"]


@pytest.mark.parametrize(("kind", "below"), [("tool", ["http"]), ("call", ["http"]), ("chat", []), ("retrieval", [])])
def test_below_boundaries(kind: str, below: list[str], service: Service) -> None:
    """A request inside a tool is its child; one inside a model's call belongs to that. Replayed, neither is sent."""

    def run(session: Session) -> Any:
        return intercept(session.cross(Boundary(kind), "it", {}), lambda: ask(service))

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session:
            assert run(session) == "plain text"
        service.stop()
    first, *inside = session.interactions
    assert [(item.kind, item.parent) for item in inside] == [(kind, first.number) for kind in below]


def test_is_chosen_by_the_cassette(service: Service) -> None:
    """A cassette that was recorded with HTTP is replayed, and recorded anew, with it; the option wins over it."""
    with use_cassette("c", mode="once", http=True):
        ask(service)
    with use_cassette("c", mode="all") as session:
        ask(service)
    assert open_cassette(session.path).preface.http
    with use_cassette("c") as session:
        assert (ask(service), session.http) == ("plain text", True)
    with pytest.raises(NetworkBlockedError), use_cassette("c", http=False):
        ask(service)
    with pytest.warns(UnrecordedConnectionWarning, match="http=True"), use_cassette("plain", mode="once") as session:
        ask(service)
    assert (session.interactions, "http" in Path("cassettes/plain.yaml").read_text("utf-8")) == ([], False)


def test_a_request_that_was_not_recorded(service: Service) -> None:
    """Another request is a miss, which the client cannot eat."""
    with use_cassette("c", mode="once", http=True):
        ask(service)
    with pytest.raises(CassetteMissError, match=r"127\.0\.0\.1 was called with a request"), use_cassette("c"):
        ask(service, "/json")


def test_streamed_bodies(service: Service) -> None:
    """A body comes in the pieces in which it was sent; one that is left is recorded so far."""

    def read() -> list[Any]:
        with requests.get(service.url + "/sse", stream=True, timeout=5) as response:
            lines = list(response.iter_lines())
        with requests.get(service.url + "/chunked", stream=True, timeout=5) as response:
            return [lines, next(response.iter_content(None))]

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session:
            assert read() == [[b"data: one", b"", b"data: two", b"", b"data: [DONE]", b""], b"one "]
        service.stop()
    assert [item.outcome.ended for item in session.interactions] == ["exhausted", "closed"]


async def test_streams_of_aiohttp(service: Service) -> None:
    """Its ways to read a body work as live: by HTTP chunks, by lines, in part, or not at all."""

    async def read() -> list[Any]:
        async with aiohttp.ClientSession(service.url, raise_for_status=True) as client:
            async with client.get("/chunked") as response:
                chunks = [chunk async for chunk in response.content.iter_chunks() if chunk[0]]  # an end, or none
            async with client.get("/sse") as response:
                lines = [line async for line in response.content]
            async with client.get("/plain") as response:
                part = await response.content.readexactly(5)
            head = await client.head("/plain")
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await client.get("/missing")
            return [chunks, lines, part, head.headers["Content-Length"], caught.value.status]

    before = await read()
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session:
            assert await read() == before
        service.stop()
    assert str(session.report) == "5 replayed, 0 recorded"


def test_bodies_of_requests(service: Service) -> None:
    """Forms with files, generators and JSON are recorded as data, whichever boundary or piece they are sent in."""

    def send() -> list[Any]:
        session, url = requests.Session(), service.url + "/echo"
        form = session.post(url, files={"file": ("a.txt", b"text", "text/plain")}, data={"field": "x"}, timeout=5)
        upload = session.put(url, data=iter([b"one ", b"two"]), timeout=5)
        return [
            form.status_code,
            upload.json()["body"],
            session.post(url, json={"b": 1, "a": 2}, timeout=5).status_code,
        ]

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session:
            assert send() == [200, "one two", 200]
        service.stop()
    form, _, json = session.interactions
    assert [part["name"] for part in form.request["body"]] == ["field", "file"]
    assert json.request["body"] == {"b": 1, "a": 2}


def test_cookies(service: Service) -> None:
    """The session of a client keeps the cookies that a replayed response sets."""
    for mode in ("once", "none"):
        client = requests.Session()
        with use_cassette("c", mode=mode, http=True):
            client.get(service.url + "/cookies", timeout=5)
        assert sorted(client.cookies.keys()) == ["sid", "theme"]
        service.stop()


def test_no_network_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transports in memory, and methods that another library has replaced by mocks, are left alone in every mode."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"in memory"]

    def mocked(self: Any, *args: Any, **kwargs: Any) -> httpx.Response:
        return httpx.Response(200, text="a mock")

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session:
            with httpx.Client(transport=httpx.WSGITransport(app)) as client:
                assert client.get("http://app/").text == "in memory"
            with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(201))) as client:
                assert client.get("http://mock/").status_code == 201
            with monkeypatch.context() as patch:  # as respx does
                patch.setattr(httpcore.ConnectionPool, "handle_request", lambda *_: httpcore.Response(202))
                assert httpx.get("http://mock/", verify=False).status_code == 202
        with monkeypatch.context() as patch:  # as pytest-httpx does
            patch.setattr(httpx.HTTPTransport, "handle_request", mocked)
            with use_cassette("c", mode=mode, http=True):
                assert httpx.get("http://mock/", verify=False).text == "a mock"
        assert session.interactions == []


@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnrecordedConnectionWarning")
def test_hosts_that_are_left_alone(service: Service, tmp_path: Path) -> None:
    """Hosts in `allow_hosts` are reached while recording and replaying; tracers and their threads are not recorded."""
    tracer = "127.0.0.1"
    with use_cassette("c", mode="all", http=True, allow_hosts=("loopback",)) as session:
        ask(service)
    assert session.interactions == []
    with use_cassette("c", allow_hosts=("loopback",)):
        ask(service)
    hosts: list[str] = []
    register_tracer(lambda: hosts)
    hosts.append(tracer)
    with use_cassette("c", mode="all", http=True) as session:
        ask(service)
    assert session.interactions == []
    hosts.clear()
    with use_cassette("c", mode="all", http=True) as session:
        source = "import requests\ndef report(url): requests.get(url, timeout=5)"
        for package, module in (("posthog", "posthog.consumer"), ("openai-agents", "agents.tracing.processors")):
            consumer: Any = install(tmp_path, package, module, source)
            reporting = threading.Thread(target=consumer.report, args=(service.url,))
            reporting.start()
            reporting.join()
    assert (session.interactions, len(service.asked)) == ([], 5)


def test_threads(service: Service) -> None:
    """Threads of the run are recorded, also those of a pool that is older; a thread that was there before is not."""
    go, done = threading.Event(), threading.Event()

    def telemetry() -> None:
        go.wait()
        ask(service, "/json")
        done.set()

    older = threading.Thread(target=telemetry)
    older.start()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(str).result()
        for mode in ("once", "none"):
            with use_cassette("c", mode=mode, http=True) as session:
                assert pool.submit(ask, service).result() == "plain text"
                bare = threading.Thread(target=ask, args=(service, "/chunked"))
                bare.start()
                bare.join()
                if mode == "once":
                    go.set()
                    assert done.wait(5)
    older.join()
    assert [item.request["url"]["path"] for item in session.interactions] == ["/plain", "/chunked"]


def test_equal_requests_at_once(service: Service) -> None:
    """Equal requests of a pool's threads run beside one another, and each finds its own recording again."""

    def number(_: int) -> int:
        found: int = requests.get(service.url + "/echo", timeout=5).json()["number"]
        return found

    runs = []
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session, ThreadPoolExecutor(6) as pool:
            runs.append(list(pool.map(number, range(6))))
        service.stop()
    assert runs[0] == runs[1]
    assert sorted(runs[0]) == [1, 2, 3, 4, 5, 6]
    assert {item.parent for item in session.interactions} == {None}


def test_everything_is_put_back(service: Service) -> None:
    """After the last session every method is what it was."""

    def methods() -> list[Any]:
        return [httpx.HTTPTransport.handle_request, aiohttp.ClientSession._request]

    before = methods()
    with use_cassette("c", mode="once", http=True):
        assert methods() != before
    assert methods() == before


BODY = b'{"model": "own", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5}'
PATH = "/v1/chat/completions"


def post_with_urllib(url: str) -> bytes:
    """Send the body with the standard library."""
    with urllib.request.urlopen(urllib.request.Request(url + PATH, BODY, CONTENT)) as response:
        return bytes(response.read())


def post_with_http_client(url: str) -> bytes:
    """Send the body over a connection, with its length."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.request("POST", PATH, BODY, {**CONTENT, "Content-Length": str(len(BODY))})
    with contextlib.closing(connection):
        return connection.getresponse().read()


async def post_with_aiohttp(url: str) -> bytes:
    """Send the body with `aiohttp`."""
    async with aiohttp.ClientSession() as session, session.post(url + PATH, data=BODY, headers=CONTENT) as response:
        return await response.read()


CONTENT = {"Content-Type": "application/json"}
POSTERS: dict[str, Callable[[str], Any]] = {
    "aiohttp": post_with_aiohttp,
    "http_client": post_with_http_client,
    "httpx": lambda url: httpx.post(url + PATH, content=BODY, headers=CONTENT, verify=False).content,
    "requests": lambda url: requests.post(url + PATH, data=BODY, headers=CONTENT, timeout=5).content,
    "urllib": post_with_urllib,
    "urllib3": lambda url: urllib3.request("POST", url + PATH, body=BODY, headers=CONTENT).data,
}


@pytest.mark.parametrize("post", POSTERS.values(), ids=POSTERS)
async def test_another_model(post: Callable[[str], Any], service: Service) -> None:
    """Each client asks a candidate with a body that differs in the model alone, and gets its answer."""
    with use_cassette("c", mode="once", http=True):
        await settled(post(service.url))
    with use_cassette("c", candidate="openai:other", to="derived") as session:
        got = json.loads(await settled(post(service.url)))
    assert json.loads(got["body"]) == {**json.loads(BODY), "model": "other"}
    assert len(service.asked) == 2
    assert int(service.asked[1].headers["Content-Length"]) == len(service.asked[1].body)
    assert not session.report.unused
    assert session.interactions[0].request["body"]["model"] == "own"
