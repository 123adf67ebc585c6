"""The shell of `ShellToolMiddleware` is outside: a replay starts no process, and serves what commands put out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HostExecutionPolicy, RedactionRule, ShellToolMiddleware
from langchain_core.messages import AIMessage, BaseMessage

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError

from ..kit.replaying import Twice
from .fakes import NativeChat, World, calling

QUESTION: Any = {"messages": [("user", "Who am I?")]}
COMMANDS = ("me=ada@example.org; echo $$", "echo $me", "echo no; false", None, "echo ${me:-nobody}")
LIMIT = 30
"""Seconds after which a wait that another thread ends is an error."""

pytestmark = pytest.mark.process


@pytest.fixture
def shells() -> Iterator[list[Any]]:
    """The processes that `Policy` has begun. LangChain leaves their pipes open."""
    _begun.clear()
    yield _begun
    for process in _begun:
        process.wait(LIMIT)
    for thread in threading.enumerate():
        if "_enqueue_stream" in thread.name:
            thread.join(LIMIT)
    for process in _begun:
        process.stdout.close()
        process.stderr.close()
    _begun.clear()


_begun: list[Any] = []


class Policy(HostExecutionPolicy):
    """Notes the processes of shells."""

    def spawn(self, **options: Any) -> Any:
        """Begin one."""
        _begun.append(super().spawn(**options))
        return _begun[-1]


def agent_of(commands: Sequence[str | None], **options: Any) -> Any:
    """Return an agent whose model has these commands executed, `None` for a new shell."""

    def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        if turn == len(commands):
            return AIMessage("I know.")
        command = commands[turn]
        return calling(("shell", {"restart": True} if command is None else {"command": command}), number=number)

    middleware: Any = ShellToolMiddleware(execution_policy=Policy(), **options)
    return create_agent(NativeChat(world=World(), reply=reply), [], middleware=[middleware])


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_shell_is_not_started_in_a_replay(tmp_path: Path, shells: list[Any], *, is_async: bool) -> None:
    """What commands have done to the shell is in their recorded output; the tool itself runs, and nothing else."""
    made = tmp_path / "made"

    def run(mode: str) -> tuple[Any, list[Any]]:
        agent = agent_of(
            COMMANDS,
            redaction_rules=[RedactionRule(pii_type="email", strategy="redact")],
            startup_commands=f"touch {made}",
            shutdown_commands=f"rm {made}",
        )
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            answer = asyncio.run(agent.ainvoke(QUESTION)) if is_async else agent.invoke(QUESTION)
        return session, [(message.content, message.id) for message in answer["messages"]]

    _, recorded = run("all")
    outputs = [content for content, _ in recorded[4::2]]
    assert outputs == ["[REDACTED_EMAIL]\n", "no\n\nExit code: 1", "Shell session restarted.", "nobody\n"]
    assert len(shells) == 2
    session, replayed = run("none")
    assert replayed == recorded
    assert (session.report.recorded, len(shells)) == ((), 2)


def test_a_shell_that_does_not_start_fails_again(tmp_path: Path, shells: list[Any]) -> None:
    """A replay of an agent whose first command fails does so, too."""
    for mode in ("all", "none"):
        failing = pytest.raises(RuntimeError, match="Startup command 'false' failed with exit code 1")
        with failing, use_cassette(tmp_path / "c.yaml", mode=mode, on_error="keep"):
            agent_of([], startup_commands="false").invoke(QUESTION)
    assert len(shells) == 1


def test_another_command_is_a_miss(shells: list[Any], twice: Twice) -> None:
    """A command that was not executed in the recording has no output."""
    twice.record(lambda: agent_of(["echo a"]).invoke(QUESTION))
    with (
        pytest.raises(CassetteMissError, match="call      call ShellSession in node"),
        twice.replays(),
    ):
        agent_of([], startup_commands="echo b").invoke(QUESTION)
    assert len(shells) == 1
