"""The whole story of AgentTape in one run: record, take the service away, replay, compare, miss.

From the root of the repository: `make demo`. It writes to a temporary folder only, needs no key and no network,
and exits with 1 when one of its proofs fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent, shorten
from typing import TYPE_CHECKING, Any

from agenttape_core import CassetteMissError, use_cassette

from .agent import build_agent
from .evidence import ConnectionCounter, Run, ask, perform
from .server import OpenAILoopback

if TYPE_CHECKING:
    from .evidence import Agent

PROMPT = "What is the weather in Paris? I pay in EUR and want a postcard."
EDITED = PROMPT.replace("Paris", "Oslo")
MODEL_DELAY_S = 0.005
EXCERPT_LINES = 22
WIDTH = 110

INTRODUCTION = f"""\
AgentTape: record an agent's run once, replay it offline, identically
======================================================================

An ordinary LangChain agent: create_agent, ChatOpenAI, and three tools.
    get_weather      slow: takes 0.8 s
    lookup_rate      broken: always raises, and the agent has to cope
    send_postcard    has a side effect: adds a line to outbox.txt
Its model service is a small server on this machine. It never gives the same answer twice.
The prompt:  {PROMPT}
"""


class Story:
    """Prints the demonstration and does what it says, step by step.

    Args:
        folder: Where the cassette and the outbox go.
    """

    def __init__(self, folder: Path) -> None:
        self.cassettes = folder / "cassettes"
        self.outbox = folder / "outbox.txt"
        self.connections = ConnectionCounter()
        self.server = OpenAILoopback(delay_s=MODEL_DELAY_S)
        self.agent: Agent = build_agent(self.server.base_url, self.outbox)
        self.failed: list[str] = []

    def tell(self) -> bool:
        """Tell all of it; whether every proof held."""
        print(INTRODUCTION)
        with self.server:
            recorded = self.record()
        replayed = self.replay()
        self.compare(recorded, replayed)
        self.miss()
        if self.failed:
            print("FAILED:", ", ".join(self.failed))
        else:
            print("ALL PROOFS HOLD. The replay ran the agent's real code, and nothing outside it was touched.")
        return not self.failed

    def record(self) -> Run:
        """Run the agent against the live service, with the recorder on."""
        step(1, "RECORD", 'with use_cassette("weather", mode="once"): ...')
        with use_cassette("weather", mode="once", cassette_dir=self.cassettes) as cassette:
            run = perform(self.agent, PROMPT)
        print("    The same question, asked in three ways; three different answers:")
        for way, answer in run.answers.items():
            print(f"      {way:<16}{shorten(answer, WIDTH - 22)}")
        calls, lines = self.server.calls, len(self.sent())
        self.check("calls that the model service answered", calls, calls > 0)
        self.check("postcards sent, lines in outbox.txt", lines, lines == len(run.answers))
        self.check(
            "model and tool calls on the cassette", len(cassette.report.executed), bool(cassette.report.executed)
        )
        fact("time", f"{run.seconds:.2f} s")
        self.show(Path(cassette.path))
        return run

    def show(self, path: Path) -> None:
        """Show the beginning of the cassette."""
        lines = path.read_text("utf-8").splitlines()
        size = path.stat().st_size / 1000
        step(
            2,
            "THE CASSETTE",
            f"cassettes/{path.name}, {size:.1f} kB, {len(lines)} lines: made for git and for reviewers",
        )
        for line in lines[:EXCERPT_LINES]:
            print("    |", line[: WIDTH - 6])
        print("    | ...")

    def replay(self) -> Run:
        """Run the same code with the service gone; the cassette answers."""
        step(3, "REPLAY", 'with use_cassette("weather"): ...')
        print("    The model service is shut down and the network is guarded. Same code, same question.")
        calls, connections, lines = self.server.calls, self.connections.count, self.sent()
        with use_cassette("weather", cassette_dir=self.cassettes) as cassette:
            run = perform(self.agent, PROMPT)
        report = cassette.report
        self.check("live model calls", self.server.calls - calls, self.server.calls == calls)
        self.check("sockets connected", self.connections.count - connections, self.connections.count == connections)
        self.check("postcards sent (outbox.txt is untouched)", len(self.sent()) - len(lines), self.sent() == lines)
        self.check("model and tool calls that ran for real", len(report.executed), not report.executed)
        self.check("served from the cassette", len(report.served), bool(report.served))
        self.check("on the cassette but never asked for", len(report.unused), not report.unused)
        fact("time", f"{run.seconds:.2f} s")
        return run

    def compare(self, recorded: Run, replayed: Run) -> None:
        """Prove that both runs are equal in all that a caller can see."""
        step(4, "PROOF", "the recorded run against the replayed one")
        for label, name in (
            ("messages of invoke(), with their ids", "messages"),
            ("chunks of stream(), with their ids", "chunks"),
            ("events of astream_events(), in order", "events"),
            ("the three different answers", "answers"),
        ):
            left, right = getattr(recorded, name), getattr(replayed, name)
            self.check(label, f"{len(left)} / {len(right)}", left == right)
            if left != right:
                print(indent(first_difference(left, right), " " * 6))
        times = f"{recorded.seconds:.2f} s -> {replayed.seconds:.2f} s"
        fact("time", f"{times} ({recorded.seconds / replayed.seconds:.0f} times as fast)")

    def miss(self) -> None:
        """Edit one word of the prompt: the cassette can not know the answer, and says so."""
        step(5, "EDIT THE PROMPT", "Paris becomes Oslo; nobody recorded that")
        missed = ""
        try:
            with use_cassette("weather", cassette_dir=self.cassettes):
                ask(self.agent, EDITED)
        except CassetteMissError as error:
            missed = str(error)
        print(indent(missed or "(no miss)", "    | "))
        self.check("the run stopped, and the message names the word", "Oslo", "Oslo" in missed and "Paris" in missed)
        print()

    def check(self, label: str, value: object, ok: bool) -> None:
        """Print a proof and remember when it does not hold."""
        fact(label, value, "ok" if ok else "WRONG")
        if not ok:
            self.failed.append(label)

    def sent(self) -> list[str]:
        """The lines of the outbox."""
        return self.outbox.read_text("utf-8").splitlines() if self.outbox.exists() else []


def step(number: int, title: str, remark: str) -> None:
    """Print the heading of a step."""
    print(f"\n[{number}] {title}   {remark}")


def fact(label: str, value: object, verdict: str = "") -> None:
    """Print a fact in aligned columns."""
    print(f"    {label:<48}{value!s:>12}   {verdict}".rstrip())


def first_difference(left: Any, right: Any, place: str = "") -> str:
    """Where two runs begin to differ, and how."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        key = next(key for key in left if left[key] != right[key])
        return first_difference(left[key], right[key], f"{place}.{key}")
    if isinstance(left, list) and isinstance(right, list):
        pairs = enumerate(zip(left, right, strict=False))
        for i, (a, b) in pairs:
            if a != b:
                return first_difference(a, b, f"{place}[{i}]")
    return f"first difference at {place or 'the top'}\n  recorded: {left!r:.300}\n  replayed: {right!r:.300}"


def main() -> int:
    """Run the demonstration; the exit code."""
    with TemporaryDirectory(prefix="agenttape-demo-") as folder:
        return 0 if Story(Path(folder)).tell() else 1


if __name__ == "__main__":
    sys.exit(main())
