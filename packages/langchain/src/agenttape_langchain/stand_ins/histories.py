"""A chat message history made of a cassette."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from agenttape_core.integration import areplay_call, replay_call
from agenttape_core.integration.stand_ins import Options, RecordedPart, settings_of_method
from agenttape_langchain.requests import MEMORY
from agenttape_langchain.stand_ins.methods import Replaying

_METHODS = {"messages": (), "add_messages": (), "clear": ()}


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
            settings_of_method(_METHODS),
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
