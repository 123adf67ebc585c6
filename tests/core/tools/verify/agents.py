"""Functions that child processes replay: sound ones, and ones that are each broken in one way."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import locale
import os
import shutil
import signal
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agenttape_core import use_cassette

from ...session.world import call

TEA = ("tea", "coffee", "water", "milk", "juice")
SECRET = "-".join(["sk", "proj", "Zq8" * 16])  # put together here, so that no scanner takes it for a real one


def ask(name: str, **body: Any) -> str:
    """Call a tool that never answers the same."""
    answer: str = call(name, lambda: f"{name} {os.urandom(4).hex()}", **body)
    return answer


def sound() -> dict[str, Any]:
    """Do what agents do: call tools, print, write a file, use ids and time."""
    found = ask("search", words=sorted(set(TEA)))
    page = ask("fetch", url=found)
    sys.stdout.write(f"{page}\n")
    Path("notes.txt").write_text(page, encoding="utf-8")
    return {"page": page, "id": uuid.uuid4(), "at": dt.datetime.now(dt.UTC), "seen": {found, page}}


async def parallel() -> list[str]:
    """Call tools in tasks whose order of completion is not that of their start."""
    turns = [asyncio.Event() for _ in range(3)]
    turns[-1].set()

    async def one(number: int) -> str:
        await turns[number].wait()
        answer = ask("search", number=number)
        turns[number - 1].set()
        return answer

    return await asyncio.gather(*map(one, range(3)))


def opens_its_own() -> str:
    """Open a cassette, in a mode that would record, of a folder that is relative."""
    with use_cassette("tapes/own.yaml", mode="once", live={"tool"}):
        return ask("search")


async def stream() -> AsyncIterator[str]:
    """Yield what tools say."""
    yield ask("search")
    yield ask("fetch")


def chunks() -> Iterator[str]:
    """Yield what a tool says, from no coroutine."""
    yield ask("search")


class Plain:
    """An object without a repr of its own."""

    def method(self) -> None:
        """Do nothing."""


def broken() -> dict[str, Any]:
    """Let each part of the environment in, and more."""
    sys.stdout.write("-" * (shutil.get_terminal_size().columns // 10))
    sys.stderr.write(f"{set(TEA)} {SECRET}")
    Path("drinks").write_text("\n".join(["drinks", *set(TEA)]), encoding="utf-8")
    Path(next(iter(set(TEA)))).mkdir()
    return {
        "answers": {name: ask(name) for name in set(TEA)},
        "set": list(set(TEA)),
        "zone": dt.datetime(2024, 1, 1, tzinfo=dt.UTC).astimezone().isoformat(),
        "locale": locale.setlocale(locale.LC_ALL, ""),
        "folder": Path.cwd().name,
        "switch": sys.getswitchinterval() < 0.001,
        "object": repr(Plain()),
        "id": str(uuid.uuid4()),
        "random": os.urandom(8).hex(),
        "secret": [f"{name} {SECRET}" for name in set(TEA)],
        "sound": 1,
    }


def asks_in_another_order() -> str:
    """Ask with words in the order of a set."""
    return ask("search", words=list(set(TEA)))


def raises() -> None:
    """Raise what every replay raises, after a call."""
    ask("search")
    raise ValueError("no such city")


def asks_nothing() -> int:
    """Make no call."""
    return 1


def returns_an_object() -> Plain:
    """Return what has no codec."""
    return Plain()


def crashes() -> None:
    """Die of a signal."""
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    """Never return; says who it is to a pipe that it keeps open."""
    if pipe := os.environ.get("TELL_ON"):
        channel = os.open(pipe, os.O_WRONLY)
        os.write(channel, b"x")
    while True:
        time.sleep(60)


# -- what once was wrong with replays, each in a program of its own ---------------------------------------------


@dataclasses.dataclass
class Note:
    """What is written, and when: by a clock that the class has held since it was defined."""

    made: int = dataclasses.field(default_factory=time.monotonic_ns)


class Handler:
    """What is told apart by where it lies in memory."""

    def __init__(self, name: str) -> None:
        self.name = name


_seen: list[str] = []


def remembers() -> dict[str, Any]:
    """Depend on the order of sets of objects, on clocks that are not frozen, on earlier runs."""
    _seen.append("run")
    return {
        "handlers": " ".join(handler.name for handler in {Handler(str(number)) for number in range(12)}),
        "made": Note().made,
        "seen": len(_seen),
    }


def races() -> dict[str, Any]:
    """Depend on who is faster."""
    return {"answers": _answered(), "conversations": _conversations(), "cancelled": asyncio.run(_cancelled())}


def _answered() -> str:
    """Return pieces of work in the order in which they end, which is mostly that of their numbers."""
    ended: list[str] = []
    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            pool.submit(ended.append, str(number))
    return " ".join(ended)


def _conversations() -> str:
    """Return what each of several threads is told, which is what nobody was told before."""
    told, answers = {}, iter(range(8))

    def ask(number: int) -> None:
        told[number] = next(answers)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return " ".join(f"{number}: {told[number]}" for number in sorted(told))


async def _cancelled() -> str:
    """Return which of two calls came first. The other one is cancelled."""
    calls = {asyncio.create_task(asyncio.to_thread(str, number)): number for number in range(8)}
    done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return " ".join(sorted(str(calls[each]) for each in done))
