"""A recorded exception is raised again as its own type with its attributes, and nothing is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ReplayedError
from agenttape_core.schema import PYTHON_VALUES, RecordedError
from agenttape_core.session.recorded_errors import rebuild_error, record_error

from .world import World, call


class RateLimitError(Exception):
    """As clients define them: required arguments of its own, attributes, some that cannot be recorded."""

    def __init__(self, status: int, *, retry_after: float) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.retry_after = retry_after
        self.connection = object()


class DiskError(OSError):
    def __init__(self, code: int) -> None:
        super().__init__(code, "disk trouble")
        self.code = code


class SlottedError(ValueError):
    __slots__ = ("place",)

    def __init__(self, place: str) -> None:
        super().__init__("bad")
        self.place = place


class PickyError(Exception):
    def __new__(cls, *, needed: int) -> PickyError:  # noqa: PYI034
        return super().__new__(cls)

    def __init__(self, *, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


class GoneError(LookupError):
    """Its name is taken away before the replay."""


class Group(ExceptionGroup[Exception]):
    pass


def raised_by(action: Callable[[], Any]) -> Exception:
    """Return what an action raises."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError


ERRORS = [
    ValueError(),
    ValueError("text", 3, {"a": (1, 2)}),
    raised_by(lambda: {}["missing"]),  # type: ignore[index]
    raised_by(lambda: open("/no/such/file")),  # noqa: SIM115, PTH123
    OSError(98, "in use"),
    OSError("only text"),
    TimeoutError("slow"),
    raised_by(b"\xff".decode),
    raised_by("\ud800".encode),
    raised_by(lambda: json.loads("{")),
    raised_by(lambda: __import__("no_such_module_anywhere")),
    raised_by(lambda: compile("a b", "file.py", "exec")),
    raised_by(lambda: "".nothing),  # type: ignore[attr-defined]
    StopIteration(3),
    subprocess.CalledProcessError(2, ["ls"], b"out"),
    RateLimitError(429, retry_after=1.5),
    DiskError(5),
    SlottedError("here"),
    PickyError(needed=1),
    ExceptionGroup(
        "several", [ValueError("a"), RateLimitError(500, retry_after=0), ExceptionGroup("in", [KeyError(1)])]
    ),
    Group("mine", [OSError(2, "x")]),
]


def through_a_file(error: Exception) -> RecordedError:
    """Record an exception as text and read it again."""
    return RecordedError.model_validate(json.loads(record_error(error, PYTHON_VALUES).model_dump_json()))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_as_its_own_type(error: Exception) -> None:
    """Type, text, arguments and attributes are those of the original."""

    def seen(error: Any) -> dict[str, Any]:
        """Return all that a handler can see of an exception."""
        hidden = {"obj", "connection", "exceptions", "args", "with_traceback", "characters_written"}
        visible = {name for name in dir(error) if not name.startswith("__")} - hidden
        return {name: value for name in visible if not callable(value := getattr(error, name, None))}

    again = rebuild_error(through_a_file(error), PYTHON_VALUES)
    assert again is not error
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert repr(again.args) == repr(error.args)
    assert seen(again) == seen(error)


def test_message_that_no_file_can_hold() -> None:
    """Half of a surrogate pair comes back in the arguments; what readers are told is escaped."""
    error = ValueError("half of a pair: \ud800")
    record = through_a_file(error)
    assert record.message == "half of a pair: \\ud800"
    assert rebuild_error(record, PYTHON_VALUES).args == error.args


def test_groups_hold_their_errors() -> None:
    """A replayed group can be taken apart by `except*` as the original."""
    record = through_a_file(ExceptionGroup("g", [ValueError("a"), RateLimitError(429, retry_after=2)]))
    caught = []
    try:
        raise rebuild_error(record, PYTHON_VALUES)
    except* RateLimitError as group:
        caught += [error.retry_after for error in group.exceptions if isinstance(error, RateLimitError)]
    except* ValueError as group:
        caught += [str(error) for error in group.exceptions]
    assert sorted(caught, key=str) == [2, "a"]


