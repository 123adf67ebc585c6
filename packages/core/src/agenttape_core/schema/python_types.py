"""Codecs for the standard library's types, pydantic models, dataclasses and enums.

A class is named in a file as `module:QualName`. Reading looks it up among the classes that are already loaded, checks
that it is of the right sort, and fills an instance without calling user code: no `__init__`, no validator.
"""

from __future__ import annotations

import array
import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, SecretBytes, SecretStr

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema.class_names import class_of, recordable_class
from agenttape_core.schema.opaque import OPAQUE
from agenttape_core.schema.plain import Plain
from agenttape_core.schema.values import Decode, Encode, TypeCodec, ValueCodec

if TYPE_CHECKING:
    from pydantic import AnyUrl


# Codecs for numpy's arrays and scalars, without importing numpy: who carries one has imported it.

_LISTED = 64  # arrays of up to so many numbers are written as numbers, for readers; larger ones as bytes
_LISTED_BYTES = 1 << 20
"""The limit of their size: every word of an array takes the room of its longest, which a hostile file gets for free."""
_DTYPE = Lazy(r"[<>|][biufcmMSUV][0-9]{1,9}(?:\[[A-Za-z0-9/]{1,20}\])?")


def _is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _encode(value: Any, nested: Encode) -> Plain:
    numpy = sys.modules["numpy"]
    if type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
        raise UnrecordableValueError("$", type(value), "it is a subclass of numpy's array; return a plain array")
    if value.dtype.hasobject or value.dtype.fields is not None:
        why = f"an array of {value.dtype} holds more than numbers; return lists, or several arrays"
        raise UnrecordableValueError("$", type(value), why)
    dtype = value.dtype if value.dtype.itemsize else numpy.dtype(f"{value.dtype.kind}1")  # an empty word has no size
    body: dict[str, Any] = {"dtype": dtype.str}
    if type(value) is numpy.ndarray:
        body["shape"] = list(value.shape)
        if value.flags.fnc:
            body["order"] = "F"
    is_small = value.size <= _LISTED and value.nbytes <= _LISTED_BYTES
    if is_small and (dtype.kind in "biuU" or (dtype.kind == "f" and numpy.isfinite(value).all())):
        return {**body, "values": nested(numpy.ravel(value).tolist())}
    return {**body, "bytes": base64.b64encode(numpy.asarray(value, dtype).tobytes()).decode()}


def _decode(plain: Any, nested: Decode) -> Any:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        raise UnreadableValueError("$numpy", "numpy is not imported in this process; import it before the replay")
    if not _DTYPE.fullmatch(plain["dtype"]):
        raise UnreadableValueError("$numpy", f"{plain['dtype'][:80]!r} isn't a type of numbers, words or moments")
    dtype = numpy.dtype(plain["dtype"])
    if "values" in plain:
        values = nested(plain["values"])
        if len(values) * dtype.itemsize > _LISTED_BYTES:
            raise UnreadableValueError("$numpy", f"{len(values)} values of {dtype} are more than were listed")
        flat = numpy.array(values, dtype=dtype)
    else:
        flat = numpy.frombuffer(base64.b64decode(plain["bytes"], validate=True), dtype=dtype).copy()
    if "shape" not in plain:
        return flat.reshape(())[()]
    return numpy.array(flat.reshape(plain["shape"]), order="F" if plain.get("order") == "F" else "C", copy=None)


_NUMPY = TypeCodec("$numpy", _is_numpy, _encode, _decode)


# Codecs for the standard library's rarer containers and words: dicts, ranges, patterns, addresses.

_FACTORIES: dict[str, Any] = {cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple)}
_MAPPINGS: dict[str, Any] = {"OrderedDict": collections.OrderedDict, "Counter": collections.Counter}
_ADDRESSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        ipaddress.IPv4Address,
        ipaddress.IPv6Address,
        ipaddress.IPv4Network,
        ipaddress.IPv6Network,
        ipaddress.IPv4Interface,
        ipaddress.IPv6Interface,
    )
}


_FLAGS = int(re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.UNICODE | re.VERBOSE)
"""The flags of Python that change the meaning of a pattern."""


def _pairs(value: dict[Any, Any], nested: Encode) -> Plain:
    return [[nested(key), nested(item)] for key, item in value.items()]


def _encode_mapping(value: Any, nested: Encode) -> Plain:
    return {"type": type(value).__name__, "items": _pairs(value, nested)}


