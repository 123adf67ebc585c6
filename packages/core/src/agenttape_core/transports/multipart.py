"""Multipart bodies (RFC 2046 §5.1, RFC 7578) as data, without the boundary, which is new in each request."""

from __future__ import annotations

import re

from agenttape_core.schema import Plain
from agenttape_core.transports.bodies import whole

_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;]+))', re.IGNORECASE)
_END = re.compile(rb"--[ \t]*(?:\r\n|\Z)")
_DISPOSITION = "content-disposition"
_FIELD = re.compile(r'form-data; name="([^"]*)"(?:; filename="([^"]*)")?')
"""The disposition of a field in its usual form, whose other parts aren't worth keeping."""
_NAME = re.compile(r';\s*name\s*=\s*(?:"([^"]*)"|([^\s;]+))', re.IGNORECASE)


def without_boundary(content_type: str) -> str:
    """Return a content type without its boundary."""
    return _BOUNDARY.sub("", content_type)


def parts_of(content_type: str, data: bytes) -> list[Plain] | None:
    """Return the parts of a multipart body, or `None` if it is none."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        return None
    delimiter = rb"\r\n--%b(?=(?:--)?[ \t]*(?:\r\n|\Z))" % re.escape((boundary[1] or boundary[2]).encode())
    _, *sections = re.split(delimiter, b"\r\n" + data)
    if not sections or not _END.match(sections.pop()) or not all(b"\r\n\r\n" in section for section in sections):
        return None
    return [_part(section) for section in sections]


def _part(section: bytes) -> Plain:
    """Return a part with its name beside its value, so that the redactor can go by the name."""
    head, _, data = section.partition(b"\r\n\r\n")
    lines = [line.partition(":") for line in _text(head).split("\r\n")[1:]]
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    disposition = headers.get(_DISPOSITION, "")
    if field := _FIELD.fullmatch(disposition):
        del headers[_DISPOSITION]
        name, filename = field.groups()
    else:
        found = _NAME.search(disposition)
        name, filename = (found[1] or found[2]) if found else None, None
    part = {"name": name, "filename": filename, "headers": headers}
    return {key: value for key, value in part.items() if value} | {
        "value": whole(headers.get("content-type", ""), data)
    }


def _text(head: bytes) -> str:
    """Return the headers of a part: UTF-8 as browsers and clients write them, or one character per byte."""
    try:
        return head.decode()
    except UnicodeDecodeError:
        return head.decode("latin-1")
