"""Exceptions as records and back. Nothing is imported, and no constructor of user code is called."""

from __future__ import annotations

import builtins
from typing import Any

from agenttape_core.errors import AgentTapeError, ReplayedError
from agenttape_core.schema import RecordedError, ValueCodec, class_name, loaded_class

_PLAIN_BASES = (Exception, BaseException, object)


def record_error(error: Exception, codec: ValueCodec) -> RecordedError:
    """Return an exception as a record.

    Arguments and attributes that have no codec are left out (clients hang their connections on errors); the type,
    the message and everything else are kept.
    """
    return RecordedError(
        type=class_name(type(error)),
        message=str(error),
        args=[_or_text(codec, item) for item in error.args],
        attributes=_encodable(codec, vars(error)),
        bases=[class_name(cls) for cls in type(error).__mro__[1:] if cls not in _PLAIN_BASES],
    )


def _or_text(codec: ValueCodec, value: Any) -> Any:
    try:
        return codec.encode(value)
    except AgentTapeError:
        return codec.encode(str(value))


def _encodable(codec: ValueCodec, attributes: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in attributes.items():
        try:
            kept[name] = codec.encode(value)
        except AgentTapeError:
            continue
    return kept


def rebuild_error(record: RecordedError, codec: ValueCodec) -> Exception:
    """Return the recorded exception: of its own type if that is loaded, else of one that its handlers accept."""
    cls = loaded_class(record.type)
    if cls is None or not issubclass(cls, Exception):
        return _stand_in(record, codec)
    args = [codec.decode(item) for item in record.args]
    try:
        own_init = cls.__init__ is getattr(builtins, cls.__name__, Exception).__init__
        error = cls(*args) if own_init else cls.__new__(cls, *args)
    except Exception:  # noqa: BLE001 - a class whose __new__ wants more than its args; a stand-in still fits its handlers
        return _stand_in(record, codec)
    return _completed(error, args, record, codec)


def _stand_in(record: RecordedError, codec: ValueCodec) -> Exception:
    loaded = filter(None, map(loaded_class, record.bases))
    base = next((base for base in loaded if issubclass(base, Exception)), None)
    cls: Any = ReplayedError
    if base is not None and base not in ReplayedError.__mro__:
        name = record.type.partition(":")[2].rpartition(".")[2]
        cls = type(name, (ReplayedError, base), {"__module__": record.type.partition(":")[0]})
    error = cls.__new__(cls)
    ReplayedError.__init__(error, record.type.replace(":", "."), record.message)
    return _completed(error, list(error.args), record, codec)


def _completed(error: Exception, args: list[Any], record: RecordedError, codec: ValueCodec) -> Exception:
    error.args = tuple(args)
    for name, value in record.attributes.items():
        if not name.startswith("__"):
            vars(error)[name] = codec.decode(value)
    return error
