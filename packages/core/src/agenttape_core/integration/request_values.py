"""The values of a call in the form of its request, which is the same for all frameworks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from agenttape_core.schema import class_name
from agenttape_core.session import Boundary, Session, Slot, runs
from agenttape_core.session.codecs import is_written_in_requests

_SCALARS = (str, int, float)


def request_value(value: Any) -> Any:
    """Return a request value as plain data; one without a codec becomes the name of its type, never its address."""
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, type):
        return _type(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _items(value)
    return value if is_written_in_requests(value) else {"type": class_name(type(value))}


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
