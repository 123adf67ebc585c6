"""The whole story of AgentTape in one run: record, take the service away, replay, compare, miss.

From the root of the repository: `make demo`. It writes to a temporary folder only, needs no key and no network,
and exits with 1 when one of its proofs fails.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent, shorten
from typing import TYPE_CHECKING, Any

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError

from .agent import build_agent
from .evidence import ConnectionCounter, Run, ask, perform
from .server import OpenAILoopback

if TYPE_CHECKING:
    from .evidence import Agent

PROMPT = "What is the weather in Paris? I pay in EUR and want a postcard."
EDITED = PROMPT.replace("Paris", "Oslo")
MODEL_DELAY_S = 0.005
WIDTH = 110

INTRODUCTION = f"""\
AgentTape: record an agent's run once, replay it offline, identically
======================================================================

The agent is an ordinary one: LangChain's create_agent, ChatOpenAI, and three tools.
    get_weather      slow: takes 0.8 s
    lookup_rate      broken: always raises, and the agent has to cope
    send_postcard    has a side effect: adds a line to outbox.txt
Its code (agent.py) does not know AgentTape. Its model is a small server on this machine that speaks
OpenAI's protocol and never gives the same answer twice: without a recording, no two runs are equal.

Prompt: {PROMPT}"""
CLOSING = """
ALL PROOFS HOLD. The replay ran the agent's own code; models, tools and network were never reached.
Next: README.md shows how one line does this for a test of yours."""
HINT = """\
    In a test of yours the command is your test's, and re-records it:
    AGENTTAPE_MODE=record pytest tests/test_trip.py"""


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
        print(f"\nFAILED: {', '.join(self.failed)}" if self.failed else CLOSING)
        return not self.failed

    def record(self) -> Run:
        """Run the agent against the live service, with the recorder on."""
        step(1, "RECORD", 'with use_cassette("weather", mode="once"): agent.invoke(...)')
        with use_cassette("weather", mode="once", cassette_dir=self.cassettes) as cassette:
            run = perform(self.agent, PROMPT)
        print("    The prompt is sent three times, in the three ways of calling an agent. The answers:")
        for way, answer in run.answers.items():
            print(f"      {way:<16}{shorten(answer, WIDTH - 22, placeholder=' ...')}")
        calls, lines = self.server.calls, len(self.sent())
        executed = Counter(call_record.kind for call_record in cassette.report.recorded)
        self.check("model calls that the server answered", calls, calls > 0)
        self.check("postcards sent (lines in outbox.txt)", lines, lines == len(run.answers))
        recorded = f"{executed['chat']} + {executed['tool']}"
        self.check("model + tool calls on the cassette", recorded, executed["chat"] == calls and executed["tool"] > 0)
        fact("time", f"{run.seconds:.2f} s")
        self.show(Path(cassette.path))
        return run

    def show(self, path: Path) -> None:
        """Show two interactions of the cassette: a tool's, and what is new in the request of the model after it."""
        text = path.read_text("utf-8")
        size = path.stat().st_size / 1000
        step(2, "THE CASSETTE", f"cassettes/{path.name}: {size:.0f} kB of YAML, to be read in reviews and kept in git")
        _, _, tool, model, *_ = (part for part in text.split("\n---\n") if not part.startswith("step: "))
        print(indent(f"---\n{tool}", "    | "))
        request, _, _ = model.partition("\noutcome:")
        print(indent(f"---\n{request}", "    | "))
        print("    | outcome: ...")
        print("    A request that continues an earlier one is kept as what is new in it. Secrets are never kept.")

    def replay(self) -> Run:
        """Run the same code with the service gone; the cassette answers."""
        step(3, "REPLAY", 'with use_cassette("weather"): agent.invoke(...)')
        print("    The server is shut down and the network is guarded. Same code, same prompt, three ways again.")
        calls, connections, lines = self.server.calls, self.connections.count, self.sent()
        with use_cassette("weather", cassette_dir=self.cassettes) as cassette:
            run = perform(self.agent, PROMPT)
        report = cassette.report
        self.check("live model calls", self.server.calls - calls, self.server.calls == calls)
        self.check("sockets connected", self.connections.count - connections, self.connections.count == connections)
        self.check("postcards sent (outbox.txt is untouched)", len(self.sent()) - len(lines), self.sent() == lines)
        self.check("model and tool calls executed", len(report.recorded), not report.recorded)
        self.check("model and tool calls replayed from the cassette", len(report.replayed), bool(report.replayed))
        self.check("recorded calls never asked for", len(report.unused), not report.unused)
        fact("time", f"{run.seconds:.2f} s")
        return run

    def compare(self, recorded: Run, replayed: Run) -> None:
        """Prove that both runs are equal in all that a caller can see."""
        step(4, "PROOF", "what the caller saw, recorded / replayed")
        for label, name in (
            ("messages of invoke(), with their ids", "messages"),
            ("chunks of stream(), with their ids", "chunks"),
            ("events of astream_events(), in order", "events"),
            ("answers, word for word", "answers"),
        ):
            left, right = getattr(recorded, name), getattr(replayed, name)
            self.check(label, f"{len(left)} / {len(right)}", left == right)
            if left != right:
                print(indent(first_difference(left, right), " " * 6))
        faster = f"{recorded.seconds / replayed.seconds:.0f} times as fast"
        fact("time", f"{recorded.seconds:.2f} s / {replayed.seconds:.2f} s", faster)

    def miss(self) -> None:
        """Edit one word of the prompt: the cassette cannot know the answer, and says so."""
        step(5, "EDIT THE PROMPT", "Paris becomes Oslo, which nobody recorded: the run stops at once, and says why")
        missed = ""
        try:
            with use_cassette("weather", cassette_dir=self.cassettes):
                ask(self.agent, EDITED)
        except CassetteMissError as error:
            missed = str(error).replace(str(self.cassettes.parent) + os.sep, "")
        print(indent(missed or "(no miss)", "    | ", lambda _: True))
        print(HINT)
        named = all(part in missed for part in ("call 1", "in Paris?", "in Oslo?", "AGENTTAPE_MODE="))
        self.check("recording, words and command are named", "yes" if named else "no", named)

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
    print(f"    {label:<48}{value!s:>16}   {verdict}".rstrip())


def first_difference(left: Any, right: Any, place: str = "") -> str:
    """The first difference between two runs."""
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
    for variable in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        del os.environ[variable]  # the story is the same whatever mode its reader has set
    try:
        with TemporaryDirectory(prefix="agenttape-demo-") as folder:
            return 0 if Story(Path(folder)).tell() else 1
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is left behind.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
