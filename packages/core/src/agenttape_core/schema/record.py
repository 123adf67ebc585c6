"""The base of all records of a cassette."""

from __future__ import annotations

from typing import Annotated, TypeVar

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


# Fill a new instance of any class of pydantic, as that does without a check: they're the setters of slots, as to look
# for one by its name on each instance takes twice as long.
set_state = vars(BaseModel)["__dict__"].__set__
set_given = vars(BaseModel)["__pydantic_fields_set__"].__set__
set_extra = vars(BaseModel)["__pydantic_extra__"].__set__
set_private = vars(BaseModel)["__pydantic_private__"].__set__
