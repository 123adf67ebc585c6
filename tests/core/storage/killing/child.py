"""A process that kills recording processes at random moments, and tells what was lost.

Run as `python child.py FOLDER COUNT`; the report is a line of JSON.

Every recording runs in a fork, so that a kill costs milliseconds. It writes the number of each call that has returned
to a pipe. Half of the forks are killed from outside after a random time; the others kill themselves at a random step:
before or after a call of the system that changes files.
"""

from __future__ import annotations

import base64
import collections
import gzip
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteFormatError
from agenttape_core.integration import Boundary, current_session, intercept, intercept_stream
from agenttape_core.storage import Cassette, leftover_journals, open_cassette, recover

CANARY = "sk-proj-" + "C4nary7" * 6
CALLS = 16
DONE = 0
"""What a process tells when the session has ended."""
PICTURE = bytes(n % 251 for n in range(17_000))
STEPS = {
    *("open", "close", "write", "fsync", "ftruncate", "replace", "rename", "unlink"),
    *("mkdir", "rmdir", "chmod", "flock"),
}
CHAT = Boundary("chat", join="".join, split=list)


class Scenario(NamedTuple):
    """A way to record."""

    name: str
    mode: str
    calls: str
    had: bool

    @property
    def old(self) -> range:
        """The calls that were recorded before: those that are replayed, or others."""
        return range(1, 6) if self.mode == "new_episodes" else range(21, 26)


SCENARIOS = [
    Scenario("tape.yaml", "all", "plain", had=True),
    Scenario("tape.jsonl", "new_episodes", "plain", had=True),
    Scenario("tape.yaml", "once", "streams", had=False),
    Scenario("tape.jsonl.gz", "all", "threads", had=True),
    Scenario("tape.yaml", "new_episodes", "threads", had=True),
    Scenario("tape.yaml", "all", "pictures", had=True),
    Scenario("tape.jsonl", "once", "pictures", had=False),
]


def ask(number: int, calls: str) -> Any:
    """Make one call."""
    session = current_session()
    assert session is not None
    said = [{"role": "human", "content": f"question {n}, the key is {CANARY}"} for n in range(number)]
    session_call = session.cross(CHAT, "Model", {"messages": said})
    if calls == "streams":
        return "".join(intercept_stream(session_call, lambda: iter(answer(number, calls))))
    return intercept(session_call, lambda: answer(number, calls))


