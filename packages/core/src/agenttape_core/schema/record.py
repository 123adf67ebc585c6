"""The base of all records of a cassette."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An inert, immutable record: it creates nothing when constructed and refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)  # imports stay quick