def _decode_mapping(plain: Any, nested: Decode) -> Any:
    return _MAPPINGS[plain["type"]]({nested(key): nested(item) for key, item in plain["items"]})


def _encode_defaultdict(value: collections.defaultdict[Any, Any], nested: Encode) -> Plain:
    factory: Any = value.default_factory
    name = getattr(factory, "__name__", None)
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        why = f"its default factory {factory!r} has no codec; make it a plain dict"
        raise UnrecordableValueError("$", type(value), why)
    return {"factory": name, "items": _pairs(value, nested)}


def _decode_defaultdict(plain: Any, nested: Decode) -> Any:
    factory = plain["factory"]
    made = _FACTORIES[factory] if factory is not None else None
    return collections.defaultdict(made, {nested(key): nested(item) for key, item in plain["items"]})


def _encode_address(value: Any, _: Encode) -> Plain:
    return [type(value).__name__, str(value)]


def _decode_address(plain: Any, _: Decode) -> Any:
    name, text = plain
    return _ADDRESSES[name](text)


def _encode_pattern(value: re.Pattern[Any], nested: Encode) -> Plain:
    return {"pattern": nested(value.pattern), "flags": value.flags}


def _decode_pattern(plain: Any, nested: Decode) -> Any:
    if plain["flags"] & ~_FLAGS:
        raise UnreadableValueError("$pattern", f"{plain['flags']} isn't a combination of flags")
    try:
        return re.compile(nested(plain["pattern"]), plain["flags"])
    except (re.error, RecursionError) as error:
        raise UnreadableValueError("$pattern", str(error)) from None


def _encode_array(value: array.array[Any], _: Encode) -> Plain:
    return [value.typecode, value.tolist()]


_CONTAINERS: tuple[TypeCodec, ...] = (
    TypeCodec("$mapping", lambda v: type(v) in _MAPPINGS.values(), _encode_mapping, _decode_mapping),
    TypeCodec("$defaultdict", lambda v: type(v) is collections.defaultdict, _encode_defaultdict, _decode_defaultdict),
    TypeCodec(
        "$range", lambda v: type(v) is range, lambda v, _: [v.start, v.stop, v.step], lambda plain, _: range(*plain)
    ),
    TypeCodec("$ip", lambda v: type(v) in _ADDRESSES.values(), _encode_address, _decode_address),
    TypeCodec("$pattern", lambda v: type(v) is re.Pattern, _encode_pattern, _decode_pattern),
    TypeCodec("$array", lambda v: type(v) is array.array, _encode_array, lambda plain, _: array.array(*plain)),
)


