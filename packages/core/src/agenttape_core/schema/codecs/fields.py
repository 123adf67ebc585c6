"""Pydantic objects of a framework, written field by field and filled again without running their validators.

Constructors derive fields from each other: tool calls from raw provider arguments, text from content. What a model
really returned may have been changed since, so a recorded object is restored as `copy` and `pickle` restore it, through
`__setstate__`: exactly the recorded fields, at a quarter of the constructor's cost.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import class_name, loaded_class
from agenttape_core.schema.class_names import are_answers_written, subclass_name, writing_answers
from agenttape_core.schema.plain import Plain, expect_dict
from agenttape_core.schema.record import set_extra, set_given, set_private, set_state

Nested = Callable[[Any], Any]

CLASS = "$class"
"""Names a subclass that is not the framework's own, as `module:QualName`."""
EXTRA = "$extra"
"""Holds the extra values beyond the declared fields, if the class allows that."""
SET, UNSET = "$set", "$unset"
"""Name the fields that were given at their default, and those that were not given although they differ from it."""

Model = TypeVar("Model", bound=BaseModel)

_REQUIRED = object()


class Shape(NamedTuple):
    """The fields of one class, looked up once."""

    order: tuple[str, ...]  # the fields in the order in which they are written for readers
    defaults: dict[str, Any]  # one default per field, in the class's own order; a required field has a special mark
    required: tuple[str, ...]  # the fields that have no default
    makers: tuple[tuple[str, Callable[[], Any]], ...]  # how the defaults are made that must be fresh for each instance
    given: frozenset[str]  # the fields that are always passed, and left out of the record if they are empty
    allows_extra: bool  # whether instances hold undeclared fields
    has_own_state: bool  # whether the class restores its instances in its own way


_FIRST = (
    "content",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_chunks",
    "name",
    "role",
    "tool_call_id",
    "status",
    "artifact",
)
_LAST = ("additional_kwargs", "chunk_position", "id", "response_metadata", "usage_metadata")


@functools.cache
def shape_of(cls: type[BaseModel]) -> Shape:
    """Return the shape of a class."""
    makers = {name: _maker(field) for name, field in cls.model_fields.items()}
    given = frozenset(name for name in ("content",) if name in makers)
    if given:
        makers["content"] = str  # required, but empty in every message that only calls tools
    defaults = {name: make() if make else _REQUIRED for name, make in makers.items()}
    first = tuple(name for name in _FIRST if name in makers)
    last = tuple(name for name in _LAST if name in makers)
    middle = tuple(name for name in makers if name not in {*first, *last})
    return Shape(
        order=first + middle + last,
        defaults=defaults,
        required=tuple(name for name, make in makers.items() if make is None),
        makers=tuple((name, make) for name, make in makers.items() if make and not _is_constant(defaults[name])),
        given=given,
        allows_extra=cls.model_config.get("extra") == "allow",
        has_own_state=cls.__setstate__ is not BaseModel.__setstate__,
    )


def _maker(field: Any) -> Callable[[], Any] | None:
    if field.default_factory is not None:
        return None if field.default_factory_takes_validated_data else field.default_factory
    if field.is_required():
        return None
    return functools.partial(copy.deepcopy, field.default)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bytes))


def dump_fields(
    obj: BaseModel,
    nested: Nested,
    *,
    skip: Container[str] = (),
    always: Container[str] = (),
    special: Mapping[str, Callable[[Any, Nested], Plain]] | None = None,
) -> dict[str, Plain]:
    """Return the fields that differ from the defaults of the class, in reading order.

    Args:
        obj: The object.
        nested: Encodes a nested value.
        skip: Fields that the caller writes in its own way or leaves out.
        always: Fields that are written even at their default.
        special: How single fields are written, instead of by `nested`.

    Raises:
        UnrecordableValueError: If the object has private attributes, which couldn't be restored.
    """
    shape, state = shape_of(type(obj)), obj.__dict__
    if obj.__pydantic_private__:
        raise UnrecordableValueError("$", type(obj), "it has private attributes")
    body: dict[str, Plain] = {}
    for name in shape.order:
        if name in skip or name not in state:
            continue
        value, default = state[name], shape.defaults[name]
        if type(value) is type(default) and value == default and name not in always:
            continue
        write = special.get(name) if special else None
        body[name] = write(value, nested) if write else nested(value)
    if extra := obj.__pydantic_extra__:
        body[EXTRA] = {name: nested(value) for name, value in extra.items()}
    return body


keeping_sets = writing_answers  # the block in which `note_set` notes anything


