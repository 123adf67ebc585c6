"""The HTTP clients as programs use them, without a transport of ours: each asks for a URL in its own words."""

# ruff: noqa: D103 - a function says by its name which client it is

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

import aiohttp
import httpx
import httpx2
import requests
import urllib3


class Got(NamedTuple):
    """A response.

    Args:
        status: The status.
        content: The body.
        hops: The statuses of the redirects before.
        content_type: The header.
    """

    status: int
    content: bytes
    hops: list[int] | None
    content_type: str | None


def with_httpx(url: str, patience: float = 5) -> Got:
    with httpx.Client(verify=False, follow_redirects=True, timeout=patience) as client:
        return _of_httpx(client.get(url))


async def with_async_httpx(url: str, patience: float = 5) -> Got:
    async with httpx.AsyncClient(verify=False, follow_redirects=True, timeout=patience) as client:
        return _of_httpx(await client.get(url))


def with_httpx2(url: str, patience: float = 5) -> Got:
    with httpx2.Client(verify=False, follow_redirects=True, timeout=patience) as client:
        return _of_httpx(client.get(url))


async def with_async_httpx2(url: str, patience: float = 5) -> Got:
    async with httpx2.AsyncClient(verify=False, follow_redirects=True, timeout=patience) as client:
        return _of_httpx(await client.get(url))


def _of_httpx(response: Any) -> Got:
    hops = [hop.status_code for hop in response.history]
    assert response.elapsed.total_seconds() >= 0
    return Got(response.status_code, response.content, hops, response.headers.get("content-type"))


def with_requests(url: str, patience: float = 5) -> Got:
    response = requests.get(url, timeout=patience)
    hops = [hop.status_code for hop in response.history]
    assert response.elapsed.total_seconds() >= 0
    return Got(response.status_code, response.content, hops, response.headers.get("content-type"))


def with_urllib3(url: str, patience: float = 5) -> Got:
    with urllib3.PoolManager(retries=urllib3.Retry(redirect=3, connect=0, read=0, other=0)) as pools:
        response = pools.request("GET", url, timeout=patience)
        hops = [hop.status or 0 for hop in response.retries.history] if response.retries else []
        return Got(response.status, response.data, hops, response.headers.get("content-type"))


async def with_aiohttp(url: str, patience: float = 5) -> Got:
    patient = aiohttp.ClientTimeout(sock_read=patience)
    async with aiohttp.ClientSession(timeout=patient) as session, session.get(url) as response:
        hops = [hop.status for hop in response.history]
        return Got(response.status, await response.read(), hops, response.headers.get("content-type"))


def with_urllib(url: str, patience: float = 5) -> Got:
    try:
        response = urllib.request.urlopen(url, timeout=patience)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        return Got(response.status, response.read(), None, response.headers.get("content-type"))


def with_http_client(url: str, patience: float = 5) -> Got:
    place = urllib3.util.parse_url(url)
    connection = http.client.HTTPConnection(str(place.host), place.port, timeout=patience)
    try:
        connection.request("GET", place.request_uri)
        response = connection.getresponse()
        return Got(response.status, response.read(), None, response.getheader("content-type"))
    finally:
        connection.close()


Caller = Callable[..., Any]
CALLERS: dict[str, Caller] = {
    name.removeprefix("with_"): function for name, function in list(globals().items()) if name.startswith("with_")
}
"""By the name of the client."""
