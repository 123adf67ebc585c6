"""A call that changes its arguments changes them again in a replay."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.usefixtures("project")


@dataclass
class Order:
    """A class of the program."""

    rows: list[str] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True, slots=True)
class Frozen:
    """One that cannot be assigned to, and holds what can be changed."""

    rows: list[str]


class Basket(BaseModel):
    """A model of pydantic."""

    rows: list[str] = []
    sums: dict[str, int] = {}


def twice(program: Callable[[], Any], **options: Any) -> tuple[Any, Any, Any]:
    """Return the results of a program as it's recorded and as it's replayed, and the report of the replay."""
    with use_cassette("c", mode="all", **options):
        recorded = program()
    with use_cassette("c", **options) as cassette:
        return recorded, program(), cassette.report


def changing(change: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a call that does something to its argument."""

    @boundary("tool", name="change")
    def call(value: Any) -> None:
        change(value)

    return call


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "append": (list, lambda value: value.append("x")),
    "insert": (lambda: [1, 2], lambda value: value.insert(0, 0)),
    "remove": (lambda: [1, 2, 3], lambda value: value.remove(2)),
    "clear": (lambda: [1, 2, 3], list.clear),
    "sort": (lambda: [3, 1, 2], list.sort),
    "dict": (lambda: {"a": 1, "b": 2}, lambda value: value.update(b=3, c=value.pop("a"))),
    "ordered": (lambda: OrderedDict(a=1, b=2), lambda value: value.move_to_end("a")),
    "default": (lambda: defaultdict(list), lambda value: value["a"].append(1)),
    "set": (lambda: {1, 2}, lambda value: (value.add(3), value.discard(1))),
    "bytes": (lambda: bytearray(b"ab"), lambda value: value.extend(b"c")),
    "deque": (lambda: deque([1, 2, 3]), lambda value: value.rotate(1)),
    "nested": (lambda: {"a": [{"b": []}]}, lambda value: value["a"][0]["b"].append(1)),
    "in a tuple": (lambda: ([1], "x"), lambda value: value[0].append(2)),
    "dataclass": (Order, lambda value: vars(value).update(rows=["x"], total=1)),
    "frozen dataclass": (lambda: Frozen([]), lambda value: value.rows.append("x")),
    "model": (Basket, lambda value: (value.rows.append("x"), value.sums.update(x=1))),
    "list of objects": (lambda: [Order(), Order()], lambda value: value[1].rows.append("x")),
}


@pytest.mark.parametrize(("make", "change"), CHANGES.values(), ids=CHANGES)
def test_a_replay_changes_the_argument(make: Callable[[], Any], change: Callable[[Any], object]) -> None:
    """The caller's object is as it was after the recorded call, whatever it is; repeated calls add up."""
    call, before = changing(change), make()

    def program() -> Any:
        value = make()
        with suppress(KeyError, ValueError):
            call(value)
            call(value)
        return value

    recorded, replayed, report = twice(program)
    assert recorded == replayed != before
    assert (repr(recorded), report.nondeterminism) == (repr(replayed), ())


def test_arrays() -> None:
    """An array of numpy is changed in place; one that has changed its size can't be, and the report says so."""

    def assign(value: Any, key: Any, item: Any) -> None:
        """Assign an item."""
        value[key] = item

    numpy = pytest.importorskip("numpy")
    for change in (lambda value: assign(value, 0, 9), lambda value: value.resize(3, refcheck=False)):
        call = changing(change)

        def program(call: Callable[[Any], None] = call) -> Any:
            array = numpy.zeros(2)
            call(array)
            return array.tolist()

        recorded, replayed, report = twice(program)
        assert (recorded == replayed) == (not report.entropy)
    assert report.entropy == ("tool change changed its argument value in the recording, which a replay can't do",)


