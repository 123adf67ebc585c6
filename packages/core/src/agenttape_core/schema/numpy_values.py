"""Codecs for numpy's arrays and scalars, without importing numpy: who carries one has imported it."""

from __future__ import annotations

import base64
import re
import sys
from typing import Any

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.schema.plain import Plain
from agenttape_core.schema.values import Decode, Encode, TypeCodec

_LISTED = 64
"""Arrays of up to so many numbers are written as numbers, for readers; larger ones as bytes."""
_LISTED_BYTES = 1 << 20
"""The limit of their size: every word of an array takes the room of its longest, which a hostile file gets for free."""
_DTYPE = re.compile(r"[<>|][biufcmMSUV][0-9]{1,9}(?:\[[A-Za-z0-9/]{1,20}\])?")


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


NUMPY = TypeCodec("$numpy", _is_numpy, _encode, _decode)
