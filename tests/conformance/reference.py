"""A correct integration of a tiny client, which `test_broken.py` breaks in one place at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from agenttape_core.integration import (
    Boundary,
    Session,
    SessionCall,
    Usage,
    aintercept,
    aintercept_stream,
    current_session,
    executing,
    intercept,
    intercept_stream,
)
from agenttape_core.testing import IntegrationConformance, Shape, World

METHODS = ("ask", "aask", "stream", "astream")


@dataclass
class Piece:
    """A chunk of an answer."""

    text: str


@dataclass
class Answer:
    """An answer: its id and its length follow from its text."""

    text: str
    id: str
    tokens: int


class Client:
    """A client of a service, in all four shapes; the whole ones are built on the streamed ones."""

    def __init__(self, world: World, temperature: float = 0.5) -> None:
        self.world = world
        self.temperature = temperature

    def ask(self, question: str) -> Answer:
        return joined(list(self.stream(question)))

    async def aask(self, question: str) -> Answer:
        return joined([piece async for piece in self.astream(question)])

    def stream(self, question: str) -> Iterator[Piece]:
        for text in self.world.stream(question):
            yield Piece(text)

    async def astream(self, question: str) -> AsyncIterator[Piece]:
        async for text in self.world.astream(question):
            yield Piece(text)


def joined(pieces: list[Piece]) -> Answer:
    """Make an answer of its chunks."""
    text = "".join(piece.text for piece in pieces)
    return Answer(text, f"answer-{text.split()[1]}", len(text))


CLIENT = Boundary(
    "chat",
    join=joined,
    split=lambda answer: [Piece(answer.text)],
    usage=lambda answer: Usage(output_tokens=answer.tokens),
)


class TapedClient(Client):
    """The client, taped. What tests break is a method of its own."""

    boundary: ClassVar[Boundary] = CLIENT

    def session(self) -> Session | None:
        return current_session()

    def body(self, question: str, shape: Shape) -> dict[str, Any]:
        return {"question": question, "temperature": self.temperature}

    def is_inside_itself(self) -> bool:
        outer = executing()
        return outer is not None and outer.stack.is_inside(self.__dict__)

    def cross(self, question: str, shape: Shape) -> SessionCall | None:
        session = self.session()
        if session is None or self.is_inside_itself():
            return None
        return self.session_call(session, question, shape)

    def session_call(self, session: Session, question: str, shape: Shape, **where: Any) -> SessionCall:
        return session.cross(self.boundary, "Client", self.body(question, shape), owner=self.__dict__, **where)

    def ask(self, question: str) -> Answer:
        session_call = self.cross(question, "call")
        if session_call is None:
            return super().ask(question)
        answer: Answer = intercept(session_call, lambda: super(TapedClient, self).ask(question))
        return answer

    async def aask(self, question: str) -> Answer:
        session_call = self.cross(question, "acall")
        if session_call is None:
            return await super().aask(question)
        answer: Answer = await aintercept(session_call, lambda: super(TapedClient, self).aask(question))
        return answer

    def stream(self, question: str) -> Iterator[Piece]:
        session_call = self.cross(question, "stream")
        if session_call is None:
            yield from super().stream(question)
            return
        yield from intercept_stream(session_call, lambda: super(TapedClient, self).stream(question))

    async def astream(self, question: str) -> AsyncIterator[Piece]:
        session_call = self.cross(question, "astream")
        if session_call is None:
            async for piece in super().astream(question):
                yield piece
            return
        async for piece in aintercept_stream(session_call, lambda: super(TapedClient, self).astream(question)):
            yield piece


def tape(client: Client, taped_class: type[TapedClient] = TapedClient) -> TapedClient:
    """Return a taped client that shares the state of another one."""
    taped = taped_class.__new__(taped_class)
    taped.__dict__ = client.__dict__
    return taped


@contextmanager
def automatic(taped_class: type[TapedClient] = TapedClient) -> Iterator[None]:
    """Tape every client while a session is open."""
    real = {name: vars(Client)[name] for name in METHODS}
    for name, method in real.items():
        setattr(Client, name, redirected(name, method, taped_class))
    try:
        yield
    finally:
        for name, method in real.items():
            setattr(Client, name, method)


def redirected(name: str, real: Callable[..., Any], taped_class: type[TapedClient]) -> Callable[..., Any]:
    """Return a method that hands the call of an untaped client to a taped one."""

    def method(self: Client, question: str) -> Any:
        session = current_session()
        if session is None or not session.auto or isinstance(self, TapedClient):
            return real(self, question)
        return getattr(tape(self, taped_class), name)(question)

    return method


class ClientConformance(IntegrationConformance):
    """How the suite drives the client."""

    shapes = ("call", "acall", "stream", "astream")
    taped: ClassVar[type[TapedClient]] = TapedClient

    def make(self, world: World) -> Client:
        return Client(world)

    def tape(self, original: Client) -> TapedClient:
        return tape(original, self.taped)

    def variants(self, world: World) -> Sequence[Client]:
        return [self.tape(Client(world, temperature=0.7))]

    def call(self, subject: Client, question: str) -> Answer:
        return subject.ask(question)

    async def acall(self, subject: Client, question: str) -> Answer:
        return await subject.aask(question)

    def stream(self, subject: Client, question: str) -> Iterator[Piece]:
        return subject.stream(question)

    def astream(self, subject: Client, question: str) -> AsyncIterator[Piece]:
        return subject.astream(question)

    def text(self, answer: Answer | Piece | list[Piece]) -> str:
        return super().text(answer) if isinstance(answer, list) else answer.text

    def ids(self, answer: Answer) -> Sequence[str]:
        return [answer.id]

    def change(self, answer: Answer | Piece) -> None:
        answer.text = "changed"

    def usage(self, text: str) -> Usage:
        return Usage(output_tokens=len(text))

    def automatic(self) -> AbstractContextManager[None]:
        return automatic(self.taped)

    def patched(self) -> Sequence[Any]:
        return [Client]
