"""The base of all records of a cassette."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast

T = TypeVar("T")


class _FailFast(FailFast):
    def __hash__(self) -> int:  # which unions of types need, and pydantic's own class lacks
        return hash(FailFast)


Items = Annotated[list[T], _FailFast()]
"""A list that is read up to the first item that's wrong: an error for each would take 600 times as much memory."""


class Record(BaseModel):
    """An inert, immutable record: constructing it has no side effects, and it refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)  # imports stay quick


_set_state = vars(BaseModel)["__dict__"].__set__  # of a slot: to look for it by its name takes twice as long
_set_given = vars(BaseModel)["__pydantic_fields_set__"].__set__
_set_extra = vars(BaseModel)["__pydantic_extra__"].__set__
_set_private = vars(BaseModel)["__pydantic_private__"].__set__


def fill(instance: BaseModel, state: dict[str, Any], given: set[str], extra: dict[str, Any] | None = None) -> None:
    """Fill a new instance as pydantic does, without a check.

    Args:
        instance: The instance.
        state: Its fields.
        given: The fields that it was given.
        extra: What it holds beyond them.
    """
    _set_state(instance, state)
    _set_given(instance, given)
    _set_extra(instance, extra)
    _set_private(instance, None)
