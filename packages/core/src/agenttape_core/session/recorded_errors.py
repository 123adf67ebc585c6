"""Exceptions as records and back. Nothing is imported, and no constructor of user code is called."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, cast

from pydantic_core import PydanticCustomError, ValidationError

from agenttape_core.errors import AgentTapeError, ReplayedError
from agenttape_core.schema import Plain, RecordedError, TypeCodec, ValueCodec, class_name, loaded_class

# -- Validation errors of pydantic as records and back. Their class is written in Rust: it can't be subclassed.


_USUAL: dict[str, Any] = {"input_type": "python", "hide_input": False}
PARTS = frozenset({"title", "line_errors", *_USUAL})
"""The attributes of a validation error; all others belong to the program."""
_TEXTS = frozenset({"type", "msg"})
_MISFITS = (AttributeError, KeyError, TypeError, ValueError)
"""The errors with which pydantic refuses an object of another version, or one that isn't a validation error."""


def is_validation_error(cls: type | None) -> bool:
    """Return True for the class of validation errors."""
    return cls is ValidationError


def parts_of(error: ValidationError, encode: Callable[[Any], Plain]) -> dict[str, Plain]:
    """Return the fields of a validation error; `encode` encodes the invalid input, and the subject."""
    reduced: Any = error.__reduce__()
    others = dict(zip(_USUAL, reduced[1][2:], strict=False))
    lines: Any = error.errors(include_url=False)
    return {
        "title": error.title,
        "line_errors": [{k: item if k in _TEXTS else encode(item) for k, item in line.items()} for line in lines],
        **{name: part for name, part in others.items() if part != _USUAL[name]},
    }


def validation_error(parts: dict[str, Plain], decode: Callable[[Plain], Any]) -> ValidationError | None:
    """Return the validation error of a record, if any; `decode` decodes the input, and the subject."""
    lines = parts.get("line_errors")
    if not isinstance(lines, list):
        return None
    options = {name: parts.get(name, usual) for name, usual in _USUAL.items()}
    with suppress(*_MISFITS):
        made = [_line({key: item if key in _TEXTS else decode(item) for key, item in line.items()}) for line in lines]
        return ValidationError.from_exception_data(parts["title"], made, **options)
    return None


def _line(line: dict[str, Any]) -> Any:
    """Return a line of an error, in the recorded words where this version of pydantic has others or none."""
    words = line.pop("msg")
    with suppress(*_MISFITS):  # one of a validator of the program, or of another version
        if ValidationError.from_exception_data("", [line]).errors()[0]["msg"] == words:  # type: ignore[list-item]
            return line
    return {**line, "type": PydanticCustomError(line["type"], words, line.pop("ctx", None))}


_PLAIN_BASES = (Exception, BaseException, object)
_NOTES = "__notes__"
_CAUSE, _SUPPRESSES = "__cause__", "__suppress_context__"
_NOT_KEPT = frozenset({"obj"})
"""The object that lacks an attribute (`AttributeError.obj`) is the program's, not the error's."""


def record_error(error: BaseException, codec: ValueCodec) -> RecordedError:
    """Return an exception as a record.

    Arguments and attributes that have no codec are left out (clients hang their connections on errors); the type,
    the message and everything else are kept.
    """
    codec = _with_errors(codec)
    return RecordedError(
        type=class_name(type(error)),
        message=str(error).encode("utf-8", "backslashreplace").decode(),  # a lone surrogate isn't text for readers
        args=[_or_text(codec, item) for item in error.args],
        attributes=_attributes(error, codec),
        bases=[class_name(cls) for cls in type(error).__mro__[1:] if cls not in _PLAIN_BASES],
    )


def _attributes(error: BaseException, codec: ValueCodec) -> dict[str, Plain]:
    kept = _encodable(codec, {**dict(_slots(error)), **vars(error), **_origin(error)})
    if is_validation_error(type(error)):
        kept.update(parts_of(cast("Any", error), lambda value: _or_text(codec, value)))
    return kept


def _origin(error: BaseException) -> dict[str, Any]:
    """Return the cause of an error: `raise … from`. What was handled meanwhile is the program's as well."""
    if error.__cause__ is not None:
        return {_CAUSE: error.__cause__}
    return {_SUPPRESSES: True} if error.__suppress_context__ else {}


