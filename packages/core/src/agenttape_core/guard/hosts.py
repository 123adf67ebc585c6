"""Hosts as text: one spelling per host, the entries of `allow_hosts`, and what counts as this machine."""

from __future__ import annotations

import functools
import ipaddress
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agenttape_core.errors import ConfigurationError
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LOOPBACK = "loopback"
"""The word in `allow_hosts` that allows this machine: 127.0.0.0/8, ::1, localhost and Unix sockets."""

SUBPROCESS = "subprocess"  # the word in `allow_hosts` that allows starting processes

OF_PROGRAM = "program:"
"""The prefix of an entry of `allow_hosts` that is open to the whole program, even while calls are live."""

_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}  # the ports of schemes, for a message about a URL
_LAST_PORT = 65535


def text(value: Any) -> str:
    """Return a name from an audit event, which may be bytes, a path or `None`, as text."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


@functools.lru_cache(1024)  # each connection is judged by every session that is open
def normal(host: str) -> str:
    """One spelling per host: lower case, no root dot, no zone, IPv4 out of its IPv6 mapping."""
    host = host.strip().lower().rstrip(".")
    address = as_ip(host)
    return host if address is None else str(address)


@functools.lru_cache(1024)
def as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Give the address that a text spells, without its zone; a name gives `None`."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if isinstance(mapped, ipaddress.IPv4Address) else address


def is_loopback(normal: str) -> bool:
    """Return True if a normal host is this machine; connecting to the unspecified address means it too."""
    address = as_ip(normal)
    if address is None:
        return normal == "localhost" or normal.endswith(".localhost")  # RFC 6761, section 6.3
    return address.is_loopback or address.is_unspecified


class Entry(NamedTuple):
    """An entry of `allow_hosts`."""

    host: str  # a host in its normal spelling, `*.` and a name, or a word
    port: int | None  # the only port that it opens; `None` for all
    is_of_program: bool  # whether it's open to the whole program, even while calls are live


@functools.lru_cache(256)  # every session has the same
def parsed(entry: str) -> Entry:
    """Return the hosts that an entry of `allow_hosts` opens.

    Raises `ConfigurationError` if it isn't a host, with or without a port, nor a word.
    """
    rest = entry.strip()
    bare = rest[len(OF_PROGRAM) :] if rest.lower().startswith(OF_PROGRAM) else ""
    is_of_program = bool(bare) and not bare.isdigit()  # `program:80` is a host of that name
    host, port = _with_port(bare if is_of_program else rest)
    spelled = normal(host)
    is_port = port is None or (port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT)
    if not _is_host(spelled.removeprefix("*.")) or not is_port or (spelled == SUBPROCESS and port is not None):
        raise ConfigurationError(_wrong(entry))
    return Entry(spelled, int(port) if port is not None else None, is_of_program)


def of_program(entries: Collection[str], *, has_live: bool) -> tuple[str, ...]:
    """Return the entries that are open to the whole program, as plain entries.

    Args:
        entries: The entries of `allow_hosts`.
        has_live: Whether calls may be live. Only entries that begin with `program:` are open to the program then.
    """
    marked = [(entry.strip(), parsed(entry).is_of_program) for entry in entries]
    return tuple(
        entry[len(OF_PROGRAM) :] if is_marked else entry for entry, is_marked in marked if is_marked or not has_live
    )


def check_hosts(entries: Iterable[str]) -> None:
    """Check entries of `allow_hosts`. Raises `ConfigurationError` if one is neither `HOST`, `HOST:PORT` nor a word."""
    for entry in entries:
        parsed(entry)


def _is_host(name: str) -> bool:
    return bool(name) and (as_ip(name) is not None or not any(sign in name for sign in "*/:@ ?#[]"))


def _with_port(text: str) -> tuple[str, str | None]:
    """Divide `HOST:PORT` and `[ADDRESS]:PORT`. An IPv6 address without brackets has no port."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        return text, None
    return host, port


def _wrong(entry: str) -> str:
    """Return the message about a wrong entry, which never shows the user and the password of a URL."""
    prefix = OF_PROGRAM if entry.strip().lower().startswith(OF_PROGRAM) else ""
    scheme, has_scheme, rest = entry.strip()[len(prefix) :].rpartition("://")
    shown = f"{scheme}{has_scheme}{rest.rpartition('@')[2]}"
    try:
        url = urlsplit(shown if has_scheme else f"//{shown}")
        host, port = url.hostname or "", url.port or _PORTS.get(url.scheme)
    except ValueError:
        host, port = "", None
    if not _is_host(host) or "/" not in shown:
        return (
            f"allow_hosts entry {prefix + shown!r} is not a host; expected a name, '*.' and a name or an IP address, "
            f"with or without :PORT, or {LOOPBACK!r} or {SUBPROCESS!r}\n"
            "  write the host, or HOST:PORT, without scheme or path"
        )
    place = f"[{host}]" if ":" in host else host
    example = f"{prefix}{place}:{port}" if port is not None else f"{prefix}{place}"
    return (
        f"allow_hosts entry {prefix + shown!r} is a {'URL' if has_scheme else 'path'}, not a host\n  write {example!r}"
    )