def note_set(obj: BaseModel, body: dict[str, Plain], fields: Iterable[str] | None = None) -> dict[str, Plain]:
    """Return a body, with the fields that the object was given if they are not those that reading would take.

    For a call's return value. A request is the same whether a field was given at its default or not.

    Args:
        obj: The object.
        body: What is written of it.
        fields: The fields that are read from the body; by default those that it holds under their names.
    """
    if not are_answers_written():
        return body
    read = {name for name in (body if fields is None else fields) if not name.startswith("$")}
    taken = read | shape_of(type(obj)).given | (obj.__pydantic_extra__ or {}).keys()
    for mark, names in ((SET, obj.model_fields_set - taken), (UNSET, taken - obj.model_fields_set)):
        if names:
            body[mark] = " ".join(sorted(names))
    return body


def _set_of(taken: set[str], shape: Shape, body: Mapping[str, Plain]) -> set[str]:
    """Return the fields that an object was given, by the marks of the body that it is read from."""
    given, not_given = str(body.get(SET, "")).split(), str(body.get(UNSET, "")).split()
    return (taken | shape.defaults.keys() & given).difference(not_given)


def read_fields(
    body: Mapping[str, Plain], nested: Nested, *, special: Mapping[str, Callable[[Plain, Nested], Any]] | None = None
) -> dict[str, Any]:
    """Return the decoded fields of a body, without its marks (those that start with `$`)."""
    fields = {}
    for name, plain in body.items():
        if type(plain) is str and not name.startswith("$"):
            fields[name] = plain
        elif not name.startswith("$"):
            read = special.get(name) if special else None
            fields[name] = read(plain, nested) if read else nested(plain)
    return fields


def build(
    cls: type[BaseModel],
    fields: dict[str, Any],
    extra: dict[str, Any] | None = None,
    body: Mapping[str, Plain] = MappingProxyType({}),
    *,
    known: Iterable[str] = (),
) -> Any:
    """Return an instance with exactly these fields, and defaults for the others.

    Args:
        cls: The class.
        fields: The fields.
        extra: What it holds beyond them.
        body: What it is read from: its marks say which fields it was given, if others than these.
        known: The fields among these that were not set explicitly: they identify the class.

    Raises:
        UnreadableValueError: If a required field is missing, or a field is not one of the class.
    """
    shape = shape_of(cls)
    _, defaults, required, makers, given, allows_extra, has_own_state = shape
    state = {**defaults, **fields}
    if len(state) != len(defaults):
        unknown = ", ".join(sorted(fields.keys() - defaults.keys()))
        raise UnreadableValueError(class_name(cls), f"it has no field {unknown}")
    for name in required:
        if name not in fields:
            raise UnreadableValueError(class_name(cls), f"the field {name!r} is missing")
    for name, make in makers:
        if name not in fields:
            state[name] = make()
    taken = {*fields, *given}.difference(known) if known else {*fields, *given}
    if extra:
        taken.update(extra)
    if body and (SET in body or UNSET in body):
        taken = _set_of(taken, shape, body)
    extra = (extra or {}) if allows_extra else None
    instance = cls.__new__(cls)
    if has_own_state:
        instance.__setstate__(
            {
                "__dict__": state,
                "__pydantic_fields_set__": taken,
                "__pydantic_extra__": extra,
                "__pydantic_private__": None,
            }
        )
    else:  # as the method of pydantic does
        set_state(instance, state)
        set_given(instance, taken)
        set_extra(instance, extra)
        set_private(instance, None)
    return instance


def read_extra(body: Mapping[str, Plain], nested: Nested) -> dict[str, Any] | None:
    """Return the decoded undeclared fields of a body, if it has any."""
    extra = body.get(EXTRA)
    return None if extra is None else {name: nested(plain) for name, plain in expect_dict(extra, EXTRA).items()}


def mark_class(body: dict[str, Plain], cls: type, known: type) -> dict[str, Plain]:
    """Return the body, led by the name of the class if that is a subclass of the known one.

    Raises:
        UnrecordableValueError: If the class could not be found again by its name.
    """
    return body if cls is known else {CLASS: subclass_name(cls), **body}


def class_in(body: Mapping[str, Plain], known: type[Model]) -> type[Model]:
    """Return the class that a body names, or the known one; only a loaded subclass of that is accepted.

    Raises:
        UnreadableValueError: If the class isn't loaded, or isn't a subclass of the known one.
    """
    name = body.get(CLASS)
    if name is None:
        return known
    cls = loaded_class(name, known) if isinstance(name, str) else None
    if cls is None:
        raise UnreadableValueError(f"{name}", "the class is not loaded; import its module before the replay")
    if not issubclass(cls, known):
        raise UnreadableValueError(f"{name}", f"expected a {known.__name__}, found another class of that name")
    return cls
