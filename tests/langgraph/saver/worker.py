"""Child processes for the tests of crashes and of many processes."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from agenttape_langgraph import TapeSaver

STEPS = 8


def put_many(saver: TapeSaver, thread_id: str, steps: int, *, say: bool = False) -> None:
    """Store checkpoints and writes, and print the number of each that is stored."""
    words: list[str] = []
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    for step in range(steps):
        words = [*words, f"{thread_id} says word {step} " * 20]
        values = {"words": words, "common": ["everybody has this"] * 50}
        versions = dict.fromkeys(values, step)
        checkpoint = Checkpoint(
            v=4,
            id=f"{step:08}",
            ts="",
            channel_values=values,
            channel_versions=versions,
            versions_seen={},
            updated_channels=None,
        )
        config = saver.put(config, checkpoint, {"step": step}, versions)  # type: ignore[arg-type]
        saver.put_writes(config, [("words", words[-1:]), ("common", values["common"])], "task", "path")
        if say:
            print(step, flush=True)  # noqa: T201


def write_for_ever(path: str, thread_id: str) -> None:
    """Store until killed; delete now and then, so that also deleting is interrupted."""
    saver = TapeSaver(path)
    while True:
        put_many(saver, thread_id, 400, say=True)
        saver.prune([thread_id])


def write_in_children(path: str, _: str) -> None:
    """For each name of a thread that comes in, let a child of this process store until it is killed.

    A child is made by forking, because importing LangGraph anew takes longer than the test itself.
    """
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)  # noqa: T201
            write_for_ever(path, line.strip())
        os.waitpid(child, 0)
        print("gone", flush=True)  # noqa: T201


def write_from_threads(path: str, process: str) -> None:
    """Store from several threads with one saver, encrypted or not, and delete some."""
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if process in "13" else None
    with TapeSaver(path, serde=serde) as saver:
        failed: list[BaseException] = []

        def work(number: int) -> None:
            try:
                put_many(saver, f"{process}-{number}", STEPS)
                put_many(saver, f"{process}-{number}-gone", 5)
                saver.delete_thread(f"{process}-{number}-gone")
                saver.copy_thread(f"{process}-{number}", f"{process}-{number}-copy")
            except BaseException as error:
                failed.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]


def write_from_processes(path: str, processes: str) -> None:
    """Let so many children of this process store from several threads each; made by forking, as above."""
    children = []
    for number in range(int(processes)):
        child = os.fork()
        if child == 0:
            try:
                write_from_threads(path, str(number))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


class Trip(TypedDict):
    steps: Annotated[list[str], lambda old, new: old + new]


def agent(saver: TapeSaver) -> Any:
    """Return a graph that asks a question in the middle."""

    def plan(_: Trip) -> Trip:
        return {"steps": ["planned"]}

    def book(_: Trip) -> Trip:
        return {"steps": [f"booked {interrupt('which hotel?')}"]}

    builder = StateGraph(Trip)
    builder.add_node("plan", plan)
    builder.add_node("book", book)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "book")
    builder.add_edge("book", END)
    return builder.compile(checkpointer=saver)


def resume(path: str, thread_id: str) -> None:
    """Go on with a thread that another process began."""
    with TapeSaver(path) as saver:
        answer = agent(saver).invoke(Command(resume="Ritz"), {"configurable": {"thread_id": thread_id}})
        print(answer["steps"][-1], flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    {"children": write_in_children, "processes": write_from_processes, "resume": resume}[sys.argv[1]](
        sys.argv[2], sys.argv[3]
    )
