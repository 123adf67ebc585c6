"""Programs that have put others in the place of locks, processes and sleeps before anything else, as gevent does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.mark.process
def test_sessions_work_after_the_standard_library_was_patched(tmp_path: Path) -> None:
    """What is no longer Python's own is left alone: it has other arguments, methods and ways to wait."""
    patched = dedent("""
        import _thread, subprocess, threading, time

        really_sleep, real_lock = time.sleep, _thread.allocate_lock

        class Releasing:
            def release(self):
                self.real.release()

        class Lock(Releasing):
            def __init__(self):
                self.real = real_lock()

            def acquire(self, blocking=True, timeout=-1):
                return self.real.acquire(blocking, -1 if timeout is None else timeout)

            def __enter__(self):
                return self.acquire(True, None)

            def __exit__(self, *_):
                self.release()

            def _at_fork_reinit(self):
                self.real = real_lock()

            def locked(self):
                return self.real.locked()

        class Popen:
            def wait(self, timeout=None, is_raising=True):
                return 0

            def communicate(self, input=None, timeout=None):
                return "", ""

        def sleep(seconds=0, ref=True):
            really_sleep(seconds)

        _thread.LockType = _thread.allocate_lock = threading.Lock = threading._allocate_lock = Lock
        subprocess.Popen, time.sleep = Popen, sleep
    """)
    program = dedent("""
        from concurrent.futures import ThreadPoolExecutor
        from agenttape_core import boundary, use_cassette

        asked = []

        @boundary("chat")
        def ask(question):
            asked.append(question)
            return question.upper()

        def answers():
            time.sleep()
            time.sleep(0.01, ref=False)
            subprocess.Popen().wait(timeout=1)
            subprocess.Popen().communicate("x", 1)
            with ThreadPoolExecutor(2) as pool:
                return [ask("a"), *pool.map(ask, "bc")]

        with use_cassette("c", mode="all"):
            recorded = answers()
        with use_cassette("c"):
            assert answers() == recorded == ["A", "B", "C"]
        assert sorted(asked) == ["a", "b", "c"]
    """)

    done = subprocess.run(
        [sys.executable, "-c", patched + program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
