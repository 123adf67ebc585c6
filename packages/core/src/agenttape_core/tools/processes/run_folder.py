"""`RunFolder`: the configuration and variation of a run, and the reports of its processes, as files of one folder."""

from __future__ import annotations

import base64
import io
import json
import pickle
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agenttape_core.engine import Mode
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import Choices
from agenttape_core.schema import IndexRow
from agenttape_core.session import Report
from agenttape_core.storage import stem_of
from agenttape_core.tools.processes.startup.agenttape_startup import BEGIN

_CONFIG, _REPORTS, _CLAIMED, _END = "config.json", "reports", "claimed", "end"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The configuration that every process of a run reads."""

    cassette: str  # the cassette of the main process: an absolute path
    project: str  # the folder whose settings hold, and that paths are shown from
    options: dict[str, Any]  # those of `use_cassette`, as plain data
    # The key of pseudonyms for processes without a cassette: they must be the same in all cassettes of the run.
    key: str
    remedies: tuple[list[str], list[str]]  # the advice about a miss: without a cassette, and with one
    replays_only: bool = False  # whether no call may be executed
    confines: bool = False  # whether sessions that the command itself opens only replay
    # The most that the calls of models of one process may cost, in US dollars; `None` for any amount.
    max_usd: float | None = None
    oracle: str = ""  # a file or the URL of an oracle, which answers calls of tools without a recording; empty for none
    varied: str = ""  # the variation of the main process, as `varied.packed` makes it; empty for none

    def cassette_of(self, address: str) -> Path:
        """Return the cassette of a process, or of all that do the same."""
        return cassette_of(Path(self.cassette), address)

    def shown(self, path: Path) -> Path:
        """Return a path as a message shows it."""
        return path.relative_to(self.project) if path.is_relative_to(self.project) else path


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The report of one process about its session."""

    pid: int  # its number, for as long as it lives
    address: str  # the address of the process in the run
    member: str  # its name among the processes at that address
    part: str  # the absolute path of its recording, if it made one
    state: Literal["opening", "open", "ended"] = "opening"  # its progress. A process that was killed did not end
    # The numbers of the replayed recordings, in the order of the calls.
    replayed: list[int] = field(default_factory=list)
    stepped_into: list[int] = field(default_factory=list)  # the numbers of the recordings that were stepped into
    elsewise: list[int] = field(default_factory=list)  # the numbers of those recordings whose calls had another request
    # The tools that were replayed, each with the reason why its code was not run.
    not_run: list[str] = field(default_factory=list)
    recorded: int = 0  # the number of calls that were really made
    asked: int = 0  # how many of them were of models
    # The recordings that it did not ask for, a line each by their numbers.
    unused: dict[int, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)  # its misses, a line each
    unrecorded: list[str] = field(default_factory=list)  # the misses after which it continued, a line each
    unrecorded_calls: list[dict[str, Any]] = field(default_factory=list)  # the same with their facts, as plain data
    blocked: list[str] = field(default_factory=list)  # its attempts to reach the outside, a line each
    # The connections of a recording that no boundary covers, a line each.
    uncovered: list[str] = field(default_factory=list)
    # The parts of the recorded order that it couldn't repeat, and the real values, a line each.
    nondeterminism: list[str] = field(default_factory=list)
    entropy: list[str] = field(default_factory=list)  # the part of it that was real, and isn't an order
    # What the handler that recorded the run could not see, and it came to, a line each.
    unobserved: list[str] = field(default_factory=list)
    # By framework that is in use, the package that is not installed and would record it.
    missing: dict[str, str] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)  # names in options that no boundary of it has
    failure: str = ""  # the message of the failure; empty if there was none
    problem: bool = False  # whether the failure is about a file
    spent: float = 0.0  # the cost of the calls of models that it has made, in US dollars, where there is a limit
    is_over_budget: bool = False  # whether a call would have cost more than was left
    failed_blocks: str = ""  # the message of the first block of the program itself that failed, and how many more have
    # The cassettes of sessions that the program opened itself and made calls in; the first of them, if many.
    own: list[str] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """True if calls were made."""
        return bool(self.replayed or self.stepped_into or self.recorded)

    @property
    def is_silent(self) -> bool:
        """True if there is no fact to report: most processes make no calls."""
        call_record = self.is_busy or self.missed or self.unrecorded or self.blocked or self.uncovered
        return self.state != "open" and not call_record and not self.failure


