"""Values and errors of classes that a function defines are of the class that the replaying function has defined."""

# ruff: noqa: D103 - what is no test says by its name what it is

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pydantic import BaseModel

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import UnrecordableValueError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def model() -> tuple[type, Any]:
    class Answer(BaseModel):
        n: int
        inner: Answer | None = None

    Answer.model_rebuild(_types_namespace={"Answer": Answer})
    return Answer, Answer(n=1, inner=Answer(n=2))


def dataclass() -> tuple[type, Any]:
    @dataclasses.dataclass
    class Answer:
        n: int

    return Answer, Answer(1)


def choice() -> tuple[type, Any]:
    class Answer(enum.Enum):
        YES = "yes"

    return Answer, Answer.YES


def fields() -> tuple[type, Any]:
    class Answer(NamedTuple):
        n: int

    return Answer, Answer(1)


MAKERS: list[Callable[[], tuple[type, Any]]] = [model, dataclass, choice, fields]


@pytest.mark.parametrize("make", MAKERS)
def test_a_value_is_of_the_class_that_this_run_defined(make: Callable[[], tuple[type, Any]], tmp_path: Path) -> None:
    """Neither is the class of the recording meant, which may still be alive, nor is it refused to record its values."""

    def run() -> tuple[type, Any, Any]:
        cls, value = make()
        return cls, value, boundary("tool", name="ask")(lambda: [value])()

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        before, _, _ = run()
    with use_cassette(tmp_path / "run.yaml") as cassette:
        cls, value, (replayed,) = run()
    assert type(replayed) is cls is not before
    assert replayed == value
    assert len(cassette.report.replayed) == 1


def test_an_error_is_caught_by_the_class_that_this_run_defined(tmp_path: Path) -> None:
    """An error of a local class is raised again as that, so that its handlers and retries see it."""

    def run() -> Exception:
        class TooBusyError(ConnectionError): ...

        def ask() -> None:
            raise TooBusyError("later", 5)

        with pytest.raises(TooBusyError) as raised:
            boundary("tool", name="ask")(ask)()
        return raised.value

    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode):
            assert run().args == ("later", 5)


def test_of_two_classes_of_one_name_only_the_last_is_recorded(tmp_path: Path) -> None:
    """A replay could not know which of the two is meant, so a value of the first is refused."""
    first, last = model(), model()
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        assert boundary("call", name="ask")(lambda: last[1])() == last[1]
    with pytest.raises(UnrecordableValueError, match="found again"), use_cassette(tmp_path / "run.yaml", mode="all"):
        boundary("call", name="ask")(lambda: first[1])()
