"""Chains with a configurable part keep their own answers, whatever order they begin in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda

from agenttape_core import use_cassette

from .fakes import PlainChat, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

USERS = ["ann", "ben", "cem"]


def chain_of(world: World) -> Any:
    """A chain that asks the same for every session."""
    model = PlainChat(world=world)

    def answer(question: str) -> str:
        return str(model.invoke(question).content)

    return RunnableLambda(answer)


def config_of(user: str) -> RunnableConfig:
    """The config of a session."""
    return {"configurable": {"session_id": user}}


def in_turn(chain: Any, users: Sequence[str]) -> dict[str, str]:
    """One session after the other."""
    return {user: chain.invoke("Hello?", config_of(user)) for user in users}


def by_gather(chain: Any, users: Sequence[str]) -> dict[str, str]:
    """All at once."""

    async def converse() -> list[str]:
        return await asyncio.gather(*(chain.ainvoke("Hello?", config_of(user)) for user in users))

    return dict(zip(users, asyncio.run(converse()), strict=True))


@pytest.mark.parametrize("drive", [in_turn, by_gather])
def test_sessions_keep_their_answers(
    drive: Callable[[Any, Sequence[str]], dict[str, str]], world: World, tmp_path: Path
) -> None:
    """Chains with different configurable values that ask the same keep their answers in another order."""
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        recorded = drive(chain_of(world), USERS)
    assert "metadata:\n  session_id: ben\n" in file.read_text()
    world.gone = True
    with use_cassette(file):
        assert drive(chain_of(world), USERS[::-1]) == recorded


def test_chains_without_a_config_leave_no_step(world: World, tmp_path: Path) -> None:
    """A chain that is given nothing configurable is recorded by its calls alone."""
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        chain_of(world).invoke("Hello?")
    assert "step:" not in file.read_text()