class RunFolder:
    """The folder of one run. `folder` exists."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write_config(
        self, config: RunConfig, *, allow_hosts: Sequence[str], watched: Sequence[str], command: Sequence[str]
    ) -> None:
        """Write the configuration for the processes.

        The processes may reach `allow_hosts` in a replay before they open a session; `watched` are the modules
        whose import needs one.
        """
        for folder in (_REPORTS, _CLAIMED):
            (self.folder / folder).mkdir()
        (self.folder / _CONFIG).write_text(json.dumps(asdict(config)), encoding="utf-8")
        replayed = str(config.shown(Path(config.cassette))) if config.options["mode"] == Mode.REPLAY.value else ""
        told = "\0".join((replayed, " ".join(allow_hosts), " ".join(watched), *command))
        (self.folder / BEGIN).write_text(told, encoding="utf-8", errors="surrogateescape")

    def config(self) -> RunConfig:
        """Read the configuration."""
        told = json.loads((self.folder / _CONFIG).read_text(encoding="utf-8"))
        return RunConfig(**{**told, "remedies": tuple(told["remedies"])})

    def claim(self, address: str, words: str) -> int:
        """Return the ordinal of a process among those with its address and arguments, even if started in parallel."""
        number = 1
        while True:
            name = f"{address.replace('/', '%')}%{words}%{number}"
            try:
                (self.folder / _CLAIMED / name).touch(exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return number

    def write_report(self, name: str, report: ProcessReport) -> None:
        """Write or replace a report, whole or not at all: the process may be killed meanwhile."""
        if not (self.folder / _REPORTS).is_dir():
            return  # the command ended before this process, and nobody reads its folder any more
        unfinished = self.folder / _REPORTS / f"{name}.tmp"
        unfinished.write_text(json.dumps(asdict(report)), encoding="utf-8")
        unfinished.replace(unfinished.with_suffix(".json"))

    def write_end(self, end: str) -> None:
        """Write the end of a varied session, as `varied.packed` makes it."""
        if self.folder.is_dir():
            (self.folder / _END).write_text(end, encoding="utf-8")

    def end(self) -> str:
        """Read the end of the varied session; empty if none was opened, or its process was killed."""
        path = self.folder / _END
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def reports(self) -> list[ProcessReport]:
        """Read the reports of the processes, by address and member."""
        told = map(_report, (self.folder / _REPORTS).glob("*.json"))
        return sorted(told, key=lambda report: (report.address, report.member))

    def notes(self, paper: str) -> list[str]:
        """Read the notes of processes that have no report, each line once."""
        path = self.folder / paper
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return list(dict.fromkeys(line.replace("\0", "\n") for line in lines))


def _report(path: Path) -> ProcessReport:
    told = json.loads(path.read_text(encoding="utf-8"))
    return ProcessReport(**{**told, "unused": {int(number): line for number, line in told["unused"].items()}})


def folder_of(cassette: Path) -> Path:
    """Return the folder of the cassettes of the other processes: next to the main one's."""
    return cassette.with_name(f"{stem_of(cassette)}.processes")


def cassette_of(cassette: Path, address: str) -> Path:
    """Return the cassette of a process of a run, with the layout and compression of the main one's, `cassette`."""
    if not address:
        return cassette
    suffix = cassette.name.removeprefix(stem_of(cassette))
    return folder_of(cassette) / f"{address}{suffix}"


def cassettes_of(cassette: Path) -> Iterator[tuple[str, Path]]:
    """Yield the existing cassettes of a run, with the addresses of their processes."""
    if cassette.exists():
        yield "", cassette
    folder = folder_of(cassette)
    suffix = cassette.name.removeprefix(stem_of(cassette))
    for path in sorted(folder.rglob(f"*{suffix}")):
        address = path.relative_to(folder).as_posix().removesuffix(suffix)
        if path.is_file() and not path.name.startswith(".") and not _BESIDE.search(address):
            yield address, path


_BESIDE = re.compile(r"\.(part-.+-[0-9a-f]{8}|derived|recovered(-\d+)?)$")
"""The endings of names of cassettes that do not belong to a process, or not yet."""


def part_of(path: Path, member: str) -> Path:
    """Return the path that one of several processes records to that share a cassette."""
    suffix = path.name.removeprefix(stem_of(path))
    return path.with_name(f"{stem_of(path)}.part-{member}-{secrets.token_hex(4)}{suffix}")


# -- A varied replay of a command: the variation for its main process, and the end of that one's session.


class SessionEnd(NamedTuple):
    """The end of the session of a command's main process."""

    report: Report
    changes: Mapping[int, str] = {}  # the changes in words, by the number of the recorded call
    failure: BaseException | None = None  # the failure of the session; `None` if there was none
    choices: Choices | None = None  # the choices of the run, if an order was imposed
    rows: Sequence[IndexRow] = ()  # the recordings, if an order was imposed


class _Pickler(pickle.Pickler):
    """Also takes errors that can't be made from their arguments alone, such as errors of providers' clients."""

    def reducer_override(self, obj: Any) -> Any:
        """Take an error apart."""
        if isinstance(obj, BaseException):
            return _error, (type(obj), obj.args), vars(obj) or None
        return NotImplemented


def _error(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    return kind.__new__(kind, *args)


def packed(value: Any) -> str:
    """Return a value as text for another process of the run. It's a variation or a `SessionEnd`."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return base64.b64encode(file.getvalue()).decode()


def unpacked(text: str) -> Any:
    """Return the value that `packed` made a text: it comes from a process of this run, in a folder of this user."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - as the docstring says