def answer(number: int, calls: str) -> Any:
    """What the world answers; a picture is that of several calls."""
    if calls == "pictures":
        return {"number": number, "key": CANARY, "picture": PICTURE + bytes([number // 3])}
    return f"answer {number}, the key is {CANARY}"


def record(path: Path, scenario: Scenario, told: Callable[[int], None]) -> None:
    """Record a run, and tell each call that has returned."""
    with use_cassette(path, mode=scenario.mode):
        if scenario.calls != "threads":
            strand(range(1, CALLS + 1), scenario.calls, told)
        else:
            parts = [range(first, CALLS + 1, 3) for first in (1, 2, 3)]
            threads = [threading.Thread(target=strand, args=(part, scenario.calls, told)) for part in parts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    told(DONE)


def strand(numbers: range, calls: str, told: Callable[[int], None]) -> None:
    """Make calls one after the other."""
    for number in numbers:
        ask(number, calls)
        told(number)


class Dying:
    """Kills its own process at a step, counted by calls of the system that change files."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __enter__(self) -> Self:
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _hook(self, frame: object, event: str, function: Any) -> None:
        if event in {"c_call", "c_return"} and function.__name__ in STEPS:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Fork:
    """A recording in a process of its own, and what it tells."""

    def __init__(self, path: Path, scenario: Scenario, *, steps: int = 0) -> None:
        self._read, write = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                with Dying(steps):
                    record(path, scenario, lambda number: tell(write, number))
                os._exit(0)
            except BaseException as error:
                os.write(2, repr(error).encode())
                os._exit(1)
        os.close(write)

    def kill(self) -> None:
        """End it now."""
        os.kill(self.process, signal.SIGKILL)

    def ended(self) -> tuple[int, set[int]]:
        """Wait for its end; its status, and what it told."""
        with os.fdopen(self._read, "rb") as pipe:
            told = {int(line) for line in pipe}
        return os.waitpid(self.process, 0)[1], told


def tell(pipe: int, number: int) -> None:
    """Tell a number."""
    os.write(pipe, b"%d\n" % number)


class Known(NamedTuple):
    """What is known of a scenario: the files before it, and how long it takes."""

    before: Path
    seconds: float
    calls: int
    """The step at which the last call has returned: what comes then is the commit."""
    steps: int


def known(folder: Path, scenario: Scenario) -> Known:
    """Record what there was before, then the run without killing it."""
    before = folder / "before"
    before.mkdir(parents=True)
    if scenario.had:
        with use_cassette(before / scenario.name, mode="once"):
            strand(scenario.old, scenario.calls, lambda _: None)
    run = folder / "run"
    shutil.copytree(before, run)
    started = time.perf_counter()
    assert Fork(run / scenario.name, scenario).ended() == (0, set(range(CALLS + 1)))  # `DONE` and each call
    seconds = time.perf_counter() - started
    shutil.rmtree(run)
    shutil.copytree(before, run)
    passed: list[int] = []
    nowhere = os.open(os.devnull, os.O_WRONLY)

    def told(number: int) -> None:
        tell(nowhere, number)  # which is a step, too
        passed.append(-counting.left)

    with Dying(0) as counting:
        record(run / scenario.name, scenario, told)
    os.close(nowhere)
    return Known(before, seconds, passed[-2], passed[-1])


def numbers_in(cassette: Cassette, scenario: Scenario) -> set[int]:
    """The calls that a cassette holds; each has the answer that was given."""
    found = set()
    for item in cassette.interactions():
        number = len(item.request["messages"])
        told = item.outcome.chunks if item.outcome.status == "streamed" else [item.outcome.value]
        assert told is not None
        text = json.dumps(told) if scenario.calls == "pictures" else "".join(told)
        assert re.search(rf"\b{number}\b", text), f"call {number} has another answer"
        assert scenario.calls != "pictures" or picture_in(item.outcome.value) == PICTURE + bytes([number // 3])
        assert number not in found, f"call {number} is there twice"
        found.add(number)
    return found


def picture_in(value: Any) -> bytes:
    """The picture of a recorded answer."""
    return base64.b64decode(value["picture"]["$bytes"])


def one(folder: Path, scenario: Scenario, about: Known, source: random.Random) -> str:
    """Kill one recording, and look at what it left; the word says how far it had come."""
    shutil.copytree(about.before, folder)
    target = folder / scenario.name
    before = target.read_bytes() if scenario.had else None
    if source.random() < 0.5:
        fork = Fork(target, scenario)
        time.sleep(source.uniform(0, 1.1 * about.seconds))
        fork.kill()
    else:
        first = about.calls if source.random() < 0.7 else 1
        fork = Fork(target, scenario, steps=source.randint(first, about.steps))
    status, told = fork.ended()
    assert status in {0, signal.SIGKILL}, f"it ended with {status}"

    no_secret(folder)
    new = committed(target, scenario, before)
    copied = source.random() < 0.5
    lefts = leftover_journals(target)
    recovered = set(itertools.chain(*(what_is_in(left, scenario, copied=copied) for left in lefts)))
    old = set(scenario.old) if scenario.mode == "new_episodes" else set()  # replayed, so not in the journal
    kept = set(range(1, CALLS + 1)) if new else recovered | old
    assert not told - {DONE} - kept, f"lost: {sorted(told - {DONE} - kept)}"
    assert new or DONE not in told, "it had ended, and the cassette is not the new one"

    with use_cassette(target, mode="all"):  # the lock of the dead is no obstacle
        strand(range(1, 3), scenario.calls, lambda _: None)
    assert numbers_in(open_cassette(target), scenario) == {1, 2}
    assets = f"{scenario.name}.assets"
    rest = sorted({path.name for path in folder.iterdir()} - {scenario.name, assets})
    assert not rest, f"left behind: {rest}"
    assert scenario.calls != "pictures" or len(list((folder / assets).iterdir())) == 1, "assets are left behind"
    return "committed" if new else "recording" if told else "beginning"


def committed(target: Path, scenario: Scenario, before: bytes | None) -> bool:
    """Whether the cassette is the new one, whole; else it is the old one, to the byte."""
    now = target.read_bytes() if target.exists() else None
    if now is not None:
        found = numbers_in(open_cassette(target), scenario)
        assert found == (set(scenario.old) if now == before else set(range(1, CALLS + 1)))
    return now != before


def what_is_in(journal: Path, scenario: Scenario, *, copied: bool) -> set[int]:
    """The calls that are recovered from a journal, or from a copy: the next session removes what is left."""
    folder = journal.parent.with_name(f"{journal.parent.name} recovered")
    folder.mkdir(exist_ok=True)
    if copied:
        journal = Path(shutil.copy(journal, folder))
    try:
        return numbers_in(open_cassette(recover(journal, folder / f"{journal.name[1:]}.jsonl")), scenario)
    except CassetteFormatError as error:
        if "had not begun" not in error.problem:
            raise
        return set()


def no_secret(folder: Path) -> None:
    """No file holds the canary."""
    for path in filter(Path.is_file, folder.rglob("*")):
        data = path.read_bytes()
        packed = path.suffix == ".gz"
        assert CANARY[8:].encode() not in (gzip.decompress(data) if packed else data), f"a secret in {path.name}"


def kills(folder: Path, indices: range) -> Iterator[tuple[str, str]]:
    """Kill so many; for each what became of it, and what was wrong."""
    about = {scenario: known(folder / str(n), scenario) for n, scenario in enumerate(SCENARIOS)}
    for index in indices:
        source = random.Random(f"kill {index}")
        scenario = SCENARIOS[index % len(SCENARIOS)]
        place = folder / f"kill {index}"
        try:
            yield one(place, scenario, about[scenario], source), ""
            shutil.rmtree(place)
            shutil.rmtree(f"{place} recovered", ignore_errors=True)
        except Exception as error:
            line = error.__traceback__.tb_next.tb_lineno if error.__traceback__ and error.__traceback__.tb_next else 0
            yield "failed", f"{index} {scenario}: {type(error).__name__}: {error} (line {line})"


if __name__ == "__main__":
    where, count = sys.argv[1:]
    results = list(kills(Path(where).resolve(), range(int(count))))
    tally = collections.Counter(word for word, _ in results)
    sys.stdout.write(json.dumps({"tally": tally, "failures": [problem for _, problem in results if problem]}) + "\n")
