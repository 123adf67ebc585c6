"""The scripted world, which a conformance test uses instead of the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

from agenttape_core.testing.concurrency import current_branch

PIECE = 6  # the number of characters in a streamed chunk


class ScriptedError(Exception):
    """The error of the scripted world, unless the integration under test provides its own.

    Args:
        message: The message.
        status: An attribute that must come back on replay.
    """

    def __init__(self, message: str, status: int = 503) -> None:
        super().__init__(message)
        self.status = status


def numbered(question: str, number: int) -> str:
    """Answer with the number of the call, so that an equal answer was replayed."""
    return f"answer {number} to {question}"


class World:
    """The world outside: it answers text with text, in four shapes, and counts how often it is really reached.

    Let the taped client call the one of `ask`, `aask`, `stream` and `astream` that fits. Thread-safe.

    Args:
        says: Makes the answer to a question and the number of the call, from 1. Calls in branches are numbered by
            branch, so that their order of arrival doesn't matter.
    """

    def __init__(self, says: Callable[[str, int], str] = numbered) -> None:
        self.questions: list[str] = []
        """The questions that really reached it, in the order of arrival."""
        self.answers: list[str] = []
        """Its answers, in the same order."""
        self.trespasses: list[str] = []
        """The questions that reached it although it was gone."""
        self.gone = False
        """Set to switch it off: each call then raises `AssertionError`."""
        self.fails: Exception | None = None
        """An error that each call raises immediately."""
        self.breaks: Exception | None = None
        """An error that each stream raises after its first chunk."""
        self.hangs = False
        """Set to let asynchronous calls never answer."""
        self.arrived: Future[None] = Future()
        """Done when the first call has arrived."""
        self.open_streams = 0
        """The number of streams that were begun, and neither read to their end nor closed."""
        self._says = says
        self._lock = Lock()

    def ask(self, question: str) -> str:
        """Return the answer."""
        answer = self._reach(question)
        if (branch := current_branch()) is not None:
            branch.hold()
        return answer

    async def aask(self, question: str) -> str:
        """Return the answer, asynchronously."""
        answer = self._reach(question)
        await self._ahold()
        return answer

    def stream(self, question: str) -> Iterator[str]:
        """Yield the answer in several chunks."""
        answer = self.ask(question)
        with self._streaming():
            for number, piece in enumerate(_pieces(answer)):
                self._break(number)
                yield piece

    async def astream(self, question: str) -> AsyncIterator[str]:
        """Yield the answer in several chunks, asynchronously."""
        answer = await self.aask(question)
        with self._streaming():
            for number, piece in enumerate(_pieces(answer)):
                self._break(number)
                yield piece

    def _reach(self, question: str) -> str:
        with self._lock:
            if self.gone:
                self.trespasses.append(question)
                raise AssertionError(f"the real thing was asked {question!r} although it is switched off")
            self.questions.append(question)
            branch = current_branch()
            answer = self._says(question, next(branch.numbers) if branch else len(self.questions))
            self.answers.append(answer)
            if len(self.questions) == 1:
                self.arrived.set_result(None)
        if self.fails is not None:
            raise self.fails
        return answer

    async def _ahold(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if (branch := current_branch()) is not None:
            await branch.ahold()

    def _break(self, number: int) -> None:
        if number and self.breaks is not None:
            raise self.breaks

    @contextmanager
    def _streaming(self) -> Iterator[None]:
        self.open_streams += 1
        try:
            yield
        finally:
            self.open_streams -= 1


def gone() -> World:
    """Return a world that is switched off."""
    world = World()
    world.gone = True
    return world


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
