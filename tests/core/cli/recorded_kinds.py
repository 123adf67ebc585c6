"""Record one small run with each framework: the command's tests look at what real sessions write.

`python -m tests.core.cli.recorded_kinds FOLDER KIND...` records `FOLDER/KIND.yaml`, and keeps its journal as it was at
the end of the run, as `FOLDER/KIND.journal`. It is a process of its own, so that no test of the command waits for the
import of a framework that it does not need, nor meets its patches.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from agenttape_core import boundary, use_cassette

QUESTION = "How warm is it in Paris?"
_ROOT = Path(__file__).resolve().parents[3]
_PATIENCE = 60
"""Seconds; it takes two, and a machine that is busy some more."""


def temperature(city: str) -> str:
    """Tell the temperature of a city."""
    return f"18 degrees in {city}"


def functions() -> None:
    """Run a tool, a generator, and a call that raises."""

    @boundary("retrieval")
    def cities(country: str) -> list[str]:
        return {"France": ["Paris", "Lyon"]}[country]

    @boundary("call")
    def spoken(text: str) -> Iterator[str]:
        yield from text.split()

    look_up = boundary("tool")(temperature)
    found = [look_up(city) for city in cities("France")]
    assert list(spoken(found[0])) == ["18", "degrees", "in", "Paris"]
    with suppress(KeyError):
        cities("Atlantis")


def langchain() -> None:
    """Run an agent that streams, calls a tool, and answers."""
    from langchain.agents import create_agent

    from ...langchain.fakes import StreamingChat, World, calling, numbered

    def reply(messages: Sequence[Any], number: int) -> Any:
        if number == 1:
            return calling(("temperature", {"city": "Paris"}), number=number)
        return numbered(messages, number)

    model = StreamingChat(world=World(), reply=reply, model_name="gpt-5-mini")
    agent = create_agent(model, [temperature], system_prompt="Be brief.")
    parts = list(agent.stream({"messages": [("user", QUESTION)]}, stream_mode="messages"))
    assert len(parts) > 1


def langgraph() -> None:
    """Run a graph with a checkpointer, whose first two nodes ask at the same time."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph

    from ...langgraph.fakes import StreamingChat, World, numbered
    from ...langgraph.patterns import FOUND, Found, asking

    both = threading.Barrier(2)

    def reply(messages: Sequence[Any], number: int) -> Any:
        both.wait(_PATIENCE / 2)
        return numbered(messages, number)

    world, model = World(), StreamingChat(world=World(), reply=reply)

    def left(state: Found) -> Any:
        return {"found": [model.invoke("left").text]}

    def right(state: Found) -> Any:
        return {"found": [model.invoke("right").text]}

    builder = StateGraph(Found).add_node("left", left).add_node("right", right).add_node("join", asking(world, "join"))
    builder.add_edge(START, "left").add_edge(START, "right").add_edge(["left", "right"], "join")
    graph = builder.compile(checkpointer=InMemorySaver())
    done = graph.invoke(FOUND, {"configurable": {"thread_id": "1"}})
    assert len(done["found"]) == 3


def llamaindex() -> None:
    """Run an agent, which is a workflow, with a tool."""
    from llama_index.core.agent.workflow import FunctionAgent

    from ...llamaindex.scripted import Reply, ScriptedLLM, World

    def script(messages: Sequence[Any], tools: Sequence[str]) -> Reply:
        said = [message.content for message in messages if message.role == "tool"]
        return f"It is {said[-1]}." if said else [("temperature", {"city": "Paris"})]

    async def run() -> str:
        agent = FunctionAgent(llm=ScriptedLLM(World(), script), tools=[temperature], system_prompt="Be brief.")
        return str(await agent.run(QUESTION))

    assert "18 degrees" in asyncio.run(run())


KINDS: dict[str, Callable[[], None]] = {
    "functions": functions,
    "langchain": langchain,
    "langgraph": langgraph,
    "llamaindex": llamaindex,
}


def record(path: Path, run: Callable[[], None]) -> None:
    """Record a run, and keep the journal that a process would have left that died at its end."""
    with use_cassette(path, mode="all"):
        run()
        (journal,) = path.parent.glob(f".{path.name}.*.journal")
        shutil.copy(journal, path.with_suffix(".journal"))


def record_kinds(folder: Path) -> dict[str, Path]:
    """Record a cassette of each kind, unless another process of the tests did it or is at it.

    Args:
        folder: Where all processes of one run of the tests look.

    Returns:
        The cassettes by their kind, not to be written to.

    Raises:
        AssertionError: If they could not be recorded; nobody tries a second time.
    """
    import fcntl

    folder.mkdir(exist_ok=True)
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            done.write_text(_record_in_processes(folder), "utf-8")
    problem = done.read_text("utf-8")
    assert not problem, f"the cassettes could not be recorded\n{problem}"
    return {kind: folder / f"{kind}.yaml" for kind in KINDS}


def _record_in_processes(folder: Path) -> str:
    """Record in two processes at once: one imports LangChain and LangGraph, one LlamaIndex. Returns what went wrong."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTTAPE_")}
    problems = []
    with ExitStack() as stack:
        running = []
        for kinds in (("functions", "langchain", "langgraph"), ("llamaindex",)):
            command = [sys.executable, "-m", "tests.core.cli.recorded_kinds", str(folder), *kinds]
            log = stack.enter_context((folder / f"{kinds[-1]}.log").open("w+"))
            process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)  # which comes first, and does nothing to one that has ended
            running.append((process, log))
        for process, log in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
            if process.returncode != 0:
                log.seek(0)
                problems.append(f"ended with {process.returncode}\n{log.read()}")
    return "\n".join(problems)


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        record(Path(sys.argv[1]) / f"{wanted}.yaml", KINDS[wanted])
