"""The papers of a run: what its processes are told, and what each of them tells, as files of one folder."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agenttape_core.storage import stem_of
from agenttape_core.tools.processes.startup.agenttape_startup import BEGIN, NOTES

_ORDERS, _ACCOUNTS, _CLAIMED = "orders.json", "accounts", "claimed"


@dataclass(frozen=True, slots=True)
class Orders:
    """What every process of a run is told.

    Args:
        cassette: The cassette of the main process: an absolute path.
        project: The folder whose settings hold, and that paths are shown from.
        options: Those of `use_cassette`, as plain data.
        key: The key of pseudonyms for what has no cassette yet: they are to be the same in all cassettes of the run.
        remedies: What to do about a miss: where there is no cassette, and where there is one.
        replays_only: Whether nothing may be executed: not by sessions that the command opens itself, either.
    """

    cassette: str
    project: str
    options: dict[str, Any]
    key: str
    remedies: tuple[list[str], list[str]]
    replays_only: bool

    def cassette_of(self, address: str) -> Path:
        """Return the cassette of a process, or of all that do the same."""
        return cassette_of(Path(self.cassette), address)

    def shown(self, path: Path) -> Path:
        """Return a path as a message shows it."""
        return path.relative_to(self.project) if path.is_relative_to(self.project) else path


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the session of one process.

    Args:
        pid: Its number, for as long as it lives.
        address: Which process of the run.
        member: Which one of those that do the same.
        part: Where its recording is, if it made one: an absolute path.
        state: How far it came. What was killed did not end.
        served: The numbers of the recordings that were served, in the order they were asked for.
        executed: How many calls were really made.
        unused: The recordings that it did not ask for, a line each by their numbers.
        missed: Its misses, a line each.
        drift: The misses that it lived on after, likewise.
        blocked: Its attempts to reach the outside, likewise.
        unmatched: Names given as live or frozen that no boundary of it has.
        failure: What failed, as it explains itself; empty if nothing did.
        problem: Whether that is about a file.
    """

    pid: int
    address: str
    member: str
    part: str
    state: Literal["opening", "open", "ended"] = "opening"
    served: list[int] = field(default_factory=list)
    executed: int = 0
    unused: dict[int, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    failure: str = ""
    problem: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to say of it: most processes ask for nothing."""
        crossed = self.served or self.executed or self.missed or self.drift or self.blocked
        return self.state != "open" and not crossed and not self.failure


class Papers:
    """The folder of one run.

    Args:
        folder: It is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def give(self, orders: Orders, *, watched: Sequence[str], command: Sequence[str]) -> None:
        """Write what the processes are told.

        Args:
            orders: For those that open a session.
            watched: The modules whose import needs a session.
            command: The words of the command.
        """
        for folder in (_ACCOUNTS, _CLAIMED):
            (self.folder / folder).mkdir()
        (self.folder / _ORDERS).write_text(json.dumps(asdict(orders)), encoding="utf-8")
        told = "\0".join(("offline" if orders.replays_only else "", " ".join(watched), *command))
        (self.folder / BEGIN).write_text(told, encoding="utf-8", errors="surrogateescape")

    def orders(self) -> Orders:
        """Read what the processes are told."""
        told = json.loads((self.folder / _ORDERS).read_text(encoding="utf-8"))
        return Orders(**{**told, "remedies": tuple(told["remedies"])})

    def claim(self, address: str, words: str) -> int:
        """Return the how-manieth a process is of those with its address and arguments, whoever starts at once."""
        number = 1
        while True:
            name = f"{address.replace('/', '%')}%{words}%{number}"
            try:
                (self.folder / _CLAIMED / name).touch(exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return number

    def tell(self, name: str, account: Account) -> None:
        """Write down an account, whole or not at all: the process may be killed while it does.

        Args:
            name: Where; what was told there before is replaced.
            account: What became of its session so far.
        """
        if not (self.folder / _ACCOUNTS).is_dir():
            return  # the command has ended before this process, and nobody reads any more
        unfinished = self.folder / _ACCOUNTS / f"{name}.tmp"
        unfinished.write_text(json.dumps(asdict(account)), encoding="utf-8")
        unfinished.replace(unfinished.with_suffix(".json"))

    def accounts(self) -> list[Account]:
        """Read what the processes told, by address and member."""
        told = map(_account, (self.folder / _ACCOUNTS).glob("*.json"))
        return sorted(told, key=lambda account: (account.address, account.member))

    def notes(self, paper: str = NOTES) -> list[str]:
        """Read what no process could tell in an account, each line once."""
        path = self.folder / paper
        return list(dict.fromkeys(path.read_text(encoding="utf-8").splitlines())) if path.exists() else []


def _account(path: Path) -> Account:
    told = json.loads(path.read_text(encoding="utf-8"))
    return Account(**{**told, "unused": {int(number): line for number, line in told["unused"].items()}})


def folder_of(cassette: Path) -> Path:
    """Return where the cassettes of the other processes are: beside that of the main one."""
    return cassette.with_name(f"{stem_of(cassette)}.processes")


def cassette_of(cassette: Path, address: str) -> Path:
    """Return the cassette of a process of a run.

    Args:
        cassette: That of the main process, whose layout and packing it has too.
        address: Which process.
    """
    if not address:
        return cassette
    suffix = cassette.name.removeprefix(stem_of(cassette))
    return folder_of(cassette) / f"{address}{suffix}"


def cassettes_of(cassette: Path) -> Iterator[tuple[str, Path]]:
    """Yield the cassettes that there are of a run, with the addresses of their processes."""
    if cassette.exists():
        yield "", cassette
    folder = folder_of(cassette)
    suffix = cassette.name.removeprefix(stem_of(cassette))
    for path in sorted(folder.rglob(f"*{suffix}")):
        address = path.relative_to(folder).as_posix().removesuffix(suffix)
        if path.is_file() and not path.name.startswith(".") and not _BESIDE.search(address):
            yield address, path


_BESIDE = re.compile(r"\.(part-.+-[0-9a-f]{8}|derived|recovered(-\d+)?)$")
"""How the names of cassettes end that are not yet, or not, those of a process."""


def part_of(path: Path, member: str) -> Path:
    """Return where one of several processes records that share a cassette."""
    suffix = path.name.removeprefix(stem_of(path))
    return path.with_name(f"{stem_of(path)}.part-{member}-{secrets.token_hex(4)}{suffix}")
