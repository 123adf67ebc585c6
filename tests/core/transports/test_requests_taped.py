"""Requests: what of them is asked, how it stands in the file, and that they are sent as they are."""

from __future__ import annotations

import gzip
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import Interaction, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.transports.requests import Destination, Request, parts_of

from .faces import CLIENTS, Face, import_module, settled
from .service import Service

URL = "https://api.service.test/v1/items"
JSON = {"content-type": "application/json"}
FORM_A, FORM_B = ({"content-type": f"multipart/form-data; boundary={boundary}"} for boundary in ("one", '"two"'))


async def interaction_of(face: Face, *, named: tuple[str, ...] = (), **options: Any) -> Interaction:
    """Record one request to a service that is not there."""
    inner = face.module.MockTransport(lambda _: face.module.Response(200))
    with use_cassette("c", mode="all") as session:
        async with face.client(inner, headers=named) as client:
            await settled(client.request(**{"method": "POST", "url": URL, **options}))
    (interaction,) = session.interactions
    return interaction


SAME = [
    ({"json": {"a": 1, "b": [2]}}, {"content": b'{"b": [2],\n "a": 1}', "headers": JSON}),
    ({"headers": {"authorization": "Bearer one"}}, {"auth": ("user", "other")}),
    ({"headers": {"cookie": "sid=one"}}, {"headers": {"cookie": "sid=two"}}),
    ({"headers": {"user-agent": "one", "x-stainless-retry-count": "0"}}, {"headers": {"idempotency-key": "k"}}),
    ({"files": {"f": b"same"}}, {"files": {"f": b"same"}}),
    ({"files": {"f": b"x"}, "headers": FORM_A}, {"files": {"f": b"x"}, "headers": FORM_B}),
    (
        {"data": {"q": "a b"}},
        {"content": b"q=a+b", "headers": {"content-type": "application/x-www-form-urlencoded"}},
    ),
    (
        {"content": b"{}", "headers": JSON},
        {"content": gzip.compress(b"{}", mtime=0), "headers": JSON | {"content-encoding": "gzip"}},
    ),
    ({"url": f"{URL}?q=a%20b"}, {"url": f"{URL}?q=a+b"}),
    ({"url": "https://user:word@api.service.test/v1/items"}, {"url": "https://api.service.test:443/v1/items#part"}),
]
"""Pairs of requests that differ in who asks, in how it's written down, and in what differs from call to call."""
DIFFERENT = [
    ({"method": "PUT"}, {"method": "POST"}),
    ({"url": "https://api.service.test/a%2Fb"}, {"url": "https://api.service.test/a/b"}),
    ({"url": "https://api.service.test/%252F"}, {"url": "https://api.service.test/%2F"}),
    ({"url": "https://other.service.test/"}, {"url": "https://api.service.test/"}),
    ({"url": "http://api.service.test/"}, {"url": "https://api.service.test/"}),
    ({"url": "https://api.service.test:8443/"}, {"url": "https://api.service.test/"}),
    ({"params": [("a", "1"), ("b", "2")]}, {"params": [("b", "2"), ("a", "1")]}),
    ({"json": {"a": 1}}, {"json": {"a": 1.0}}),
    ({"json": {"messages": [{"content": "a"}]}}, {"json": {"messages": [{"content": "b"}]}}),
    ({"json": "text"}, {"content": b"text", "headers": JSON}),
    ({"headers": {"accept": "text/html"}}, {"headers": {"accept": "text/plain"}}),
    ({"headers": {"content-type": "text/html"}, "content": b"a"}, {"headers": JSON, "content": b"a"}),
    ({"data": {"a": "1"}}, {"data": {"a": "2"}}),
    ({"files": {"f": b"one"}}, {"files": {"f": b"two"}}),
    ({"files": {"f": ("a.txt", b"one")}}, {"files": {"f": ("b.txt", b"one")}}),
    ({"content": b"\x00\xff"}, {"content": b"\x00\xfe"}),
]
"""Pairs that differ in something that a service answers to."""


