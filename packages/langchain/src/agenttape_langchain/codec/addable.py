"""The chunks of a stream of a map: dicts that can be added."""

from __future__ import annotations

from langchain_core.runnables import AddableDict

from agenttape_core.integration import TypeCodec

CODEC = TypeCodec(
    "$addable",
    lambda value: type(value) is AddableDict,
    lambda value, nested: nested(dict(value)),
    lambda plain, nested: AddableDict(nested(plain)),
)
"""What `RunnableParallel` and `RunnablePassthrough.assign` stream."""
