"""Other tools wrap the functions that sessions wrap, and put back what they found when the session is over."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import NetworkBlockedError
from agenttape_core.integration.patching import Wrappers

from ..kit.foreign_wrappers import frames_in_sessions

if TYPE_CHECKING:
    from pathlib import Path

WRAPPED: list[tuple[Any, str]] = [
    (socket.socket, "send"),
    (socket.socket, "connect"),
    (socket, "gethostbyname"),
    (threading.Thread, "start"),
    (threading.Thread, "join"),
    (ThreadPoolExecutor, "shutdown"),
    (ThreadPoolExecutor, "submit"),
]


@pytest.mark.parametrize("where", WRAPPED, ids=lambda where: f"{where[0].__name__}.{where[1]}")
def test_sessions_and_another_tool_do_not_pile_up_wrappers(where: tuple[Any, str], tmp_path: Path) -> None:
    """A tool that wraps a function in each session, and unwraps it later, never finds more there than at first."""
    found = frames_in_sessions(*where, tmp_path / "run.yaml")
    assert found == found[:1] * len(found)


def test_what_a_tool_puts_back_does_not_stop_the_next_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that begins with a wrapper of the last one in place keeps the process offline."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        monkeypatch.setattr(socket.socket, "connect", socket.socket.connect)
    monkeypatch.undo()
    with socket.socket() as mine, pytest.raises(NetworkBlockedError), use_cassette(tmp_path / "run.yaml"):
        mine.connect(("192.0.2.1", 9))


def test_sessions_put_the_same_wrapper_in_again_and_the_same_function_back(tmp_path: Path) -> None:
    """Every session has the wrapper that the first one made; between them each function is the very one of before."""
    before = [vars(owner).get(name) for owner, name in WRAPPED]
    inside, outside = [], []
    for _ in range(2):
        with use_cassette(tmp_path / "run.yaml", mode="all"):
            inside.append([vars(owner).get(name) for owner, name in WRAPPED[3:]])
        outside.append([vars(owner).get(name) for owner, name in WRAPPED])
    assert all(one is other for one, other in zip(*inside, strict=True))
    assert all(one is not other for one, other in zip(inside[0], before[3:], strict=True))
    assert all(one is other for found in outside for one, other in zip(found, before, strict=True))


class _Base:
    def act(self) -> str:
        return "base"


class _Derived(_Base):
    pass


def _shouting(real: Any) -> Any:
    return lambda self: real(self).upper()


def test_what_was_replaced_since_is_wrapped_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrappers are made again for another function, also for one that a class inherits, and once more for the first."""
    for owner in (_Base, _Derived):
        wrappers = Wrappers(lambda wrappers, owner=owner: wrappers.patch(owner, "act", _shouting))
        with wrappers:
            assert _Derived().act() == "BASE"
        with monkeypatch.context() as patched:
            patched.setattr(_Base, "act", lambda _: "mock")
            with wrappers, wrappers:
                assert _Derived().act() == "MOCK"
            assert _Derived().act() == "mock"
        with wrappers:
            assert _Derived().act() == "BASE"
        assert "act" not in vars(_Derived)
        assert _Derived().act() == "base"


def test_none_of_several_wrappers_stays_if_one_cannot_be_put_in() -> None:
    """What fails while wrappers are put in takes those with it that were put in before."""
    wrappers = Wrappers()
    wrappers.patch(_Base, "act", _shouting)
    wrappers.exchange(lambda: 1 / 0, lambda: None)
    real = _Base.act
    with pytest.raises(ZeroDivisionError), wrappers:
        pass
    assert _Base.act is real


@pytest.mark.parametrize("handler_first", [True, False])
def test_wrappers_that_end_in_another_order_than_they_began_leave_nothing(handler_first: bool, tmp_path: Path) -> None:
    """Of two wrappers of a function the one that ends last is in force until then, and its end leaves none of them."""
    real, jobs = ThreadPoolExecutor.submit, list[str]()

    def noting(real: Any) -> Any:
        def submit(self: Any, *args: Any) -> Any:
            jobs.append("noted")
            return real(self, *args)

        return submit

    noted = Wrappers(lambda wrappers: wrappers.patch(ThreadPoolExecutor, "submit", noting))
    session = use_cassette(tmp_path / "run.yaml", mode="all")
    first, last = (noted, session) if handler_first else (session, noted)
    first.__enter__()
    last.__enter__()
    first.__exit__(None, None, None)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: "done").result() == "done"
    if not handler_first:
        assert jobs == ["noted"]
    last.__exit__(None, None, None)
    assert ThreadPoolExecutor.submit is real