def _with_errors(codec: ValueCodec) -> ValueCodec:
    """Return a codec that can also keep exceptions inside of others, as groups have them."""
    return codec.extended(
        [
            TypeCodec(
                "$error",
                lambda value: isinstance(value, Exception),
                lambda value, _: record_error(value, codec).model_dump(),
                lambda plain, _: rebuild_error(RecordedError.model_validate(plain), codec),
            )
        ]
    )


def _slots(error: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield the state that an exception keeps in neither its dict nor its arguments, such as a file name."""
    for cls in type(error).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, MemberDescriptorType) and not name.startswith("__") and name not in _NOT_KEPT:
                value = getattr(error, name, None)
                if value is not None and not any(value is item for item in error.args):
                    yield name, value


def _or_text(codec: ValueCodec, value: Any) -> Plain:
    try:
        return codec.encode(value)
    except AgentTapeError:
        return codec.encode(str(value))


def _encodable(codec: ValueCodec, attributes: dict[str, Any]) -> dict[str, Plain]:
    kept = {}
    for name, value in attributes.items():
        try:
            kept[name] = codec.encode(value)
        except AgentTapeError:
            continue
    return kept


_OUTCOMES = (Exception, CancelledError)  # the classes of exceptions that are outcomes of calls; others end the program


def rebuild_error(record: RecordedError, codec: ValueCodec) -> BaseException:
    """Return the recorded exception: with its own type if that is loaded, else with a type that its handlers accept."""
    codec = _with_errors(codec)
    args = tuple(codec.decode(item) for item in record.args)
    cls = loaded_class(_spelled(record.type), BaseException)
    error: BaseException | None = None
    if is_validation_error(cls):
        error = validation_error(record.attributes, codec.decode)
    elif cls is not None and issubclass(cls, _OUTCOMES):
        error = _made(cls, args)
        if not args and record.message and _text(error) == "":  # somebody wrote it by hand
            args = (record.message,)
            error = _made(cls, args)
    if error is None:
        error = _substitute(record, args)
    else:
        error.args = args
    for name, value in record.attributes.items():
        if name not in PARTS or not is_validation_error(type(error)):
            _set(error, name, codec.decode(value))
    return error


def _spelled(name: str) -> str:
    """Return the name of a class as `module:QualName`, even if it was written by hand as `builtins.TimeoutError`."""
    module, _, qualname = name.rpartition(".")
    return name if ":" in name else f"{module or 'builtins'}:{qualname}"


def _text(error: BaseException | None) -> str | None:
    try:
        return str(error) if error is not None else None
    except Exception:  # noqa: BLE001 - of a class of the user, it may be any
        return None


def _made(cls: type[BaseException], args: tuple[Any, ...]) -> Any:
    """Return an instance as the nearest built-in base makes it, or `None` if that cannot."""
    builtin: Any = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    try:
        error = builtin.__new__(cls, *args)
        if type(error) is not cls:
            return None
        builtin.__init__(error, *args)
    except Exception:  # noqa: BLE001 - a class made in C, or arguments that do not fit; a substitute fits its handlers
        return None
    return error


def _substitute(record: RecordedError, args: tuple[Any, ...]) -> Exception:
    module, _, qualname = record.type.partition(":")
    shown = record.type.replace(":", ".")
    for base in filter(None, (loaded_class(name, BaseException) for name in record.bases)):
        if issubclass(base, Exception) and base not in ReplayedError.__mro__:
            with suppress(Exception):  # a base that cannot be derived from; the next one may
                cls: Any = type(qualname.rpartition(".")[2], (ReplayedError, base), {"__module__": module})
                error: ReplayedError | None = _made(cls, args)
                if error is not None:
                    ReplayedError.__init__(error, shown, record.message)
                    return error
    return ReplayedError(shown, record.message)


def _is_list_of_texts(value: Any) -> bool:
    """True if Python can show and add to the notes of an error."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _set(error: BaseException, name: str, value: Any) -> None:
    if name == _CAUSE and isinstance(value, BaseException):
        error.__cause__ = value
    if name == _SUPPRESSES:
        error.__suppress_context__ = value is True
    if name.startswith("__") and not (name == _NOTES and _is_list_of_texts(value)):
        return
    member = inspect.getattr_static(type(error), name, None)
    if not isinstance(member, MemberDescriptorType):
        vars(error)[name] = value
        return
    try:
        member.__set__(error, value)
    except (AttributeError, TypeError):
        return  # read-only: its constructor has set it
