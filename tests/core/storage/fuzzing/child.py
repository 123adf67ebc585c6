"""A process that reads damaged cassettes, and tells what happened that should not have.

Run as `python child.py FOLDER FIRST COUNT STEP`; the report is a line of JSON.
"""

from __future__ import annotations

import collections
import dataclasses
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

from damage import Parts, damaged, damaged_pack  # type: ignore[import-not-found]
from samples import SAMPLES  # type: ignore[import-not-found]

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteError
from agenttape_core.matching import NOTHING, Found, recorded_question
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.schema import Interaction, class_name
from agenttape_core.session import Boundary, Session
from agenttape_core.session.crossing import Crossing
from agenttape_core.storage import open_cassette, write_cassette
from agenttape_core.storage.cassette import LAYOUTS, Cassette
from agenttape_core.storage.files import pack
from agenttape_core.storage.records import header_to_dict
from agenttape_core.storage.writer import stored_records

SECONDS_A_FILE = 2.0
"""Of processor time; a file takes a thousandth of it."""
BYTES_A_FILE = 64 << 20
BYTES_IN_ALL = 1 << 30
SUFFIXES = [".yaml", ".jsonl", ".yaml", ".jsonl", ".yaml", ".jsonl", ".yaml.gz", ".jsonl.gz", ".yml"]
NEVER = {"exec", "compile", "import", "marshal.loads", "pickle.find_class", "subprocess.Popen", "os.system", "os.exec"}
TOUCHES = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink"}


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
            path = os.path.abspath(os.fsdecode(args[0]))
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
        try:
            cassette = open_cassette(path)
            interactions = self._whole(cassette)
        except CassetteError as error:
            assert error.path == path, "the error names another file"
            assert error.line is not None or "unpacked" in error.problem, "the error has no line"
            self.tally["refused"] += 1
            return
        self.tally["read"] += 1
        self._replay(cassette, interactions)
        self._written(cassette, interactions, index)

    def _whole(self, cassette: Cassette) -> list[Interaction]:
        """Every interaction; what is parsed in part is the same as the part of what is parsed whole."""
        found = []
        assert cassette.header is cassette.header
        for entry in cassette.entries:
            outcome, ids = cassette.outcome(entry.number), cassette.ids(entry.number)
            whole = cassette.interaction(entry.number)
            assert repr((whole.outcome, whole.ids)) == repr((outcome, ids)), "the parts are not those of the whole"
            assert tuple(entry) == tuple(getattr(whole, name) for name in entry._fields), "the index is another one"
            found.append(whole)
        return found

    def _replay(self, cassette: Cassette, interactions: list[Interaction]) -> None:
        """Serve each recording: its value, the error it holds, or an error of ours."""
        session = Session(
            cassette.path,
            policy=Policy(Mode.NONE, recorded=True),
            redactor=Redactor(new_key()),
            source=cassette,
            sink=None,
            remedy=list,
        )
        for item in interactions:
            for stream in (False, True):
                try:
                    crossing = self._served(session, item)
                    _ = list(crossing.replay_chunks()) if stream else crossing.replay()
                    self.tally["served"] += 1
                except (AgentTapeError, AgentTapeHalt):
                    self.tally["not served"] += 1
                except Exception as raised:
                    error = item.outcome.error
                    if error is None or error.type != class_name(type(raised)):
                        raise
                    self.tally["raised"] += 1
        session.find_unused()
        session.used_numbers()

    def _served(self, session: Session, item: Interaction) -> Crossing:
        """A call that a recording answers, with other run-specific ids than it was recorded with."""
        asked = recorded_question(item.kind, item.name, item.request, NOTHING)
        question = dataclasses.replace(asked, ids=(uuid.UUID(int=1).hex, "call_1"))
        position = session.root.child(item.name)
        return Crossing(session, Boundary("call", split=lambda value: [value]), question, position, number=1, found=Found(item.number, "exact"))

    def _written(self, cassette: Cassette, interactions: list[Any], index: int) -> None:
        """What was read can be written in the other layout, and read again; now and then on the disk."""
        layout = "jsonl" if index % 2 else "yaml"
        if index % 100 == 0:
            path = self._folder / f"again.{layout}"
            write_cassette(path, cassette.header, interactions)
            again = open_cassette(path)
        else:
            records = stored_records(cassette.path, interactions)
            text = b"".join(LAYOUTS[layout].dump(header_to_dict(cassette.header), records))
            again = Cassette(self._folder / f"again.{layout}", text)
        assert repr(again.header) == repr(cassette.header), "another header after writing"
        assert repr(list(again.interactions())) == repr(interactions), "other interactions after writing"


def sources(folder: Path) -> dict[str, list[tuple[Path, Parts]]]:
    """The undamaged cassettes by suffix; their assets are on the disk and stay."""
    found: dict[str, list[tuple[Path, Parts]]] = collections.defaultdict(list)
    for suffix in dict.fromkeys(SUFFIXES):
        for header, interactions in SAMPLES:
            path = folder / f"{header.name}{suffix}"
            write_cassette(path, header, interactions)
            plain = folder / f"{header.name}.{'jsonl' if 'jsonl' in suffix else 'yaml'}"
            layout = LAYOUTS[plain.suffix[1:]]
            text = plain.read_bytes()
            end = layout.check_end(text)
            records = [layout.record(text[slice(*span)]) for span in layout.spans(text, end)]
            found[suffix].append((path, Parts(plain.suffix[1:], text, records)))
    return found


def damage(index: int, known: dict[str, list[tuple[Path, Parts]]]) -> tuple[Path, bytes]:
    """The file number `index`."""
    source = random.Random(f"damage {index}")
    suffix = SUFFIXES[index % len(SUFFIXES)]
    path, parts = source.choice(known[suffix])
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
    for path, _ in itertools.chain(*known.values()):  # what is imported late on the ordinary way is imported now
        reader.read(path, 0)
    reader.tally.clear()
    for text in (b"? x\n...\n", b"\xff"):
        (folder / "warm.yaml").write_bytes(text)
        reader.read(folder / "warm.yaml", 0)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES_IN_ALL, BYTES_IN_ALL))
    modules = set(sys.modules)
    for index in indices:
        path, data = damage(index, known)
        path.write_bytes(data)
        try:
            watched.on = True
            bounded(reader, path, index)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must be told
            watched.on = False
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"{index}: {type(error).__name__}: {str(error)[:300]} ({where.name}:{where.lineno})")
        finally:
            watched.on = False
        if watched.found:
            failures += [f"{index}: {event}" for event in watched.found]
            watched.found.clear()
    failures += [f"imported {name}" for name in sorted(set(sys.modules) - modules)]
    return {"tally": reader.tally, "failures": failures}


if __name__ == "__main__":
    warnings.simplefilter("error")
    place, first, count, step = sys.argv[1:]
    report = main(Path(place).resolve(), range(int(first), int(count), int(step)))
    sys.stdout.write(json.dumps(report) + "\n")
