"""Record a graph that crashes, resume it from its saver, replay it, and fork it.

From the root of the repository: `PYTHONPATH=examples python -m trip_desk.demo`. It writes to a temporary folder only,
needs no key and no network, and exits with 1 if anything is not as expected.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agenttape_core import use_cassette
from agenttape_langgraph import Fork, TapeSaver, replay_thread, steps_of, tape, time_travel
from weather_agent.policy import Reply
from weather_agent.server import OpenAILoopback

from .desk import Ferry, build_desk

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

THREAD: RunnableConfig = {"configurable": {"thread_id": "trip-1"}}


class Story:
    """Tells the story of the demonstration, step by step.

    Args:
        folder: The folder of the cassettes, the checkpoints and the ledger.
    """

    def __init__(self, folder: Path) -> None:
        self.cassette = folder / "trip.yaml"
        self.checkpoints = folder / "trip.sqlite"
        self.ledger = folder / "ledger.txt"
        self.server = OpenAILoopback(lambda turn: Reply(f"Sentence {turn.number}."))
        self.ferry = Ferry(self.ledger)
        self.failed: list[str] = []
        self.booked = 0

    def desk(self, saver: TapeSaver | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph, as a process that has just started makes it."""
        return tape(build_desk(self.server.base_url, self.ferry)).compile(checkpointer=saver)

    def tell(self) -> bool:
        """Tell the whole story; return true if everything was as expected."""
        with self.server:
            self.record()
            self.replay()
            self.fork()
        print(f"\nFAILED: {', '.join(self.failed)}" if self.failed else "\nALL AS IT SHOULD BE.")
        return not self.failed

    def record(self) -> None:
        """Record a run that crashes in the middle, goes on from its saver, and asks a human."""
        say(1, "RECORD", "the booking service is down, and the graph crashes in its second node")
        with use_cassette(self.cassette, mode="record"):
            with TapeSaver(self.checkpoints) as saver:
                try:
                    self.desk(saver).invoke({"wish": "an island", "notes": []}, THREAD)
                except ConnectionError as error:
                    print(f"    crashed: {error}")
            say(2, "RESUME", "another process, the same file of checkpoints: the plan is not made again")
            calls = self.server.calls
            with TapeSaver(self.checkpoints) as saver:
                waiting = self.desk(saver).invoke(None, THREAD)
                self.check("model calls to resume", self.server.calls - calls, expected=0)
                print(f"    the graph asks: {waiting['__interrupt__'][0].value}")
                self.done = self.desk(saver).invoke(Command(resume="yes"), THREAD)
        print(indent("\n".join(self.done["notes"]), "      "))
        self.booked = self.seats()  # two: LangGraph ran the node again when it was resumed

    def replay(self) -> None:
        """List what was recorded, and run it again for nothing."""
        say(3, "REPLAY", "the same run, crash and human answer included")
        print(indent("\n".join(map(str, steps_of(self.cassette))), "    "))
        calls = self.server.calls
        replayed = replay_thread(self.cassette, self.desk())
        self.check("model calls", self.server.calls - calls, expected=0)
        self.check("seats booked", self.seats() - self.booked, expected=0)
        self.check("the same notes", replayed.values["notes"] == self.done["notes"], expected=True)

    def fork(self) -> None:
        """Fork the recorded run in three ways."""
        plan = next(step for step in steps_of(self.cassette) if step.nodes == ("plan",))
        say(4, "WHAT IF the human had said no?", "time_travel(..., resume='no')")
        self.show(time_travel(self.cassette, self.desk(), step=self.asking(), resume="no"), live=1)
        say(5, "WHAT IF the model had planned something else?", "time_travel(..., answers={1: ...})")
        self.show(time_travel(self.cassette, self.desk(), answers={1: "Swim there."}), live=1)
        say(6, "WHAT IF the state had been different?", f"time_travel(..., step={plan.number}, state_update=...)")
        edited = {"notes": ["A friend comes along."]}
        self.show(time_travel(self.cassette, self.desk(), step=plan, state_update=edited), live=1, diff=True)

    def asking(self) -> int:
        """The number of the step that asks the human."""
        return next(step.number for step in steps_of(self.cassette) if step.interrupts)

    def show(self, fork: Fork, *, live: int, diff: bool = False) -> None:
        """Show a fork, and check what it cost."""
        print(indent(str(fork).replace(f"{self.cassette.parent}{os.sep}", ""), "    "))
        if diff:
            print(indent(str(fork.diff).replace(f"{self.cassette.parent}{os.sep}", ""), "    | "))
        self.check("calls that were executed", len(fork.live), expected=live)
        self.check("seats booked", self.seats() - self.booked, expected=0)

    def seats(self) -> int:
        """The number of seats that were really booked."""
        return len(self.ledger.read_text("utf-8").splitlines())

    def check(self, label: str, value: object, *, expected: object) -> None:
        """Print a fact and remember when it is not as expected."""
        print(f"    {label:<48}{value!s:>8}   {'ok' if value == expected else 'WRONG'}")
        if value != expected:
            self.failed.append(label)


def say(number: int, title: str, remark: str) -> None:
    """Print the heading of a step."""
    print(f"\n[{number}] {title}   {remark}")


def main() -> int:
    """Run the demonstration; the exit code."""
    for variable in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        del os.environ[variable]  # the story is the same whatever mode its reader has set
    with TemporaryDirectory(prefix="agenttape-trip-") as folder:
        return 0 if Story(Path(folder)).tell() else 1


if __name__ == "__main__":
    sys.exit(main())
