"""A process that reads damaged cassettes, and tells what happened that should not have.

Run as `python child.py FOLDER COUNT`; the report is a line of JSON.
"""

from __future__ import annotations

import collections
import importlib
import itertools
import json
import os
import random
import resource
import signal
import sys
import traceback
import tracemalloc
import uuid
import warnings
from pathlib import Path
from typing import Any

from damage import Parts, damaged, damaged_pack, in_turn  # type: ignore[import-not-found]
from samples import SAMPLES  # type: ignore[import-not-found]

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteError
from agenttape_core.matching import NOTHING, Candidate, Position, recorded_request
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.scheduling import Scheduler
from agenttape_core.schema import Header, Interaction, Step, StepTiming, Timing, class_name
from agenttape_core.session import AnsweredCall, Boundary, Session, Setup, runs
from agenttape_core.storage import Journal, open_cassette, recover, write_cassette
from agenttape_core.storage.cassette import Cassette, layout_of
from agenttape_core.storage.files import pack

importlib.import_module("agenttape_core.session.module_dates")  # only a call that cannot be replayed needs it
sys.modules["tzdata"] = None  # type: ignore[assignment] # names of zones are looked up in the system alone
SECONDS_A_FILE = 2.0
"""Of processor time; a file takes a thousandth of it."""
BYTES_A_FILE = 64 << 20
BYTES_IN_ALL = 1 << 30
SECONDS_IN_ALL = 3.0
"""Of processor time, for each hundred files: what one signal cannot interrupt, the system does."""
JOURNAL = ".journal"
END = b'{"end":true}\n'
"""What a journal has not."""
SUFFIXES = [".yaml", ".jsonl", ".yaml", ".jsonl", ".yaml", ".jsonl", ".yaml.gz", ".jsonl.gz", ".yml", JOURNAL]
# `open_code`, `compile` and the like: whatever a file can make of itself but data.
NEVER = {"exec", "compile", "import", "marshal.loads", "pickle.find_class", "subprocess.Popen", "os.system", "os.exec"}
TOUCHES = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link"}


class Watched:
    """What the process did while it read: imports, code, and paths outside of the folder."""

    def __init__(self, folder: Path) -> None:
        self.found: list[str] = []
        self.on = False
        self._folder = os.fspath(folder) + os.sep
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in NEVER or event.startswith(("socket.", "ctypes.")):
            self.found.append(f"{event} {args[0]!r}"[:200])
        elif event in TOUCHES and not isinstance(args[0], int):
            path = os.path.abspath(os.fsdecode(args[0])) + os.sep  # noqa: PTH100 - links must not be followed
            if not path.startswith(self._folder) and not path.startswith("/usr/share/zoneinfo/"):
                self.found.append(f"{event} {path!r}"[:200])