def test_other_names_of_what_is_inside_see_the_change() -> None:
    """Not only the argument is the caller's own object, but also what it holds."""

    def change(value: Any) -> None:
        value["rows"].append(1)
        value["orders"][0].total = 7
        value["orders"].insert(0, Order(["new"]))

    call = changing(change)

    def program() -> Any:
        rows, order = [0], Order(["old"])
        value: dict[str, Any] = {"rows": rows, "orders": [order]}
        orders = value["orders"]
        call(value)
        return rows, orders, value["rows"] is rows

    recorded, replayed, _ = twice(program)
    assert recorded == replayed == ([0, 1], [Order(["new"]), Order(["old"], 7)], True)


@boundary("tool")
async def afill(rows: list[str]) -> int:
    """Change an argument while others run."""
    await asyncio.sleep(0)
    rows.append("x")
    return len(rows)


@boundary("chat")
def stream(rows: list[str]) -> Iterator[str]:
    """Change an argument with each chunk."""
    for piece in "abc":
        rows.append(piece)
        yield piece


@boundary("chat")
async def astream(rows: list[str]) -> AsyncIterator[str]:
    """Change an argument with each chunk."""
    for piece in "abc":
        rows.append(piece)
        yield piece


@boundary("tool")
def fails(rows: list[str]) -> None:
    """Change an argument, and raise."""
    rows.append("x")
    raise ValueError("no")


def awaited() -> list[str]:
    """Await a call."""
    rows: list[str] = []
    assert asyncio.run(afill(rows)) == 1
    return rows


def streamed() -> list[str]:
    """Read a stream to its end."""
    rows: list[str] = []
    assert list(stream(rows)) == ["a", "b", "c"]
    return rows


def streamed_in_part() -> list[str]:
    """Leave a stream."""
    rows: list[str] = []
    chunks: Any = stream(rows)
    next(chunks)
    chunks.close()
    return rows


def streamed_asynchronously() -> list[str]:
    """Read an asynchronous stream."""
    rows: list[str] = []

    async def read() -> list[str]:
        return [piece async for piece in astream(rows)]

    assert asyncio.run(read()) == ["a", "b", "c"]
    return rows


def failed() -> list[str]:
    """Catch an error."""
    rows: list[str] = []
    with pytest.raises(ValueError, match="no"):
        fails(rows)
    return rows


@pytest.mark.parametrize("program", [awaited, streamed, streamed_in_part, streamed_asynchronously, failed])
def test_each_shape_of_a_call(program: Callable[[], list[str]]) -> None:
    """A call that is awaited, one that streams, one whose stream is left, and one that raises."""
    recorded, replayed, _ = twice(program)
    assert recorded == replayed != []


def test_by_any_parameter() -> None:
    """Arguments in `*args` and `**kwargs`, and a list called `messages`, are arguments too."""

    @boundary("chat")
    def call(messages: list[str], *rest: list[str], **named: list[str]) -> None:
        for value in (messages, *rest, *named.values()):
            value.append("x")

    def program() -> Any:
        given: list[list[str]] = [[], [], []]
        call(given[0], given[1], other=given[2])
        return given

    recorded, replayed, _ = twice(program)
    assert recorded == replayed == [["x"]] * 3


def test_a_call_that_changes_nothing_records_nothing_of_it() -> None:
    """The file has no such part, and has the first version of the format."""
    call = changing(len)
    twice(lambda: call([1, {"a": [2]}]))
    text = Path("cassettes/c.yaml").read_text()
    assert text.startswith("agenttape: 1\n")
    (item,) = open_cassette("cassettes/c.yaml").interactions()
    assert item.outcome.arguments == {}


def test_secrets_in_changed_arguments_are_redacted() -> None:
    """What a call puts into its argument is redacted like its result."""
    secret = "sk-proj-" + "a1B2" * 12
    call = changing(lambda value: value.append(secret))

    def program() -> Any:
        value: list[str] = []
        call(value)
        return value

    recorded, replayed, _ = twice(program)
    assert secret not in Path("cassettes/c.yaml").read_text()
    assert recorded == [secret]
    assert replayed[0].startswith("[REDACTED:")


