"""LangGraph's replayed nodes, tasks and taped stores conform."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypedDict

from langchain_core.runnables import RunnableLambda
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.store.base import Item
from langgraph.store.memory import InMemoryStore

from agenttape_core.testing import IntegrationConformance, World
from agenttape_langgraph import tape

THEN = datetime(2020, 1, 1, tzinfo=UTC)


class Asked(TypedDict, total=False):
    """What is asked, and the answer."""

    question: str
    answer: str


class LangGraphConformance(IntegrationConformance):
    """What these share: they are called in two ways; an automatic session serves none of them as a whole."""

    shapes = ("call", "acall")

    def tape(self, original: Any) -> Any:
        return tape(original)

    def call(self, subject: Any, question: Any) -> Any:
        return subject.invoke(question)

    async def acall(self, subject: Any, question: Any) -> Any:
        return await subject.ainvoke(question)


class TestNode(LangGraphConformance):
    """A graph conforms whose node is replayed as a whole."""

    def make(self, world: World) -> Any:
        def ask(state: Asked) -> Asked:
            return {"answer": world.ask(state["question"])}

        async def aask(state: Asked) -> Asked:
            return {"answer": await world.aask(state["question"])}

        return StateGraph(Asked).add_node("ask", RunnableLambda(ask, aask)).add_edge(START, "ask").compile()

    def tape(self, original: Any) -> Any:
        return tape(original, replay_nodes=True)

    def question(self, text: str) -> Any:
        return {"question": text}

    def text(self, answer: Any) -> str:
        return str(answer["answer"])

    def change(self, answer: Any) -> None:
        answer["answer"] = "changed"


class Tasks:
    """A task, plain and as a coroutine, as entrypoints call it."""

    def __init__(self, ask: Any, aask: Any) -> None:
        self.tasks = (ask, aask)

        @entrypoint()
        def flow(text: str) -> Any:
            return ask(text).result()

        @entrypoint()
        async def aflow(text: str) -> Any:
            return await aask(text)

        self.invoke, self.ainvoke = flow.invoke, aflow.ainvoke


class TestTask(LangGraphConformance):
    """A taped task conforms."""

    def make(self, world: World) -> Tasks:
        @task
        def ask(text: str) -> dict[str, str]:
            return {"answer": world.ask(text)}

        @task
        async def aask(text: str) -> dict[str, str]:
            return {"answer": await world.aask(text)}

        return Tasks(ask, aask)

    def tape(self, original: Tasks) -> Tasks:
        return Tasks(*map(tape, original.tasks))

    def text(self, answer: Any) -> str:
        return str(answer["answer"])

    def change(self, answer: Any) -> None:
        answer["answer"] = "changed"


class WorldStore(InMemoryStore):
    """A store whose items come from the world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        return [_item(op.key, self.world.ask(op.key)) for op in ops]

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return [_item(op.key, await self.world.aask(op.key)) for op in ops]


def _item(key: str, text: str) -> Item:
    return Item(value={"text": text}, key=key, namespace=("notes",), created_at=THEN, updated_at=THEN)


class TestStore(LangGraphConformance):
    """A taped store conforms."""

    def make(self, world: World) -> WorldStore:
        return WorldStore(world)

    def call(self, subject: Any, question: Any) -> Any:
        return subject.get(("notes",), question)

    async def acall(self, subject: Any, question: Any) -> Any:
        return await subject.aget(("notes",), question)

    def text(self, answer: Any) -> str:
        return str(answer.value["text"])

    def change(self, answer: Any) -> None:
        answer.value["text"] = "changed"
