"""The stand-in for readers: its documents come from a cassette."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Unpack

from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document

from agenttape_core.integration import SessionCall, areplay_call, named_arguments, replay_call
from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.readers import LOAD
from agenttape_llamaindex.requests import method_body
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.stand_ins.methods import recorded_methods


class ReplayReader(StandIn, BaseReader):
    """A reader that returns the recorded documents.

    Arguments may be given by position where the recorded call had no more of them.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the reader, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a reader, or none of that one.
    """

    _recorded: RecordedPart

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        self._recorded = recorded_methods(cassette, frozenset({RETRIEVAL.kind}), {LOAD: ()}, name, **options)

    def load_data(self, *args: Any, **load_kwargs: Any) -> list[Document]:
        """Return the recorded documents."""
        return replay_call(self._cross(args, load_kwargs))  # type: ignore[no-any-return]

    async def aload_data(self, *args: Any, **load_kwargs: Any) -> list[Document]:
        """Return the recorded documents."""
        return await areplay_call(self._cross(args, load_kwargs))  # type: ignore[no-any-return]

    def lazy_load_data(self, *args: Any, **load_kwargs: Any) -> Iterable[Document]:
        """Return the recorded documents."""
        return self.load_data(*args, **load_kwargs)

    async def alazy_load_data(self, *args: Any, **load_kwargs: Any) -> Iterable[Document]:
        """Return the recorded documents."""
        return await self.aload_data(*args, **load_kwargs)

    def _cross(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall:
        arguments = named_arguments(None, self._names(len(args) + len(kwargs)), args, kwargs)
        return self._recorded.cross(RETRIEVAL, lambda settings: method_body(LOAD, arguments, settings))

    def _names(self, count: int) -> tuple[str, ...]:
        """Return the names that the recorded class gave to that many arguments: only the class itself has them."""
        for _, request in self._recorded.requests(RETRIEVAL.kind):
            if request.get("method") == LOAD and len(request.get("arguments", {})) == count:
                return tuple(request["arguments"])
        return ()
