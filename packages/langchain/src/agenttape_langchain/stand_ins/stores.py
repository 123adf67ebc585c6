"""Stores and chat message histories made of a cassette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, Unpack

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import areplay_call, areplay_stream, replay_call, replay_stream
from agenttape_core.integration.stand_ins import Options, RecordedPart, settings_of_method
from agenttape_langchain.histories import METHODS as HISTORY_METHODS
from agenttape_langchain.requests import MEMORY, RETRIEVAL
from agenttape_langchain.stand_ins.methods import Replaying, replayed
from agenttape_langchain.stores import METHODS
from agenttape_langchain.vector_stores import METHODS as VECTOR_METHODS


class ReplayStore(Replaying, BaseStore[str, Any]):
    """A key-value store that returns the recorded values, and takes the recorded writes.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayChatModel`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a key-value store, or not of that one.
    """

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        settings_in = settings_of_method(METHODS)
        self._recorded = RecordedPart(cassette, frozenset({MEMORY.kind}), settings_in, name=name, **options)

    def mget(self, keys: Sequence[str]) -> list[Any]:
        """Return the recorded values of keys."""
        return replay_call(self._cross(MEMORY, "mget", keys=keys))  # type: ignore[no-any-return]

    def mset(self, key_value_pairs: Sequence[tuple[str, Any]]) -> None:
        """Accept the recorded values."""
        replay_call(self._cross(MEMORY, "mset", key_value_pairs=key_value_pairs))

    def mdelete(self, keys: Sequence[str]) -> None:
        """Accept the recorded deletion of keys."""
        replay_call(self._cross(MEMORY, "mdelete", keys=keys))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the recorded keys."""
        yield from replay_stream(self._cross(MEMORY, "yield_keys", prefix=prefix))

    async def amget(self, keys: Sequence[str]) -> list[Any]:
        """Return the recorded values of keys."""
        return await areplay_call(self._cross(MEMORY, "mget", keys=keys))  # type: ignore[no-any-return]

    async def amset(self, key_value_pairs: Sequence[tuple[str, Any]]) -> None:
        """Accept the recorded values."""
        await areplay_call(self._cross(MEMORY, "mset", key_value_pairs=key_value_pairs))

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Accept the recorded deletion of keys."""
        await areplay_call(self._cross(MEMORY, "mdelete", keys=keys))

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Yield the recorded keys."""
        async for key in areplay_stream(self._cross(MEMORY, "yield_keys", prefix=prefix)):
            yield key


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
        self._recorded = RecordedPart(cassette, kinds, settings_of_method(VECTOR_METHODS), name=name, **options)

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


for _name in VECTOR_METHODS.keys() - {"similarity_search"}:
    for _method in replayed(VECTOR_METHODS, _name):
        setattr(ReplayVectorStore, _method.__name__, _method)


class ReplayChatMessageHistory(Replaying, BaseChatMessageHistory):
    """A chat message history that returns the recorded messages, and takes the recorded additions.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        session_id: The recorded conversation, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayChatModel`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a history, or not of that conversation.
    """

    def __init__(self, cassette: str | Path, *, session_id: str | None = None, **options: Unpack[Options]) -> None:
        self._recorded = RecordedPart(
            cassette,
            frozenset({MEMORY.kind}),
            settings_of_method(HISTORY_METHODS),
            choice={"session_id": session_id},
            **options,
        )

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The recorded messages."""
        return replay_call(self._cross(MEMORY, "messages"))  # type: ignore[no-any-return]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Accept the recorded messages."""
        replay_call(self._cross(MEMORY, "add_messages", messages=list(messages)))

    def clear(self) -> None:
        """Accept the recorded clearing."""
        replay_call(self._cross(MEMORY, "clear"))

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the recorded messages."""
        return await areplay_call(self._cross(MEMORY, "messages"))  # type: ignore[no-any-return]

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Accept the recorded messages."""
        await areplay_call(self._cross(MEMORY, "add_messages", messages=list(messages)))

    async def aclear(self) -> None:
        """Accept the recorded clearing."""
        await areplay_call(self._cross(MEMORY, "clear"))
