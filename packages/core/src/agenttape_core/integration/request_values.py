"""The values of a call in the form of its request, which is the same for all frameworks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import SEEK_END, IOBase
from operator import methodcaller
from typing import Any

from pydantic import BaseModel

from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import class_name
from agenttape_core.session import Boundary, Session, Slot, runs
from agenttape_core.session.codecs import is_written_in_requests

_SCALARS = (str, int, float)


def request_value(value: Any) -> Any:
    """Return a request value as plain data; one without a codec becomes the name of its type, never its address.

    An open file becomes its content.
    """
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, type):
        return _type(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _items(value)
    if is_written_in_requests(value):
        return value
    file = file_of(value)
    return content_of(file) if file is not None else _named(value)


def file_of(value: Any) -> IOBase | None:
    """Return an open file, or the one that an object such as a `NamedTemporaryFile` reads; `None` for other values."""
    if isinstance(value, IOBase):
        return value
    held = getattr(value, "__dict__", {}).get("file")
    return held if isinstance(held, IOBase) and hasattr(value, "seekable") else None


def content_of(file: Any, read: Callable[[Any], Any] = methodcaller("read")) -> Any:
    """Return the content of an open file from its position on, and leave it there; its type if it can't be read.

    Raises `ConfigurationError` for a pipe and its like: to tell two of them apart, they would have to be read.
    """
    try:
        if file.closed or not file.readable():
            return _named(file)
        place = file.tell() if file.seekable() else None
    except OSError:  # of a text file after `next`
        place = None
    except ValueError:  # a part of it has been taken away
        return _named(file)
    if place is None:
        raise ConfigurationError(
            f"a call got {type(file).__name__} that can't be read and rewound, so the request can't hold its content: "
            "it's a pipe or its like, or a text file after next()\n"
            "  give it a file that can be rewound: io.BytesIO(file.read()), or io.StringIO(file.read()) for text"
        )
    try:
        return read(file)
    except UnicodeDecodeError:  # whoever gets it reads bytes
        return _named(file)
    finally:
        file.seek(place)


def leave_at_end(*given: Any) -> None:
    """Move the files among arguments of a replayed call, and in lists and dicts, to their end, as code does."""
    for each in given:
        if isinstance(each, list | tuple):
            leave_at_end(*each)
        elif isinstance(each, dict):
            leave_at_end(*each.values())
        elif (file := file_of(each)) is not None:
            with suppress(OSError, ValueError):  # it's closed, or can't be rewound
                file.seek(0, SEEK_END)


def _named(value: Any) -> dict[str, str]:
    return {"type": class_name(type(value))}


def _items(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): request_value(item) for key, item in value.items()}
    items = [request_value(item) for item in value]
    if isinstance(value, list | tuple):
        return items
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=str))


def _type(cls: type) -> Any:
    if issubclass(cls, BaseModel):
        return {"name": cls.__name__, "schema": cls.model_json_schema()}
    return {"name": cls.__qualname__}


# Requests of which an observer saw less than a session does.

_WAS_OBSERVED: Slot[bool] = Slot(lambda session: session.source.has_step("gap"))


def was_observed(session: Session) -> bool:
    """Return True if a session replays an observer's recording, which is never complete.

    Args:
        session: The session.
    """
    return session.extension(_WAS_OBSERVED)


def as_recorded(
    session: Session, boundary: Boundary, body: Mapping[str, Any], seen: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the request of a call, or an observer's view of it if only that was recorded.

    Args:
        session: The session.
        boundary: The family of the call.
        body: The request.
        seen: The part of it that callbacks receive.
    """
    if body == seen or session.policy.replaces or runs.times_recorded(session, boundary, body):
        return body
    return seen if was_observed(session) and runs.times_recorded(session, boundary, seen) else body
