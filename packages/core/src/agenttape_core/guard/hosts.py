"""Hosts as text: one spelling per host, and what counts as this machine."""

from __future__ import annotations

import ipaddress
import os
from typing import Any

from agenttape_core.errors import ConfigurationError

LOOPBACK = "loopback"
"""The word in `allow_hosts` that allows this machine: 127.0.0.0/8, ::1, localhost and Unix sockets."""

SUBPROCESS = "subprocess"
"""The word in `allow_hosts` that allows starting processes."""


def text(value: Any) -> str:
    """Give what an audit event names, which may be bytes, a path or nothing, as text."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def normal(host: str) -> str:
    """One spelling per host: lower case, no root dot, no zone, IPv4 out of its IPv6 mapping."""
    host = host.strip().lower().rstrip(".")
    address = as_ip(host)
    return host if address is None else str(address)


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


def checked(entry: str) -> str:
    """Give an entry of `allow_hosts` in its normal spelling.

    Raises:
        ConfigurationError: It is no host.
    """
    spelled = normal(entry)
    name = spelled.removeprefix("*.")
    if not name or (as_ip(name) is None and any(sign in name for sign in "*/:@ ")):
        raise ConfigurationError(
            f"allow_hosts entry {entry!r} is not a host; expected a name, '*.' and a name, an IP address, "
            f"{LOOPBACK!r} or {SUBPROCESS!r}\n  give the host alone, without scheme, port or path"
        )
    return spelled