def test_notes() -> None:
    """Notes are part of an exception."""
    error = ValueError("x")
    error.add_note("tried twice")
    assert rebuild_error(through_a_file(error), PYTHON_VALUES).__notes__ == ["tried twice"]


def test_what_it_was_raised_from() -> None:
    """Handlers that look at the cause of an error (`raise … from`) find it, and the causes of that one."""
    limit, slotted = RateLimitError(429, retry_after=1.0), SlottedError("here")
    limit.__cause__, slotted.__cause__ = slotted, DiskError(3)
    error: Any = rebuild_error(through_a_file(limit), PYTHON_VALUES)
    assert type(error.__cause__) is SlottedError
    assert (type(error.__cause__.__cause__), error.__cause__.__cause__.code) == (DiskError, 3)
    assert error.__suppress_context__
    from_none = ValueError("outer")
    from_none.__cause__ = None  # as `raise … from None`
    assert rebuild_error(through_a_file(from_none), PYTHON_VALUES).__suppress_context__
    assert not rebuild_error(through_a_file(ValueError("plain")), PYTHON_VALUES).__suppress_context__


class Order(BaseModel):
    """What is validated."""

    number: int
    words: list[str] = Field(min_length=1)

    @field_validator("words")
    @classmethod
    def _polite(cls, words: list[str]) -> list[str]:
        if "please" not in words:
            raise ValueError("say {please}")
        if "{now}" in words:
            raise PydanticCustomError("impatient", "not {when}", {"when": "now"})
        return words


@pytest.mark.parametrize(
    "given",
    [
        {"number": "x", "words": 1},
        {},
        {"number": 1, "words": []},
        {"number": 1, "words": ["{now}"]},
        {"number": 1, "words": ["please", "{now}"]},
        {"number": object(), "words": ["please"]},
    ],
)
def test_validation_errors(given: Any) -> None:
    """A validation error of pydantic, whose class is made in Rust, is caught as one, and tells all that it told."""
    with pytest.raises(ValidationError) as caught:
        Order.model_validate(given)
    error = rebuild_error(through_a_file(caught.value), PYTHON_VALUES)
    assert type(error) is ValidationError
    assert isinstance(error, ValidationError)
    if type(given.get("number")) is object:  # its text is recorded in the place of what no codec knows
        assert [line["msg"] for line in error.errors()] == [line["msg"] for line in caught.value.errors()]
        return
    assert (str(error), repr(error)) == (str(caught.value), repr(caught.value))
    assert repr(error.errors()) == repr(caught.value.errors())


def test_marks_on_validation_errors() -> None:
    """What a framework or the program has set on a validation error is on it again, besides its notes."""
    with pytest.raises(ValidationError) as caught:
        Order.model_validate({})
    caught.value._is_of_an_answer = True  # type: ignore[attr-defined]
    caught.value.add_note("while asking")
    error = rebuild_error(through_a_file(caught.value), PYTHON_VALUES)
    assert vars(error) == {"_is_of_an_answer": True, "__notes__": ["while asking"]}
    assert str(error) == str(caught.value)


def test_validation_errors_of_another_version() -> None:
    """One in words or of a sort that this version does not have says what was recorded; without parts, its text."""
    with pytest.raises(ValidationError) as caught:
        Order.model_validate({"number": "x", "words": ["please"]})
    record = through_a_file(caught.value)
    (line,) = record.attributes["line_errors"]
    for changed in ({"msg": "No {number}."}, {"type": "of_the_future", "msg": "No {number}."}):
        attributes = {**record.attributes, "line_errors": [{**line, **changed}]}
        other = record.model_copy(update={"attributes": attributes, "message": "No {number}."})
        error: Any = rebuild_error(other, PYTHON_VALUES)
        assert [each["msg"] for each in error.errors()] == ["No {number}."]
    old = rebuild_error(record.model_copy(update={"attributes": {}}), PYTHON_VALUES)
    assert isinstance(old, ReplayedError)
    assert isinstance(old, ValueError)


