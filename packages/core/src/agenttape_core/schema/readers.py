"""Readers of streams: integrations register them so that tools can read the chunks that their codecs write.

A tool over finished cassettes does not import a framework to show the answer of a model. So an integration publishes
the function that registers its readers as an entry point of the group `agenttape.readers`, in a module that imports no
framework. These functions are called when a tool meets a tag without a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.installed import published
from agenttape_core.schema.plain import Plain

GROUP = "agenttape.readers"

Body = Mapping[str, Plain]
"""A recorded value without its tag. A chunk that is only a text has the body `{"content": text}`."""


class CallPiece(NamedTuple):
    """The piece of a tool call that one chunk of a stream brings.

    Args:
        call: Tells the call from the others of the answer, such as its index among them.
        name: The name of the tool, in the chunk that brings it.
        id: The id of the call; empty if there is none.
        args: The text that the arguments grow by.
    """

    call: str
    name: str | None = None
    id: str | None = None
    args: str | None = None


class Reader(NamedTuple):
    """The reader of the values of one codec. See `register_reader`."""

    join: Callable[[Sequence[Body]], Plain] | None = None
    calls: Callable[[Body], Iterable[CallPiece]] | None = None
    local_ids: tuple[str, ...] = ()


_readers: dict[str, Reader] = {}


def register_reader(
    tag: str,
    *,
    join: Callable[[Sequence[Body]], Plain] | None = None,
    calls: Callable[[Body], Iterable[CallPiece]] | None = None,
    local_ids: Sequence[str] = (),
) -> None:
    """Register a reader for the values of a codec. Texts, messages and complete tool calls need none.

    Args:
        tag: The tag of the codec, such as `$chunk`.
        join: Returns the value of a stream from the bodies of its chunks: the tagged value that the codecs write of the
            same answer when it is not streamed. It may raise `UnreadableValueError` for chunks that do not fit.
        calls: Returns the pieces of tool calls in the body of one chunk.
        local_ids: What ids begin with that the framework made up for answers that came without one.
    """
    _readers[tag] = Reader(join, calls, tuple(local_ids))


def reader_of(tag: str) -> Reader:
    """Return the reader of a codec's values; an empty one if no installed integration has registered any."""
    if tag.startswith("$") and tag not in _readers:
        register_installed()
    return _readers.get(tag, Reader())


@cache
def register_installed() -> None:
    """Register the tools' readers of the installed integrations, once."""
    for register in published(GROUP):
        register()