@pytest.mark.parametrize("pair", [*SAME, *DIFFERENT], ids=str)
async def test_what_is_asked(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Requests have one fingerprint if they ask the same, and only then."""
    face = Face("httpx2", is_async=False)
    first, second = [(await interaction_of(face, **options)).fingerprint for options in pair]
    assert (first == second) == (pair in SAME)


async def test_what_the_file_holds(face: Face) -> None:
    """A request is readable data: the parts of its URL, two headers, and its body by its type."""
    interaction = await interaction_of(
        face, url=f"{URL}?a=1&b=&a=2", json={"model": "m", "messages": [{"content": "hi"}]}
    )
    assert (interaction.kind, interaction.name, interaction.address) == ("http", "api.service.test", "api.service.test")
    query = [{"a": "1"}, {"b": ""}, {"a": "2"}]
    assert interaction.request == {
        "method": "POST",
        "url": {"scheme": "https", "host": "api.service.test", "path": "/v1/items", "query": query},
        "headers": {"accept": "*/*", "content-type": "application/json"},
        "messages": [{"content": "hi"}],
        "body": {"model": "m"},
    }


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ({"json": [1, {"a": None}]}, [1, {"a": None}]),
        ({"json": {"messages": "none"}}, {"messages": "none"}),
        ({"json": "text"}, '"text"'),
        ({"content": b"{not json", "headers": JSON}, "{not json"),
        ({"data": {"a": ["1", "2"], "b": "ü"}}, [{"a": "1"}, {"a": "2"}, {"b": "ü"}]),
        ({"content": b"{}", "headers": JSON | {"content-encoding": "gzip"}}, {}),
        ({"content": "grüße"}, "grüße"),
        ({"content": "grüße".encode("latin-1"), "headers": {"content-type": "text/plain; charset=latin1"}}, "grüße"),
        ({"content": b"\x89PNG\xff"}, {"$bytes": "iVBOR/8="}),
        ({"content": b"abc", "headers": {"content-type": "application/octet-stream"}}, {"$bytes": "YWJj"}),
        ({"content": b"--x\r\n", "headers": {"content-type": "multipart/mixed"}}, {"$bytes": "LS14DQo="}),
        (
            {"content": b"--x\r\n\r\na", "headers": {"content-type": "multipart/mixed; boundary=x"}},
            {"$bytes": "LS14DQoNCmE="},
        ),
        (
            {"data": {"who": "ä"}, "files": {"f": ("ß.txt", b"text"), "g": ("b.bin", b"\xff", "image/png")}},
            [
                {"name": "who", "value": "ä"},
                {"name": "f", "filename": "ß.txt", "headers": {"content-type": "text/plain"}, "value": "text"},
                {
                    "name": "g",
                    "filename": "b.bin",
                    "headers": {"content-type": "image/png"},
                    "value": {"$bytes": "/w=="},
                },
            ],
        ),
        (
            {
                "content": b"--x\r\nContent-Disposition: form-data; name=pin; filename*=utf-8''a\r\n\r\n1\r\n--x--",
                "headers": {"content-type": "multipart/form-data; boundary=x"},
            },
            [
                {
                    "name": "pin",
                    "headers": {"content-disposition": "form-data; name=pin; filename*=utf-8''a"},
                    "value": "1",
                }
            ],
        ),
        (
            {
                "content": b"preamble\r\n--a b\r\n\r\n{}\r\n--a bc\r\n--a b \r\nX-A: 1\r\n\r\n\r\n--a b--\r\nepilogue",
                "headers": {"content-type": 'multipart/mixed; boundary="a b"'},
            },
            [{"value": "{}\r\n--a bc"}, {"headers": {"x-a": "1"}, "value": ""}],
        ),
    ],
    ids=str,
)
async def test_bodies(options: dict[str, Any], body: Any) -> None:
    """A body is recorded by its type: JSON and forms as data, text as text, other bytes as they are."""
    request = (await interaction_of(Face("httpx2", is_async=False), **options)).request
    assert request.get("body") == body


async def test_no_body() -> None:
    """A request without a body has none in the file either."""
    request = (await interaction_of(Face("httpx2", is_async=False), method="GET")).request
    assert set(request) == {"method", "url", "headers"}


async def test_named_headers(face: Face) -> None:
    """Headers that the user names take part; a secret among them is redacted."""
    named = ("X-Tenant", "x-api-key", "x-absent")
    headers = [("x-tenant", "a"), ("X-Tenant", "b"), ("X-Api-Key", "opaque")]
    request = (await interaction_of(face, named=named, headers=headers)).request
    assert request["headers"].pop("x-api-key").startswith("[REDACTED:secret:")
    assert request["headers"] == {"accept": "*/*", "x-tenant": "a, b"}


@pytest.mark.parametrize("headers", ["x-tenant", [1], ["a b"], [""]], ids=repr)
def test_what_is_no_name(face: Face, headers: Any) -> None:
    """A text in the destination of a list of headers is refused, and so is what cannot be the name of one."""
    with pytest.raises(ConfigurationError, match=r'expected names of headers, such as headers=\("x-tenant",\)'):
        face.tape(headers=headers)


async def test_ignored_port(face: Face) -> None:
    """A path of the request can be ignored, such as the port of a service that is started for each test."""
    with Service() as old, use_cassette("c", mode="once", ignore=("url.port",)):
        async with face.client() as client:
            recorded = await settled(client.get(old.url + "/json"))
    with use_cassette("c", ignore=("url.port",)):
        async with face.client(face.no_network()) as client:
            assert (await settled(client.get("http://127.0.0.1:1/json"))).json() == recorded.json()


@pytest.mark.parametrize("size", [1, 3])
async def test_uploads(face: Face, service: Service, size: int) -> None:
    """Content that can be read once only is read once, sent as it is, recorded, and asked for on replay."""
    pieces = [b"one ", b"two ", "drei süß".encode()][:size]
    answers = []
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode) as session:
            async with face.client() as client:
                answer = await settled(client.post(service.url + "/echo", content=face.upload(pieces)))
            answers.append(answer.content)
    assert [asked.body for asked in service.asked] == [b"".join(pieces)]
    assert answers[0] == answers[1]
    assert session.interactions[0].request["body"] == b"".join(pieces).decode()


async def test_sent_as_it_is(face: Face, service: Service) -> None:
    """The service gets what an untaped client sends, compressed bodies and boundaries included."""
    body = gzip.compress(b"{}", mtime=0)
    options = {"content": body, "headers": JSON | {"content-encoding": "gzip", "authorization": "Bearer opaque"}}
    async with face.untaped(face.real()) as client:
        await settled(client.post(service.url + "/echo?a=%2F", **options))
    with use_cassette("c", mode="once"):
        async with face.client() as client:
            await settled(client.post(service.url + "/echo?a=%2F", **options))
    untaped, taped = [(*asked[:2], asked.headers.items(), asked.body) for asked in service.asked]
    assert taped == untaped


async def test_changed_request(face: Face, service: Service) -> None:
    """A request that was not recorded is a miss when it is sent, shows what differs, and passes `except Exception`."""

    async def ask(question: str) -> None:
        async with face.client() as client:
            try:
                request = client.build_request("POST", service.url + "/echo", json={"ask": question})
                await settled(client.send(request, stream=question == "b"))
            except Exception as error:
                pytest.fail(f"was eaten: {error}")

    with use_cassette("c", mode="once"):
        await ask("a")
    with pytest.raises(CassetteMissError) as caught, use_cassette("c"):
        await ask("b")
    assert "127.0.0.1 was called with a request" in str(caught.value)
    assert "body.ask" in str(caught.value)
    assert len(service.asked) == 1


SEGMENTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4)


@pytest.mark.parametrize("name", CLIENTS)
@given(segments=SEGMENTS)
def test_paths_are_readable_and_apart(name: str, segments: list[str]) -> None:
    """A path is written with its characters, and what is no separator in it is told from what is one."""
    path = "/".join("%2E" * len(part) if part in {".", ".."} else quote(part, safe="") for part in segments)
    request = import_module(name).Request("GET", f"https://service.test/{path}")
    destination = Destination.of("https", "service.test", None, request.url.raw_path.decode("ascii"))
    recorded = Request("GET", destination, {}, b"").question()["url"]["path"]
    apart = [part.replace("%2F", "/").replace("%25", "%") for part in recorded.split("/")]
    assert apart == ["", *segments]


TEXTS = st.text(st.characters(exclude_categories=["C"], exclude_characters='"\\%'), min_size=1)
FILES = st.lists(st.tuples(TEXTS, TEXTS, st.binary(max_size=64)), min_size=1, max_size=3)


@pytest.mark.parametrize("name", CLIENTS)
@given(files=FILES)
def test_multipart_round_trip(name: str, files: list[tuple[str, str, bytes]]) -> None:
    """Each part of a form is found with its name, its file name and its bytes."""
    encoded = [(field, (filename, data, "image/png")) for field, filename, data in files]
    request = import_module(name).Request("POST", URL, files=encoded)
    parts = parts_of(request.headers["content-type"], request.read()) or []
    assert [(part["name"], part["filename"], part["value"]) for part in parts] == files