def test_what_cannot_be_recorded_is_left_out() -> None:
    """An attribute without a codec is not kept, an argument without one becomes text; the error still is recorded."""
    record = record_error(RateLimitError(429, retry_after=1), PYTHON_VALUES)
    assert set(record.attributes) == {"status", "retry_after"}
    assert record_error(ValueError(object), PYTHON_VALUES).args == ["<class 'object'>"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_type_that_is_not_loaded(error: Exception) -> None:
    """An error of a type that is not loaded fits the `except` clauses of its nearest loaded base, and says the same."""
    name = f"{type(error).__module__}:{type(error).__qualname__}"
    record = through_a_file(error)
    unknown = record.model_copy(update={"type": "not_loaded.errors:Box.Strange", "bases": [name, *record.bases]})
    again = rebuild_error(unknown, PYTHON_VALUES)
    assert isinstance(again, ReplayedError)
    assert isinstance(again, type(error))
    assert str(again) == f"not_loaded.errors.Box.Strange: {error}"
    assert type(again).__name__ == "Strange"
    if isinstance(error, OSError):
        assert isinstance(again, OSError)
        assert (again.errno, again.filename) == (error.errno, error.filename)


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("gone:Error", ["gone:Base", "builtins:object"]),
        ("builtins:SystemExit", []),
        ("agenttape_core.errors:CassetteMissError", []),
        ("os:system", []),
        ("builtins:int", ["builtins:int"]),
        ("builtins:ValueError.mro", []),
        ("", []),
    ],
)
def test_names_that_are_no_errors(name: str, bases: list[str]) -> None:
    """A name that stands for no loaded `Exception` gives a stand-in; it never halts, calls or constructs anything."""
    again = rebuild_error(RecordedError(type=name, message="m", args=[1], bases=bases), PYTHON_VALUES)
    assert type(again) is ReplayedError
    assert again.type_name == name.replace(":", ".")


def test_no_constructor_is_called() -> None:
    """Neither `__init__` nor `__new__` of a recorded type runs: it may do anything."""
    assert rebuild_error(through_a_file(PickyError(needed=7)), PYTHON_VALUES).args == (7,)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RateLimitError, "__init__", lambda *_: pytest.fail("constructed"))
        assert isinstance(
            rebuild_error(RecordedError(type=f"{__name__}:RateLimitError", message=""), PYTHON_VALUES), RateLimitError
        )


def test_nothing_is_imported() -> None:
    """A type of the standard library whose module is not imported stays unimported."""
    sys.modules.pop("this", None)
    rebuild_error(RecordedError(type="this:Error", message="", bases=["this:Base"]), PYTHON_VALUES)
    assert "this" not in sys.modules


def test_in_a_session(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A boundary that raised raises again, also when the type has gone meanwhile."""

    def fail() -> None:
        world.reach("fail")
        raise GoneError("key")

    with use_cassette("e", mode="once"), pytest.raises(GoneError, match="key"):
        call("t", fail)
    with use_cassette("e"), pytest.raises(GoneError, match="key"):
        call("t", fail)
    monkeypatch.delitem(globals(), "GoneError")
    with use_cassette("e"), pytest.raises(LookupError, match="GoneError: key") as caught:
        call("t", fail)
    assert isinstance(caught.value, ReplayedError)
    assert world.reached == ["fail"]


def test_read_by_people() -> None:
    """A cassette names the type and the message of an error."""

    def fail() -> None:
        raise RateLimitError(429, retry_after=1.5)

    with use_cassette("e", mode="once"), pytest.raises(RateLimitError):
        call("t", fail)
    (interaction,) = open_cassette("cassettes/e.yaml").interactions()
    assert interaction.outcome.error is not None
    assert interaction.outcome.error.message == "status 429"
    assert interaction.outcome.error.attributes == {"status": 429, "retry_after": 1.5}