def test_a_change_that_cannot_be_recorded_makes_the_recording_lossy() -> None:
    """A replay refuses the call with the reason, rather than leave the argument as it was."""
    call = changing(lambda value: value.append(object()))
    with use_cassette("c", mode="all"):
        call([])
    with (
        pytest.raises(CassetteMissError, match="changed its argument value to what can't be recorded"),
        use_cassette("c"),
    ):
        call([])


def test_a_miss_changes_nothing() -> None:
    """A call without a recording leaves its argument alone."""
    call = changing(lambda value: value.append("x"))
    with use_cassette("c", mode="all"):
        call([])
    value = ["other"]
    with pytest.raises(CassetteMissError), use_cassette("c", on_unused="ignore"):
        call(value)
    assert value == ["other"]


def test_a_tool_that_is_stepped_into_changes_its_argument_itself() -> None:
    """Its code runs in a replay, so nothing is applied twice, and the cassette stays the same."""

    @boundary("chat")
    def ask(question: str) -> str:
        return question.upper()

    @boundary("tool")
    def fill(rows: list[str]) -> None:
        rows.append(ask("x"))

    def program() -> Any:
        rows: list[str] = []
        fill(rows)
        return rows

    recorded, replayed, report = twice(program)
    assert recorded == replayed == ["X"]
    assert len(report.stepped_into) == 1
    before = Path("cassettes/c.yaml").read_bytes()
    with use_cassette("c", mode="new_episodes"):
        program()
    assert Path("cassettes/c.yaml").read_bytes() == before


def test_a_method_changes_its_object() -> None:
    """What a method assigns, appends or inserts is there after a replay, in the same list; other attributes stay."""

    class Till:
        """An object whose methods are boundaries, and change what it holds."""

        def __init__(self) -> None:
            self.total, self.last, self.client = 0, "", None
            self.paid: list[int] = []
            self.orders: dict[str, Order] = {}
            self.many = list(range(2_000))

        @boundary("tool")
        def pay(self, amount: int, order: str = "a") -> int:
            """Pay, and fail for nothing."""
            if not amount:
                self.last = "nothing"
                raise ValueError("nothing")
            self.client = self.client or object()
            self.total += amount
            self.paid.append(amount)
            self.orders[order] = Order([order], amount)
            self.many.append(amount)
            return amount

        @boundary
        async def apay(self, amount: int) -> None:
            """Pay while others wait."""
            await asyncio.sleep(0)
            self.total += amount

        @boundary
        def stream(self) -> Iterator[int]:
            """Count what was read."""
            for number in range(3):
                self.total += 1
                yield number

        def state(self) -> Any:
            """What it holds."""
            return self.total, self.last, self.paid, self.orders

    def program() -> Any:
        till = Till()
        paid, seen = till.paid, [till.pay(2, "a"), till.pay(3, "b")]
        with suppress(ValueError):
            till.pay(0)
        seen += till.stream()
        asyncio.run(till.apay(5))
        return till.state(), till.paid is paid, seen

    recorded, replayed, report = twice(program)
    assert recorded == replayed
    assert recorded[0][0] == 2 + 3 + 3 + 5
    assert report.entropy == ()
    assert "many" not in Path("cassettes/c.yaml").read_text()


def test_a_method_that_changes_nothing_records_nothing() -> None:
    """An object that is only read, and the client that its first call makes, leave no trace in the file."""

    class Shop:
        def __init__(self) -> None:
            self.client: Any = None

        @boundary("tool")
        def ask(self, what: str) -> str:
            self.client = self.client or asyncio.Event()
            return what

    with use_cassette("c", mode="all"):
        shop = Shop()
        shop.ask("x")
        shop.ask("y")
    assert [item.outcome.arguments for item in open_cassette("cassettes/c.yaml").interactions()] == [{}, {}]
    assert "self" not in Path("cassettes/c.yaml").read_text()