class Reader:
    """Reads a damaged file as a session and a converter do.

    Args:
        folder: Where files may be.
    """

    def __init__(self, folder: Path) -> None:
        self.tally: collections.Counter[str] = collections.Counter()
        self._folder = folder

    def read(self, path: Path, index: int) -> None:
        """Read all of it, replay all of it, write all of it; only cassette errors may come out."""
        error: CassetteError | None = None
        try:
            is_journal = path.suffix == JOURNAL
            cassette = open_cassette(recover(path, self._folder / "again.jsonl") if is_journal else path)
            interactions = self._whole(cassette)
            records = list(cassette.records())
        except CassetteError as refused:
            error = refused
        if error is None:
            self.tally["read"] += 1
            self._replay(cassette, interactions)
            self._written(cassette, records, index)
        else:
            self.tally["refused"] += 1
            assert error.path == path, "the error names another file"
            assert error.line is not None or "unpacked" in error.problem, "the error has no line"

    def _whole(self, cassette: Cassette) -> list[Interaction]:
        """Every interaction; what is parsed in part is the same as the part of what is parsed whole."""
        found = []
        assert cassette.header is cassette.header
        for entry in cassette.entries:
            outcome, ids = cassette.outcome(entry.number), cassette.ids(entry.number)
            whole = cassette.interaction(entry.number)
            assert repr((whole.outcome, whole.ids)) == repr((outcome, ids)), "the parts are not those of the whole"
            assert tuple(entry) == tuple(getattr(whole, name) for name in entry._fields), "the index is another one"
            assert bool(cassette.fidelity_note(entry.number)) == (whole.fidelity != "exact"), "another fidelity"
            found.append(whole)
        return found

    def _replay(self, cassette: Cassette, interactions: list[Interaction]) -> None:
        """Serve each recording: its value, the error it holds, or an error of ours."""
        policy = Policy(Mode.REPLAY, recorded=True)
        session = Session(
            Setup(
                path=cassette.path,
                policy=policy,
                redactor=Redactor(new_key()),
                source=cassette,
                remedy=list,
                root=Position(),
                began=0.0,
                scheduler=Scheduler(),
                fakes={},
            )
        )
        for item in interactions:
            for stream in (False, True):
                try:
                    session_call = self._replayed(session, item)
                    _ = list(session_call.replay_chunks()) if stream else session_call.replay()
                    self.tally["replayed"] += 1
                except (AgentTapeError, AgentTapeHalt):
                    self.tally["not replayed"] += 1
                except Exception as raised:
                    error = item.outcome.error
                    if error is None or error.type != class_name(type(raised)):
                        raise
                    self.tally["raised"] += 1
        _ = session.report.unused
        runs.used_numbers(session)

    def _replayed(self, session: Session, item: Interaction) -> AnsweredCall:
        """A call that a recording answers, with other run-specific ids than it was recorded with."""
        asked = recorded_request(item.kind, item.name, item.request, NOTHING)
        request = asked._replace(ids=(uuid.UUID(int=1).hex, "call_1"))
        position = session.root.child(item.name)
        boundary = Boundary("call", split=lambda value: [value])
        return AnsweredCall(session, boundary, request, position, number=1, found=Candidate(item.number, "exact"))

    def _written(self, cassette: Cassette, records: list[Interaction | Step], index: int) -> None:
        """What was read can be written, in either layout, and read again."""
        path = self._folder / ("again.jsonl" if index // 2 % 2 else "again.yaml")
        write_cassette(path, cassette.header, records)
        again = open_cassette(path)
        assert repr(again.header) == repr(cassette.header), "another header after writing"
        assert list(map(shown, again.records())) == list(map(shown, records)), "other records after writing"


def shown(record: Interaction | Step) -> str:
    """All of a record, types and order included, but the order of the keys of a request, which means nothing."""
    if isinstance(record, Step):
        return repr(record)
    return repr(record.model_copy(update={"request": dict(sorted(record.request.items()))}))


def sources(folder: Path) -> dict[str, list[tuple[Path, Parts]]]:
    """The undamaged cassettes by suffix; their assets are on the disk and stay."""
    found: dict[str, list[tuple[Path, Parts]]] = collections.defaultdict(list)
    for header, records in SAMPLES:
        path, text = journal_of(folder, header, records)
        found[JOURNAL].append((path, Parts("jsonl", text, list(map(json.loads, text.splitlines())))))
        for suffix in dict.fromkeys(SUFFIXES[:-1]):
            path = folder / f"{header.name}{suffix}"
            write_cassette(path, header, records)
            plain = folder / f"{header.name}.{'jsonl' if 'jsonl' in suffix else 'yaml'}"
            layout = layout_of(plain.suffix[1:])
            text = plain.read_bytes()
            end = layout.check_end(text)
            stored = [layout.record(text[slice(*span)]) for span in layout.spans(text, end)]
            found[suffix].append((path, Parts(plain.suffix[1:], text, stored)))
    return found


def journal_of(folder: Path, header: Header, records: list[Interaction | Step]) -> tuple[Path, bytes]:
    """A journal as a process leaves it that died."""
    journal = Journal(folder / f"{header.name}.yaml", header)
    for record in records:
        if isinstance(record, Step):
            journal.append_step(record, StepTiming(start_ms=0.5, duration_ms=1.0), (record.number, "y"))
        else:
            journal.append(record, Timing(duration_ms=1.0, offsets_ms=[0.5]), (record.number, "x", (1,)))
    left = journal.abandon(keep=True)
    assert left is not None
    return left, left.read_bytes()


def ordered(known: dict[str, list[tuple[Path, Parts]]]) -> list[tuple[Path, bytes]]:
    """The first files: what is not left to chance."""
    parts = [known[suffix][place] for place, suffix in ((0, ".yaml"), (0, ".jsonl"), (3, ".yaml"), (1, JOURNAL))]
    return [
        (path, text.replace(END, b"") if path.suffix == JOURNAL else text)
        for path, some in parts
        for text in in_turn(some)
    ]


def damage(index: int, known: dict[str, list[tuple[Path, Parts]]]) -> tuple[Path, bytes]:
    """The file number `index`, after those that come in turn."""
    source = random.Random(f"damage {index}")
    suffix = SUFFIXES[index % len(SUFFIXES)]
    path, parts = source.choice(known[suffix])
    if suffix == JOURNAL:
        return path, damaged(source, parts).replace(END, b"")
    if suffix.endswith(".gz") and source.random() < 0.4:
        return path, damaged_pack(source, pack(path, parts.text))
    return path, pack(path, damaged(source, parts))


def bounded(reader: Reader, path: Path, index: int) -> None:
    """Read with a bound on the time, and on the memory of every tenth file."""
    traced = index % 10 == 0
    if traced:
        tracemalloc.start()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_A_FILE)
    try:
        reader.read(path, index)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        peak = tracemalloc.get_traced_memory()[1] if traced else 0
        if traced:
            tracemalloc.stop()
    assert peak < BYTES_A_FILE, f"{peak} bytes of memory"


