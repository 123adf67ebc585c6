"""The families of values that this process can record: the standard ones and what integrations add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import ConfigurationError, UnrecordableValueError
from agenttape_core.locks import Lock
from agenttape_core.on_demand import WAITING, load_late
from agenttape_core.schema import ALL_VALUES, OPAQUE, PYTHON_VALUES, Plain, TypeCodec, ValueCodec

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


_lock = Lock()
_codec = ALL_VALUES
_lenient = ALL_VALUES.lenient(OPAQUE)
_of_requests = PYTHON_VALUES
_known: dict[str, TypeCodec] = {}


def value_codec(*, lenient: bool = False) -> ValueCodec:
    """Return the codec with every registered family.

    Args:
        lenient: Whether it writes an opaque value for an unknown type, instead of refusing it.
    """
    if WAITING:
        load_late()
    return _lenient if lenient else _codec


def is_written_in_requests(value: Any) -> bool:
    """Return whether the settings of a framework's object are written with a value, and not only with its type.

    So it was before more types of users could be recorded: else recordings of before would not be found.
    """
    load_late()
    try:
        _of_requests.encode(value)
    except UnrecordableValueError:
        return False
    return True


def register_codecs(codecs: Sequence[TypeCodec]) -> None:
    """Add families of values to what boundaries can carry; later ones win.

    Several integrations may register the same codec, one of `agenttape_core.schema.codecs`. A module that is imported
    again (as by pytest inside a test) registers its codecs again: they read from then on, and objects of its former
    classes can still be written.

    Raises:
        ConfigurationError: If a tag does not start with `$`, or is taken.
    """
    global _codec, _lenient, _of_requests  # noqa: PLW0603 - the registry of the process
    with _lock:
        new = [codec for codec in codecs if _known.get(codec.tag) is not codec]
        for codec in new:
            if not codec.tag.startswith("$") or codec.tag.startswith("$$"):
                raise ConfigurationError(f"the codec tag {codec.tag!r} must start with a single '$'")
            if (former := _known.get(codec.tag)) and not _is_imported_anew(former, codec):
                raise ConfigurationError(f"the codec tag {codec.tag!r} is already registered")
        _known.update((codec.tag, codec) for codec in new)
        _codec = _codec.extended(new)
        _lenient = _codec.lenient(OPAQUE)
        _of_requests = _of_requests.extended(new)


def _is_imported_anew(former: TypeCodec, codec: TypeCodec) -> bool:
    return (former.encode.__module__, former.decode.__module__) == (codec.encode.__module__, codec.decode.__module__)


def plain_value(value: Any) -> Plain:
    """Return any value as plain data, with an opaque value for parts without a codec: for readers, not for replays."""
    return value_codec(lenient=True).encode(value)


def plain_tags(tags: Sequence[str], redactor: Redactor) -> list[str]:
    """Return tags redacted."""
    return [redactor.text(str(tag)) for tag in tags]


def plain_metadata(metadata: Mapping[str, Any], redactor: Redactor) -> dict[str, Plain]:
    """Return metadata as plain, redacted data."""
    plain: dict[str, Plain] = redactor.value({str(key): plain_value(item) for key, item in metadata.items()})
    return plain
