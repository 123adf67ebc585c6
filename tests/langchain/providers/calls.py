"""Helpers of the tests of providers."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.messages import AIMessageChunk


def streamed(chunks: Iterable[AIMessageChunk]) -> list[AIMessageChunk]:
    """Drain a stream."""
    got = list(chunks)
    assert len(got) > 1
    return got


def whole(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    """The message that chunks make together."""
    return reduce(add, chunks)


def seen(results: list[Any]) -> list[Any]:
    """All that a caller can see of each result: its class and every field."""
    return [[(type(m), m.model_dump()) for m in (r if isinstance(r, list) else [r])] for r in results]


def seen_but_ids(results: list[Any]) -> list[Any]:
    """The same, without the ids that the framework makes of the ids of its runs."""
    return [
        [
            (cls, {**fields, "id": "" if str(fields["id"]).startswith("lc_run--") else fields["id"]})
            for cls, fields in result
        ]
        for result in seen(results)
    ]
