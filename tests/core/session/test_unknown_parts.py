"""A version of Python with private parts that we don't know: a session says what isn't in order because of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

LINE = "Python {}.{}.{} has another {} than is known"


@pytest.mark.process
@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ("class", "class of the work of pools"),
        ("way", "way to begin the threads of pools"),
        ("loop", f"event loop ({asyncio.SelectorEventLoop.__module__}.{asyncio.SelectorEventLoop.__qualname__})"),
        ("nothing", ""),
    ],
)
def test_a_part_of_another_shape_is_named_once(changed: str, part: str, tmp_path: Path) -> None:
    """A process warns once and runs as ever; a replay that needs the part names it, with the version."""
    program = dedent("""
        import asyncio, sys, threading, warnings
        from concurrent.futures import ThreadPoolExecutor
        from concurrent.futures import thread as pools

        class Work(pools._WorkItem):
            def __init__(self, later, *args):
                super().__init__(later, *args)

        def begin(*args):
            pass

        if sys.argv[1] == "class":
            pools._WorkItem = Work
        begin.__module__ = pools.__name__ if sys.argv[1] == "way" else __name__

        from agenttape_core import boundary, use_cassette
        from agenttape_core.scheduling import loops

        if sys.argv[1] == "loop":
            loops.is_seen = lambda loop: False  # as if asyncio had other names

        @boundary("tool")
        def look(city):
            return city + "!"

        @boundary("tool")
        async def alook(city):
            return city + "!"

        async def both():
            return await asyncio.gather(alook("Paris"), alook("Rome"), alook("Oslo"))

        def program():
            if sys.argv[1] == "loop":
                return asyncio.run(both())
            thread = threading.Thread(target=begin, args=(1, 2))
            thread.start()
            thread.join()
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(look, ["Paris", "Rome", "Oslo"]))

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for mode in ("once", "replay", "replay"):
                with use_cassette("c", mode=mode) as session:
                    assert program() == ["Paris!", "Rome!", "Oslo!"]
        print([str(each.message).partition(":")[0] for each in warned if each.category is RuntimeWarning])
        print([line.partition(":")[0] for line in session.report.nondeterminism])
    """)

    run = [sys.executable, "-c", program, changed]
    printed = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    line = LINE.format(*sys.version_info[:3], part)
    assert printed.splitlines() == [str([line] if part else [])] * 2
