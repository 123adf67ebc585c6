"""One small program for each framework that is asked about a secret, and repeats it wherever it can.

`python -m tests.core.tools.rewrite.programs MODE KIND...` runs them in the current folder, each with `KIND.yaml`, and
prints what they came to. It is a process of its own, as `tests.core.cli.recorded_kinds` is.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypedDict

from agenttape_core import boundary, use_cassette

SECRET = "Bluebird-" + "Seven9"
"""Nothing but a rule gives it away."""
QUESTION = f"What is {SECRET} about?"


class GoneError(Exception):
    """The world was reached in a replay."""


class _World:
    gone = False

    def reach(self, _: str) -> int:
        if self.gone:
            raise GoneError
        return 1


WORLD = _World()


def functions() -> Any:
    """Ask functions: a value, a stream, an error, and data that is large enough for a file of its own."""

    @boundary("tool")
    def tell(question: str, *, customer_id: str) -> dict[str, Any]:
        WORLD.reach("tell")
        return {"asked": json.dumps({"q": question}), "customerId": customer_id, "data": question.encode() * 1000}

    @boundary("chat")
    def speak(question: str) -> Iterator[str]:
        WORLD.reach("speak")
        for at in range(0, len(question), 4):
            yield question[at : at + 4]

    @boundary("tool")
    def refuse(question: str) -> None:
        WORLD.reach("refuse")
        raise LookupError(question)

    try:
        refuse(QUESTION)
    except LookupError as error:
        refused = str(error)
    told = tell(QUESTION, customer_id="c-4711")
    return [{**told, "data": told["data"].decode()}, "".join(speak(QUESTION)), refused]


def langchain() -> Any:
    """Stream an agent that calls a tool with the secret."""
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage

    from ....langchain.fakes import StreamingChat, calling

    def reply(messages: Sequence[Any], number: int) -> Any:
        if messages[-1].type == "tool":
            return AIMessage(f"It is about {SECRET} , as {messages[-1].text}")
        return calling(("temperature", {"city": SECRET}), number=number)

    def temperature(city: str) -> str:
        """Tell the temperature of a city."""
        WORLD.reach("temperature")
        return f"18 degrees in {city}"

    agent = create_agent(StreamingChat(world=WORLD, reply=reply), [temperature])
    parts = agent.stream({"messages": [("user", QUESTION)]}, stream_mode="messages")
    return [part[0].text for part in parts if part[0].text]


def langgraph() -> Any:
    """Run a graph whose nodes ask a model, the second about what the first heard."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, StateGraph

    from ....langgraph.fakes import StreamingChat

    class State(TypedDict):
        said: Annotated[list[str], operator.add]

    def ask(state: State) -> Any:
        return {"said": [model.invoke(state["said"][-1]).text]}

    def reply(messages: Sequence[Any], number: int) -> Any:
        return AIMessage(f"{messages[-1].text} I see.")

    model = StreamingChat(world=WORLD, reply=reply)
    builder = StateGraph(State).add_node("first", ask).add_node("second", ask)
    graph = builder.add_edge(START, "first").add_edge("first", "second").compile()
    return graph.invoke({"said": [QUESTION]})


PROGRAMS: dict[str, Callable[[], Any]] = {
    "functions": functions,
    "langchain": langchain,
    "langgraph": langgraph,
}


def main(mode: str, kinds: Sequence[str]) -> None:
    """Run the programs of these kinds in a mode, and print what they came to."""
    WORLD.gone = mode == "none"
    came_to = {}
    for kind in kinds:
        with use_cassette(f"{kind}.yaml", mode=mode):
            came_to[kind] = PROGRAMS[kind]()
    sys.stdout.write(json.dumps(came_to))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
