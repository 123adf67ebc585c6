"""What a call does besides returning is recorded in order, and done again when the call is replayed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import (
    Boundary,
    SessionCall,
    aintercept,
    aintercept_stream,
    current_session,
    executing,
    intercept,
    intercept_stream,
)

CHAT = Boundary("chat", join="".join, split=lambda text: text.split(" "))


class Board:
    """Something of the program's own that calls write on while they answer."""

    def __init__(self, *, is_async: bool, is_stream: bool) -> None:
        self.is_async = is_async
        self.is_stream = is_stream
        self.written: list[Any] = []

    def write(self, what: Any) -> None:
        """Write, as a real call does it: the call is told."""
        session_call = executing()
        assert session_call is not None
        session_call.effected(what)
        self.written.append(what)

    async def _awrite_again(self, what: Any) -> None:
        await asyncio.sleep(0)
        self.written.append(what)

    def call(self, pieces: Callable[[Board], Iterator[str]], *, stream: bool | None = None, **body: Any) -> Any:
        """Make a call of the kind of this board, and note what arrives among what is written."""
        if self.is_async:
            return asyncio.run(self._acall(pieces, stream, body))
        session_call = _cross(body)
        if self.is_stream if stream is None else stream:
            self._note(intercept_stream(session_call, lambda: pieces(self), self.written.append))
            return None
        return intercept(session_call, lambda: "".join(pieces(self)), self.written.append)

    def _note(self, chunks: Iterator[str]) -> None:
        for chunk in chunks:
            self.written.append(f"<{chunk}>")

    async def _acall(self, pieces: Callable[[Board], Iterator[str]], stream: bool | None, body: Any) -> Any:
        async def astream() -> AsyncIterator[str]:
            for piece in pieces(self):
                yield piece

        async def answer() -> str:
            return "".join(pieces(self))

        session_call = _cross(body)
        if self.is_stream if stream is None else stream:
            async for chunk in aintercept_stream(session_call, astream, self._awrite_again):
                self.written.append(f"<{chunk}>")
            return None
        return await aintercept(session_call, answer, self._awrite_again)


def _cross(body: dict[str, Any]) -> SessionCall:
    session = current_session()
    assert session is not None
    return session.cross(CHAT, "board", body)


def _answer(board: Board) -> Iterator[str]:
    board.write({"to": "custom", "what": ("a", 1)})
    yield "one "
    board.write("second")
    board.write("third")
    yield "two"
    board.write("last")


def _broken(board: Board) -> Iterator[str]:
    yield from _answer(board)
    raise KeyError("gone")


shapes = pytest.mark.parametrize(
    ("is_async", "is_stream"), [(a, s) for a in (False, True) for s in (False, True)], ids=str
)


@shapes
@pytest.mark.parametrize("pieces", [_answer, _broken])
def test_effects_are_done_again_in_order(is_async: bool, is_stream: bool, pieces: Any) -> None:
    """A replayed call does again what the real one did, at the same places between its chunks, however it ended."""
    seen = []
    for mode in ("once", "none"):
        board = Board(is_async=is_async, is_stream=is_stream)
        with use_cassette("effects", mode=mode):
            try:
                answer = board.call(pieces)
            except KeyError as error:
                answer = repr(error)
        seen.append((answer, board.written))
    assert seen[1] == seen[0]
    assert {"to": "custom", "what": ("a", 1)} in seen[0][1]


@shapes
def test_effects_survive_a_change_of_shape(is_async: bool, is_stream: bool) -> None:
    """All effects of a recorded stream happen before the plain answer it serves; those of a plain one before chunks."""
    with use_cassette("effects", mode="once"):
        Board(is_async=is_async, is_stream=is_stream).call(_answer)
    board = Board(is_async=not is_async, is_stream=is_stream)
    with use_cassette("effects"):
        board.call(_answer, stream=not is_stream)
    effects = [{"to": "custom", "what": ("a", 1)}, "second", "third", "last"]
    assert [item for item in board.written if not str(item).startswith("<")] == effects


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
def test_effects_are_stored_only_where_there_are_some(suffix: str) -> None:
    """A record without effects has no word of them, and its file stays of version 1; one with them needs version 2."""
    plain, told = f"cassettes/plain{suffix}", f"cassettes/told{suffix}"
    with use_cassette(plain, mode="once"):
        Board(is_async=False, is_stream=False).call(lambda _: iter(["x"]))
    with use_cassette(told, mode="once"):
        Board(is_async=False, is_stream=True).call(_answer)
    texts = [Path(path).read_text() for path in (plain, told)]
    assert ["effects" in text for text in texts] == [False, True]
    assert [re.search(r"agenttape\W+(\d)", text)[1] for text in texts] == ["1", "2"]
    (interaction,) = open_cassette(told).interactions()
    assert [(effect.after, effect.value) for effect in interaction.outcome.effects] == [
        (0, {"to": "custom", "what": {"$tuple": ["a", 1]}}),
        (1, "second"),
        (1, "third"),
        (2, "last"),
    ]


def test_an_effect_is_recorded_as_it_was_when_it_happened() -> None:
    """What the program does later to a value that it wrote does not change the recording."""

    def pieces(board: Board) -> Iterator[str]:
        value = ["first"]
        board.write(value)
        value.append("later")
        yield "x"

    with use_cassette("effects", mode="once"):
        Board(is_async=False, is_stream=False).call(pieces)
    board = Board(is_async=False, is_stream=False)
    with use_cassette("effects"):
        board.call(pieces)
    assert board.written == [["first"]]


def test_effects_are_redacted_and_brought_back_to_this_run() -> None:
    """A secret in an effect is a pseudonym in the file, pieces included; live ids and secrets come back on serving."""
    secret = "sk-proj-" + "Zx9" * 9

    def pieces(board: Board, body: dict[str, Any]) -> Iterator[str]:
        board.write(f"of {body['id']} with {body['key']}")
        for half in (body["key"][:15], body["key"][15:]):
            board.write({"token": half})
        yield "x"

    bodies = [{"id": str(uuid4()), "key": secret} for _ in range(2)]
    with use_cassette("effects", mode="once") as cassette:
        Board(is_async=False, is_stream=False).call(lambda board: pieces(board, bodies[0]), **bodies[0])
    text = cassette.path.read_text()
    assert secret not in text
    assert secret[15:] not in text
    board = Board(is_async=False, is_stream=False)
    with use_cassette("effects"):
        board.call(lambda board: pieces(board, bodies[1]), **bodies[1])
    assert board.written[0] == f"of {bodies[1]['id']} with {secret}"
    assert board.written[1]["token"] + board.written[2]["token"] == secret


def test_an_effect_without_a_codec_fails_where_it_happens() -> None:
    """A value that no cassette can hold is refused at once, and the session fails even if the program goes on."""

    def pieces(board: Board) -> Iterator[str]:
        try:
            board.write(object())
        except UnrecordableValueError:
            yield "ate it"

    with pytest.raises(UnrecordableValueError), use_cassette("effects", mode="once"):
        Board(is_async=False, is_stream=False).call(pieces)


def test_what_doing_an_effect_again_raises_takes_the_place_of_the_answer() -> None:
    """An effect that stops the program on replay, as an interrupt does, stops it there."""
    with use_cassette("effects", mode="once"):
        Board(is_async=False, is_stream=False).call(_answer)
    done: list[Any] = []

    def apply(effect: Any) -> None:
        done.append(effect)
        if effect == "second":
            raise InterruptedError

    with use_cassette("effects"), pytest.raises(InterruptedError):
        intercept(_cross({}), lambda: "", apply)
    assert len(done) == 2