def too_long(*_: object) -> None:
    """Stop a file that takes too long."""
    raise AssertionError(f"it took more than {SECONDS_A_FILE} s of processor time")


def main(folder: Path, indices: range) -> dict[str, Any]:
    """Read the damaged files, and report."""
    known = sources(folder)
    reader, failures, watched = Reader(folder), [], Watched(folder)
    signal.signal(signal.SIGVTALRM, too_long)
    for path, parts in itertools.chain(*known.values()):  # what is imported late on the ordinary way is imported now
        path.write_bytes(parts.text if path.suffix == JOURNAL else path.read_bytes())
        reader.read(path, 0)
    for text in (b"? x\n...\n", b"\xff"):  # and on the others
        (folder / "warm.yaml").write_bytes(text)
        reader.read(folder / "warm.yaml", 0)
    reader.tally.clear()
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_IN_ALL, BYTES_IN_ALL))
    seconds = 20 + int(SECONDS_IN_ALL * len(indices) / 100)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    first = ordered(known)
    for index in indices:
        path, data = first[index] if index < len(first) else damage(index, known)
        modules = set(sys.modules)
        path.unlink(missing_ok=True)  # a file that is cut to nothing is synced by some file systems, a new one is not
        path.write_bytes(data)
        sys.stderr.write(f"{index}\n")  # the last one is told when the process is killed
        try:
            watched.on = True
            bounded(reader, path, index)
        except BaseException as error:
            watched.on = False
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"{index}: {type(error).__name__}: {str(error)[:300]} ({where.name}:{where.lineno})")
        finally:
            watched.on = False
        if watched.found:
            failures += [f"{index}: {event}" for event in watched.found]
            watched.found.clear()
        if len(sys.modules) != len(modules):
            failures += [f"{index}: imported {name}" for name in sorted(set(sys.modules) - modules)]
    return {"tally": reader.tally, "failures": failures}


if __name__ == "__main__":
    os.fsync = lambda _: None  # whether the disk has it is not what this is about
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", FutureWarning)  # what `re` says of a recorded pattern, it said of the real one
    place, count = sys.argv[1:]
    report = main(Path(place).resolve(), range(int(count)))
    sys.stdout.write(json.dumps(report) + "\n")