_ZONE = Lazy(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_FRACTION = Lazy(r"-?[0-9]+(?:/[0-9]+)?")


def _exact(tag: str, cls: type, write: Callable[[Any], Plain], read: Callable[[Any], Any]) -> TypeCodec:
    def encode(value: Any, _: Encode) -> Plain:
        return write(value)

    return TypeCodec(tag, lambda value: type(value) is cls, encode, lambda plain, _: read(plain))


def _collection(tag: str, cls: type, *, ordered: bool) -> TypeCodec:
    def encode(value: Any, nested: Encode) -> Plain:
        items = [nested(item) for item in value]
        return items if ordered else sorted(items, key=repr)

    return TypeCodec(tag, lambda value: type(value) is cls, encode, lambda plain, nested: cls(_items(plain, nested)))


def _items(plain: Plain, nested: Decode) -> list[Any]:
    if not isinstance(plain, list):
        raise TypeError(f"expected a list, found {plain!r}")
    return [nested(item) for item in plain]


def _encode_deque(value: collections.deque[Any], nested: Encode) -> Plain:
    items = [nested(item) for item in value]
    return items if value.maxlen is None else {"items": items, "maxlen": value.maxlen}


def _decode_deque(plain: Any, nested: Decode) -> Any:
    body = plain if isinstance(plain, dict) else {"items": plain, "maxlen": None}
    return collections.deque(_items(body["items"], nested), body["maxlen"])


def _write_moment(value: dt.datetime | dt.time) -> Plain:
    """Return a moment with its time zone; a fixed offset of any class, such as pydantic's, comes back as `timezone`."""
    zone = getattr(value.tzinfo, "key", None)
    body: dict[str, Any] = {"at": value.isoformat()}
    if type(value.tzinfo) is dt.timezone and (name := value.tzinfo.__getinitargs__()[1:]):  # type: ignore[attr-defined]
        body["name"] = name[0]
    if zone is not None:
        body["zone"] = zone
    elif value.tzinfo is not None and value.tzinfo.utcoffset(None) is None:
        raise UnrecordableValueError("$", type(value.tzinfo), "only zoneinfo and fixed-offset time zones are kept")
    if value.fold:
        body["fold"] = 1
    return body if len(body) > 1 else body["at"]


def zone_called(name: str) -> dt.tzinfo:
    """Return the time zone of a name. Raises `ValueError` if it isn't the name of one."""
    from zoneinfo import ZoneInfo

    if not _ZONE.fullmatch(name):  # it becomes the name of a file of the system, or of a package's resource
        raise ValueError(f"{name[:80]!r} isn't a name of a time zone")
    return ZoneInfo(name)


def _read_moment(cls: Any, plain: Any) -> Any:
    if isinstance(plain, str):
        return cls.fromisoformat(plain)
    value = cls.fromisoformat(plain["at"])
    if zone := plain.get("zone"):
        value = value.replace(tzinfo=zone_called(zone))
    elif name := plain.get("name"):
        value = value.replace(tzinfo=dt.timezone(value.utcoffset(), name))
    return value.replace(fold=plain.get("fold", 0))


def _read_fraction(text: str) -> fractions.Fraction:
    if not _FRACTION.fullmatch(text):  # one with an exponent, which we never write, may not fit into the memory
        raise ValueError(f"{text[:80]!r} isn't a fraction such as 1/3")
    return fractions.Fraction(text)


def _encode_model(value: BaseModel, nested: Encode) -> Plain:
    body: dict[str, Any] = {"type": recordable_class(value), "fields": named(vars(value), nested)}
    for key, extra in (("extra", value.__pydantic_extra__), ("private", value.__pydantic_private__)):
        if extra:
            body[key] = named(extra, nested)
    if value.model_fields_set != set(vars(value)):
        body["set"] = sorted(value.model_fields_set)
    return body


def named(fields: dict[str, Any], nested: Callable[[Any], Any]) -> dict[str, Any]:
    """Return fields by their names, encoded or decoded. The names are the strings that Python has for attributes."""
    return {sys.intern(key): nested(item) for key, item in fields.items()}


def _decode_model(plain: Any, nested: Decode) -> BaseModel:
    cls = class_of(plain["type"], BaseModel)
    fields = named(plain["fields"], nested)
    missing = [name for name, field in cls.model_fields.items() if field.is_required() and name not in fields]
    if missing:
        raise UnreadableValueError(plain["type"], f"the class now requires {', '.join(missing)}; re-record")
    value = cls.__new__(cls)
    extra, private = ({k: nested(v) for k, v in plain.get(key, {}).items()} for key in ("extra", "private"))
    object.__setattr__(value, "__dict__", fields)
    object.__setattr__(value, "__pydantic_fields_set__", set(map(sys.intern, plain.get("set", fields))))
    if not cls.__pydantic_root_model__:  # those have no slots for the two, and keep what is set in their dict
        object.__setattr__(value, "__pydantic_extra__", extra if cls.model_config.get("extra") == "allow" else None)
        object.__setattr__(value, "__pydantic_private__", private or None)
    return value  # type: ignore[no-any-return]


def _is_url(value: Any) -> bool:
    networks = sys.modules.get("pydantic.networks")  # importing it takes longer than most of this layer
    return networks is not None and isinstance(value, getattr(networks, "AnyUrl", ()))


def _encode_url(value: AnyUrl, _: Encode) -> Plain:
    return {"type": recordable_class(value), "url": str(value)}


def _decode_url(plain: Any, _: Decode) -> Any:
    from pydantic import AnyUrl

    return class_of(plain["type"], AnyUrl)(plain["url"])


_SECRETS: dict[str, Any] = {"str": SecretStr, "bytes": SecretBytes}


def _encode_secret(value: Any, nested: Encode) -> Plain:
    """Write the content under a key that is always redacted: `secret`."""
    kind = "str" if type(value) is SecretStr else "bytes"
    return {"of": kind, "secret": nested(value.get_secret_value())}


def _decode_secret(plain: Any, nested: Decode) -> Any:
    secret = nested(plain["secret"])
    return _SECRETS[plain["of"]](secret.encode() if plain["of"] == "bytes" and isinstance(secret, str) else secret)


def _encode_dataclass(value: Any, nested: Encode) -> Plain:
    names = [field.name for field in dataclasses.fields(value)]
    unset = [name for name in names if not hasattr(value, name)]
    if unset:
        raise UnrecordableValueError("$", type(value), f"its fields {', '.join(unset)} are not set")
    body = {"type": recordable_class(value), "fields": {name: nested(getattr(value, name)) for name in names}}
    others = {name: item for name, item in getattr(value, "__dict__", {}).items() if name not in names}
    return {**body, "attributes": named(others, nested)} if others else body


def _decode_dataclass(plain: Any, nested: Decode) -> Any:
    cls: Any = class_of(plain["type"], object)
    if not dataclasses.is_dataclass(cls):
        raise UnreadableValueError(plain["type"], "expected a dataclass, found another class of that name")
    expected, found = {field.name for field in dataclasses.fields(cls)}, set(plain["fields"])
    if expected != found:
        why = f"its fields changed: recorded {sorted(found)}, found {sorted(expected)}; re-record"
        raise UnreadableValueError(plain["type"], why)
    value = object.__new__(cast("type[Any]", cls))
    for name, item in (plain["fields"] | plain.get("attributes", {})).items():
        object.__setattr__(value, name, nested(item))
    return value


def _decode_enum(plain: Any, _: Decode) -> Any:
    name, member = plain
    members = class_of(name, enum.Enum).__members__
    if member not in members:
        raise UnreadableValueError(name, f"expected one of {sorted(members)}, found {member!r}")
    return members[member]


def _encode_enum(value: Any, _: Encode) -> Plain:
    name = recordable_class(value)
    if value.name not in type(value).__members__:
        raise UnrecordableValueError("$", type(value), "a combination of flags has no single name")
    return [name, value.name]


def _encode_namedtuple(value: Any, nested: Encode) -> Plain:
    return [recordable_class(value), *(nested(item) for item in value)]


def _decode_namedtuple(plain: Any, nested: Decode) -> Any:
    name, *items = plain
    cls = class_of(name, tuple)
    if len(items) != len(getattr(cls, "_fields", ())):
        raise UnreadableValueError(name, "the number of its fields changed; re-record")
    return tuple.__new__(cls, [nested(item) for item in items])


_PATHS = (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath)

CODECS: tuple[TypeCodec, ...] = (
    _exact("$bytes", bytes, lambda v: base64.b64encode(v).decode(), lambda p: base64.b64decode(p, validate=True)),
    _exact("$bytearray", bytearray, lambda v: base64.b64encode(v).decode(), lambda p: bytearray(base64.b64decode(p))),
    _collection("$tuple", tuple, ordered=True),
    _collection("$set", set, ordered=False),
    _collection("$frozenset", frozenset, ordered=False),
    TypeCodec("$deque", lambda v: type(v) is collections.deque, _encode_deque, _decode_deque),
    _exact("$datetime", dt.datetime, _write_moment, lambda p: _read_moment(dt.datetime, p)),
    _exact("$date", dt.date, dt.date.isoformat, dt.date.fromisoformat),
    _exact("$time", dt.time, _write_moment, lambda p: _read_moment(dt.time, p)),
    _exact("$timedelta", dt.timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda p: dt.timedelta(*p)),
    _exact("$uuid", uuid.UUID, str, uuid.UUID),
    _exact("$decimal", decimal.Decimal, str, decimal.Decimal),
    _exact("$fraction", fractions.Fraction, str, _read_fraction),
    _exact("$complex", complex, lambda v: [repr(v.real), repr(v.imag)], lambda p: complex(float(p[0]), float(p[1]))),
    *(
        _exact(f"${cls.__name__}", cls, str, cls)
        for cls in _PATHS
        if isinstance(pathlib.Path(), cls) or "Pure" in cls.__name__
    ),
    *_CONTAINERS,
    OPAQUE,
    TypeCodec("$model", lambda v: isinstance(v, BaseModel), _encode_model, _decode_model),
    TypeCodec("$url", _is_url, _encode_url, _decode_url),
    TypeCodec("$secret", lambda v: type(v) in _SECRETS.values(), _encode_secret, _decode_secret),
    TypeCodec("$enum", lambda v: isinstance(v, enum.Enum), _encode_enum, _decode_enum),
    TypeCodec(
        "$dataclass",
        lambda v: dataclasses.is_dataclass(v) and not isinstance(v, type),
        _encode_dataclass,
        _decode_dataclass,
    ),
    TypeCodec(
        "$namedtuple",
        lambda v: isinstance(v, tuple) and hasattr(type(v), "_fields"),
        _encode_namedtuple,
        _decode_namedtuple,
    ),
    _NUMPY,
)

PYTHON_VALUES = ValueCodec(CODECS)  # the codec without any framework's families
