"""Checks of the content of cassettes, and of replays in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Any, Self
from unittest import SkipTest

from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import KINDS, Interaction
from agenttape_core.storage.stable import stable_text
from agenttape_core.testing.bench import CASSETTE, OTHER, QUESTION, Bench
from agenttape_core.testing.checks.sequences import BACKWARDS, FORWARDS, ask_in_tasks, ask_in_threads
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World
from agenttape_core.tools.target import Target, load, target_of

ASKED, SAID = (f"sk-proj-{sha256(text.encode()).hexdigest()[:40]}" for text in ("asked", "said"))
"""Secrets of a form that every redaction detects."""

THIS_RUN, OTHER_RUN = "6f0a3b52-4c1d-4e8a-9d27-1b5c8e0f7a34", "c2d94e71-8b3f-4a60-b5e9-70d1f6a2c85b"
"""Ids that belong to a run."""

_shared: list[_Child] = []  # the child processes that serve all checks for a while, the latest last

_PROGRAM = """\
import json, sys
first = sys.stdin.readline()
sys.path[:] = json.loads(first)["path"]
from agenttape_core.testing.checks.files import _main
_main(first)
"""

_TIMEOUT_S = 120

_ANSWER = "agenttape-answer: "
"""The beginning of the line that holds the answer: suites and frameworks may print others."""


def interactions_are_well_formed(suite: Bench) -> None:
    """Each interaction has a kind of the glossary, a name, an address and a request."""
    for shape in suite.shapes:
        with suite.record() as session:
            suite.ask(shape, suite.subject(World()), QUESTION)
        for item in session.interactions:
            expect(item.kind in KINDS, f"{shape}: {item.kind!r} isn't a kind; the kinds are {sorted(KINDS)}")
            for field in ("name", "address", "request"):
                expect(getattr(item, field), f"{shape}: the {field} of an interaction is empty")


def secrets_stay_out_of_the_files(suite: Bench) -> None:
    """Secrets in a question and in an answer reach no file, and the replay still finds its recording."""
    text = f"what is {ASKED} for?"
    for shape in suite.shapes:
        with suite.record():
            live = suite.says(shape, suite.subject(World(_telling)), text)
        expect(SAID in live, f"{shape}: the recording changed the answer to {live!r}")
        for name, content in suite.files().items():
            found = [secret for secret in (ASKED, SAID) if secret.encode() in content]
            expect(not found, f"{shape}: {len(found)} secrets stand in {name}")
        with suite.replay():
            replayed = suite.says(shape, suite.subject(), text)
        expect(SAID not in replayed, f"{shape}: the secret of the answer was recorded in pieces")
        expect(ASKED in replayed, f"{shape}: the secret of the question is missing in the answer {replayed!r}")


def ids_of_the_run_are_mapped(suite: Bench) -> None:
    """A question with an id of this run finds its recording, and the answer has the id of this run."""
    for shape in suite.shapes:
        with suite.record():
            live = suite.says(shape, suite.subject(World()), f"what of {THIS_RUN}?")
        with suite.replay():
            replayed = suite.says(shape, suite.subject(), f"what of {OTHER_RUN}?")
        expected = live.replace(THIS_RUN, OTHER_RUN)
        expect(replayed == expected, f"{shape}: replayed {replayed!r}, expected {expected!r}")


def recording_again_changes_nothing(suite: Bench) -> None:
    """Recording the same again only changes the volatile block of the header."""
    texts = []
    for _ in range(2):
        with suite.record():
            _ask_everything(suite)
        texts.append(stable_text(suite.folder / CASSETTE))
    expect(texts[0] == texts[1], f"two recordings of the same differ: {_first_difference(*texts)}")


def order_of_completion_changes_nothing(suite: Bench) -> None:
    """Parallel calls are recorded in the same order, whichever of them ends first."""
    for shape in suite.shapes:
        ask = ask_in_threads if shape in {"call", "stream"} else ask_in_tasks
        texts = []
        for order in (FORWARDS, BACKWARDS):
            with suite.record():
                ask(suite, shape, World(), order)
            texts.append(stable_text(suite.folder / CASSETTE))
        expect(texts[0] == texts[1], f"{shape}: the file depends on which ends first: {_first_difference(*texts)}")


def both_layouts_hold_the_same(suite: Bench) -> None:
    """A cassette of JSON lines holds and replays the same as one of YAML."""
    for shape in suite.shapes:
        held: list[Any] = []
        for name in ("yaml/cassette.yaml", "jsonl/cassette.jsonl"):
            with suite.record(name) as session:
                live = suite.says(shape, suite.subject(World()), QUESTION)
            with suite.replay(name):
                replayed = suite.says(shape, suite.subject(), QUESTION)
            expect(live == replayed, f"{shape}: {name} recorded {live!r} and replayed {replayed!r}")
            held.append([item.model_dump() for item in session.interactions])
        expect(held[0] == held[1], f"{shape}: YAML holds {held[0]}, JSON lines hold {held[1]}")


def usage_is_recorded(suite: Bench) -> None:
    """The token counts of an answer are recorded."""
    for shape in suite.shapes:
        with suite.record() as session:
            live = suite.says(shape, suite.subject(World()), QUESTION)
        expected = suite.usage(live)
        if expected is None:
            raise SkipTest("counts no tokens: there is no `usage` hook")
        found = _outermost(session.interactions).outcome.usage
        expect(found == expected, f"{shape}: the recorded usage is {found!r}, expected {expected!r}")


def _ask_everything(suite: Bench) -> None:
    for shape in suite.shapes:
        world = World()
        subject = suite.subject(world)
        for text in (QUESTION, OTHER, QUESTION):
            suite.ask(shape, subject, text)
        if shape in {"stream", "astream"}:
            suite.read(shape, subject, OTHER, most=1)
        world.fails = suite.error()
        suite.refused(shape, subject, QUESTION)


def _telling(question: str, number: int) -> str:
    return f"answer {number} to {question} is {SAID}, keep it"


def _outermost(interactions: list[Interaction]) -> Interaction:
    return next(item for item in interactions if item.parent is None)


def _first_difference(one: str, other: str) -> str:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    found = next(((a, b) for a, b in pairs if a != b), ("the end", "more"))
    return f"{found[0]!r} against {found[1]!r}"


@contextmanager
def one_child() -> Iterator[None]:
    """Have one child process serve the checks of all suites in this block: most of its time is imports."""
    with _child() as child:
        _shared.append(child)
        try:
            yield
        finally:
            _shared.remove(child)


def _child() -> _Child:
    return _Child("1" if os.environ.get("PYTHONHASHSEED") != "1" else "2")


def another_process_finds_the_recordings(suite: Bench) -> None:
    """A process with another hash seed finds the recordings, and replays the same."""
    target = _target(suite)
    with suite.record():
        live = [suite.says(shape, suite.subject(World()), QUESTION) for shape in suite.shapes]
    with ExitStack() as stack:
        child = _shared[-1] if _shared else stack.enter_context(_child())
        replayed = child.replay(target, suite.folder)
    expect(live == replayed, f"recorded {live}, a process with PYTHONHASHSEED={child.seed} replayed {replayed}")


def _target(suite: Bench) -> Target:
    if type(suite).__module__ == "__main__":
        raise SkipTest("is defined in a script, not in a module that a child process can import")
    try:
        return target_of(type(suite))
    except ConfigurationError as error:
        raise SkipTest("is not at the top level of a module, where a child process finds it") from error


class _Child:
    """A child process: from the first replay to the end of the block, again after failures; `seed` is its hash seed."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - see `__exit__`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def replay(self, target: Target, folder: Path) -> list[str]:
        """Replay the questions of a suite in the child, and return the texts of the answers."""
        path = [os.path.abspath(each) for each in sys.path]  # noqa: PTH100 - keeps links
        job = {"target": list(target), "folder": str(folder), "path": path, "working": str(Path.cwd())}
        process = self._process = self._process or self._started()
        limit = Timer(_TIMEOUT_S, process.kill)
        limit.start()
        try:
            answer = _answer(process, json.dumps(job))
        finally:
            limit.cancel()
        if answer is None:
            self._end()
            self._errors.seek(0)
            raise AssertionError(f"the replay in another process failed:\n{self._errors.read()[-4000:]}")
        replayed: list[str] = json.loads(answer)
        return replayed

    def _started(self) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTTAPE_", "PYTEST_"))}
        self._errors.seek(0)
        self._errors.truncate()
        return subprocess.Popen(  # noqa: S603 - this very interpreter, with a program of ours
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**kept, "PYTHONHASHSEED": self.seed, "PYTHONIOENCODING": "utf-8"},
            encoding="utf-8",
        )

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()  # between two replays it holds nothing
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait(_TIMEOUT_S)
        self._process = None


def _answer(process: subprocess.Popen[str], job: str) -> str | None:
    """Hand a job to a process, and return its answer, or `None` if the process ends without one."""
    asked: Any = process.stdin
    told: Any = process.stdout
    try:
        asked.write(f"{job}\n")
        asked.flush()
    except OSError:
        return None
    for line in told:
        if line.startswith(_ANSWER):
            return str(line.removeprefix(_ANSWER))
    return None


def _main(first: str) -> None:
    """For each job, replay the questions, and print the texts of the answers."""
    for line in chain([first], sys.stdin):
        job = json.loads(line)
        sys.path[:] = job["path"]
        os.chdir(job["working"])
        sys.stdout.write(f"\n{_ANSWER}{json.dumps(_replayed(job))}\n")
        sys.stdout.flush()


def _replayed(job: Mapping[str, Any]) -> list[str]:
    suite: Bench = load(Target(*job["target"]))()
    suite.setup_method()
    own, suite.folder = suite.folder, Path(job["folder"])
    try:
        with suite.replay():
            return [suite.says(shape, suite.subject(), QUESTION) for shape in suite.shapes]
    finally:
        suite.folder = own
        suite.teardown_method()
