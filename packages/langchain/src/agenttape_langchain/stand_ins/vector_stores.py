"""A vector store made of a cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, Unpack

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import areplay_call, replay_call
from agenttape_core.integration.stand_ins import Options, RecordedPart, settings_of_method
from agenttape_langchain.requests import MEMORY, RETRIEVAL
from agenttape_langchain.stand_ins.methods import Replaying, replayed
from agenttape_langchain.vector_stores import READS, WRITES


class ReplayVectorStore(Replaying, VectorStore):
    """A vector store that returns the recorded results, and takes the recorded writes.

    Its retriever (`as_retriever`) finds the recorded searches of the store, even those of another retriever.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayChatModel`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a vector store, or not of that one.
    """

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        kinds = frozenset({RETRIEVAL.kind, MEMORY.kind})
        self._recorded = RecordedPart(cassette, kinds, settings_of_method(READS | WRITES), name=name, **options)

    def similarity_search(self, query: str, k: int | None = None, **kwargs: Any) -> list[Document]:
        """Return the recorded documents for the query."""
        return replay_call(self._cross(RETRIEVAL, "similarity_search", query=query, k=k, **kwargs))  # type: ignore[no-any-return]

    async def asimilarity_search(self, query: str, k: int | None = None, **kwargs: Any) -> list[Document]:
        """Return the recorded documents for the query."""
        session_call = self._cross(RETRIEVAL, "similarity_search", query=query, k=k, **kwargs)
        return await areplay_call(session_call)  # type: ignore[no-any-return]

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a stand-in is made of a cassette.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"a {cls.__name__} is made of a cassette, not of texts\n"
            f"  construct it by {cls.__name__}(cassette), and add the texts"
        )


for _methods, _boundary in ((READS, RETRIEVAL), (WRITES, MEMORY)):
    for _name in _methods.keys() - {"similarity_search"}:
        for _method in replayed(_boundary, _name, _methods[_name]):
            setattr(ReplayVectorStore, _method.__name__, _method)
