"""Sleeps in the functions that an integration has named are skipped where a session skips back-off."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.freeze import Frozen, backoff, clock, freezing, register_backoff, sleeping

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

SOURCE = """
import asyncio, time
from time import sleep

def retry(): time.sleep(30)
def retry_by_name(): sleep(30)
async def aretry(): await asyncio.sleep(30)
def watch(): time.sleep(30)
async def awatch(): await asyncio.sleep(30)
def outer(call): call()
"""


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would really be slept."""
    slept: list[float] = []

    async def asleep(seconds: float, result: Any = None) -> Any:
        slept.append(seconds)
        return result

    (stand_in,) = (stand_in for stand_in in clock.STAND_INS if stand_in.__wrapped__ is time.sleep)
    monkeypatch.setattr(stand_in, "__wrapped__", slept.append)
    monkeypatch.setattr(sleeping, "_REAL", asleep)
    return slept


@pytest.fixture
def framework(
    loaded_module: Callable[[str, str], types.ModuleType], monkeypatch: pytest.MonkeyPatch
) -> types.ModuleType:
    """A module with retries that are named, and with other sleeps."""
    monkeypatch.setattr(backoff, "_places", {})
    register_backoff("some_framework", ["retry", "retry_by_name", "aretry", "outer"])
    return loaded_module("some_framework", SOURCE)


@pytest.mark.parametrize("kinds", [("clock",), ()])
async def test_named_functions(framework: Any, slept: list[float], kinds: tuple[str, ...]) -> None:
    """Only the sleeps of named functions are skipped, however they reach the function; the clock passes for all."""
    frozen = Frozen(kinds=kinds, seed="s", clock=0.0, scope=str, skips_backoff=True)
    with freezing(lambda: frozen, kinds):
        framework.retry()
        framework.retry_by_name()
        await framework.aretry()
        assert [seconds for seconds in slept if seconds] == []
        assert frozen.clock == pytest.approx(90, abs=0.01)
        framework.watch()
        await framework.awatch()
        framework.outer(lambda: time.sleep(8))
    assert [seconds for seconds in slept if seconds] == [30, 30, 8]
    assert frozen.clock == pytest.approx(158, abs=0.01)


async def test_only_where_a_session_does(framework: Any, slept: list[float]) -> None:
    """A session that does not skip back-off sleeps, and so does who belongs to none."""
    frozen = Frozen(kinds=["clock"], seed="s", clock=0.0, scope=str)
    for session in (frozen, None):
        with freezing(lambda session=session: session, ["clock"]):  # type: ignore[misc]
            framework.retry()
            await framework.aretry()
    assert slept == [30] * 4
