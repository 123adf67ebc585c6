"""`@boundary` and `record_call` conform: functions, and methods in all four shapes."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from agenttape_core import boundary, record_call
from agenttape_core.testing import IntegrationConformance, Shape, World


class FunctionConformance(IntegrationConformance):
    """A function that asks the world, and has a parameter that the suite does not give."""

    def tape(self, original: Any) -> Any:
        return boundary("tool", name="ask")(original)

    def variants(self, world: World) -> Sequence[Any]:
        return [self.tape(functools.partial(self.make(world), tone="loud"))]


class TestFunction(FunctionConformance):
    """A plain function conforms."""

    def make(self, world: World) -> Any:
        def ask(question: str, tone: str = "calm") -> str:
            return world.ask(question)

        return ask


class TestRecordCall(TestFunction):
    """A single call of a plain function conforms."""

    def tape(self, original: Any) -> Any:
        return functools.partial(record_call, "tool", original)


class Teller:
    """What tells a list of parts, in all shapes."""

    def __init__(self, world: World) -> None:
        self.world = world

    def call(self, question: str) -> list[dict[str, str]]:
        return [{"text": self.world.ask(question)}]

    async def acall(self, question: str) -> list[dict[str, str]]:
        return [{"text": await self.world.aask(question)}]

    def stream(self, question: str) -> Iterator[dict[str, str]]:
        for text in self.world.stream(question):
            yield {"text": text}

    async def astream(self, question: str) -> AsyncIterator[dict[str, str]]:
        async for text in self.world.astream(question):
            yield {"text": text}


class TestMethods(IntegrationConformance):
    """Bound methods of four shapes under one name conform, and serve each other."""

    shapes = ("call", "acall", "stream", "astream")

    def make(self, world: World) -> Teller:
        return Teller(world)

    def tape(self, original: Teller) -> SimpleNamespace:
        def taped(shape: Shape) -> Callable[..., Any]:
            return boundary("retrieval", name="tell")(getattr(original, shape))

        return SimpleNamespace(**{shape: taped(shape) for shape in self.shapes})

    def call(self, subject: Any, question: str) -> Any:
        return subject.call(question)

    async def acall(self, subject: Any, question: str) -> Any:
        return await subject.acall(question)

    def stream(self, subject: Any, question: str) -> Any:
        return subject.stream(question)

    def astream(self, subject: Any, question: str) -> Any:
        return subject.astream(question)

    def text(self, answer: Any) -> str:
        return super().text(answer) if isinstance(answer, list) else answer["text"]

    def change(self, answer: Any) -> None:
        if isinstance(answer, list):
            answer.append({"text": "and more"})
        else:
            answer["text"] = "changed"
