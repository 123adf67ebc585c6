"""A key-value store made of a cassette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from langchain_core.stores import BaseStore

from agenttape_core.integration import areplay_call, areplay_stream, replay_call, replay_stream
from agenttape_core.integration.stand_ins import Options, RecordedPart, settings_of_method
from agenttape_langchain.requests import MEMORY
from agenttape_langchain.stand_ins.methods import Replaying
from agenttape_langchain.stores import METHODS


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
