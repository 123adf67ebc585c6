"""Secrets of HTTP: none reaches the file, and a replay does not miss them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from agenttape_core import use_cassette
from agenttape_core.redaction import Rule

from .faces import Face, settled
from .service import JSON, SSE, TEXT, Answer, Service


class Canaries:
    """Secrets, each for one place."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def __call__(self, place: str) -> str:
        """Return a new one, which no form of its own gives away."""
        self.all.append(f"zq81-{place}-xw77")
        return self.all[-1]

    def found_in(self, folder: Path) -> list[str]:
        """Return those that stand in any file of a folder."""
        held = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
        return [canary for canary in self.all if canary.encode() in held]


def answers(canary: Canaries) -> dict[str, Answer]:
    """Return answers with a secret in each place that has one."""
    zipped = gzip.compress(json.dumps({"client_secret": canary("zipped")}).encode())
    event = f'data: {{"access_token": "{canary("event")}"}}\n\n'.encode()
    token = json.dumps({"refresh_token": canary("token")}).encode()
    return {
        "/cookie": Answer(
            b"in", TEXT | {"Set-Cookie": f"sid={canary('cookie')}; Path=/", "X-Auth-Token": canary("header")}
        ),
        "/zipped": Answer(zipped, JSON | {"Content-Encoding": "gzip"}),
        "/event": Answer([event[:30], event[30:31], event[31:]], SSE),
        "/token": Answer(token, JSON),
        "/untyped": Answer(token),
        "/broken": Answer([token[:25]], JSON, cut=True),
        "/moved": Answer(b"", {"Location": f"/cookie?session_token={canary('location')}"}, status=302),
        "/latin": Answer(f'{{"name": "Zoë", "password": "{canary("latin")}"}}'.encode("latin-1"), TEXT),
    }


ZIPPED = {"content-encoding": "gzip", "content-type": "application/json"}


async def test_canaries(face: Face, service: Service, project: Path) -> None:
    """No secret of a request or a response reaches a file, whatever carries it; the replay serves them all."""

    async def talk(face: Face, client: Any, url: str, canary: Canaries) -> None:
        """Send a secret in each place that may hold one, and get as many."""
        headers = {
            "Authorization": f"Bearer {canary('bearer')}",
            "X-Api-Key": canary("key"),
            "Cookie": f"sid={canary('sent-cookie')}",
        }
        form = {"password": canary("form")}
        await settled(client.get(url + "/cookie", params={"api_key": canary("query")}, headers=headers))
        await settled(client.get(url.replace("://", f"://user:{canary('userinfo')}@") + "/zipped"))
        await settled(client.post(url + "/event", json={"nested": [{"password": canary("json")}]}))
        await settled(client.post(url + "/token", data=form))
        await settled(client.post(url + "/untyped", data=form, files={"f": b"\xff"}))
        await settled(
            client.post(
                url + "/latin", content=gzip.compress(f'{{"token": "{canary("sent")}"}}'.encode()), headers=ZIPPED
            )
        )
        await settled(client.get(url + "/moved", follow_redirects=True))
        for broken in ("GET", "POST"):
            try:
                await settled(client.request(broken, url + "/broken"))
            except face.module.RemoteProtocolError:
                continue

    canary = Canaries()
    service.answers |= answers(canary)
    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            await talk(face, client, service.url, canary)
    assert len(set(canary.all)) == 15
    assert canary.found_in(project) == []
    service.stop()
    with use_cassette("c"):
        async with face.client(face.no_network()) as client:
            await talk(face, client, service.url, Canaries())
    assert len(session.interactions) == 10


async def test_cookies_on_replay(face: Face, service: Service) -> None:
    """A cookie keeps its name and attributes, so a client finds it and sends it back."""
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode) as session:
            async with face.client() as client:
                first = await settled(client.get(service.url + "/cookies"))
                second = await settled(client.get(service.url + "/echo"))
        assert sorted(first.cookies) == sorted(client.cookies) == ["sid", "theme"]
        assert second.request.headers["cookie"].startswith("sid=")
    head = (session.interactions[0].outcome.chunks or [])[0]
    cookie = head["headers"][1]
    assert cookie.pop("Set-Cookie").startswith("[REDACTED:secret:")
    assert cookie == {"cookie_name": "sid", "attributes": " Path=/; HttpOnly"}


async def test_split_between_chunks(face: Face, service: Service) -> None:
    """A secret that arrives in pieces is found, also where a character of it is cut in two."""
    service.answers["/split"] = Answer([b"I am Zo\xc3", b"\xab M\xc3\xbc", b"ller, really"], TEXT)
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, redact=[Rule("person", literal="Zoë Müller")]) as session:
            async with face.client() as client:
                text = (await settled(client.get(service.url + "/split"))).text
    chunks = session.interactions[0].outcome.chunks or []
    recorded = "".join(chunk["text"] for chunk in chunks[1:])
    assert recorded.startswith("I am [REDACTED:person:")
    assert recorded.endswith("], really")
    assert text.startswith("I am [REDACTED:person:")
    assert text.endswith(", really")


async def test_put_back(face: Face, service: Service) -> None:
    """Who holds the secret on replay gets it back in the answer."""
    sent = []
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode) as session:
            async with face.client() as client:
                answer = await settled(client.post(service.url + "/echo", json={"to": "ann@acme-mail.com"}))
            sent.append(json.loads(answer.json()["body"]))
    assert sent == [{"to": "ann@acme-mail.com"}] * 2
    assert "ann@acme-mail.com" not in session.path.read_text()
