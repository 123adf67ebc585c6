"""Programs without a framework, on functions that are boundaries."""

import asyncio
import concurrent.futures
import random
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from queue import SimpleQueue
from typing import Any

from agenttape_core import boundary
from agenttape_core.testing import Capture, Program

from .outside import Outside
from .rows import ONCE_OR_TWICE, RACES, row


class Asks:
    """What the programs ask: a function in four shapes."""

    def __init__(self, world: Outside) -> None:
        @boundary("call")
        def ask(what: str) -> str:
            return world.ask(what)

        @boundary("call")
        async def aask(what: str) -> str:
            return await world.aask(what)

        @boundary("call")
        def stream(what: str) -> Iterator[str]:
            for word in world.said(what).split(" "):
                world.pause()
                yield word

        @boundary("call")
        async def astream(what: str) -> AsyncIterator[str]:
            for word in world.said(what).split(" "):
                await world.apause()
                yield word

        self.ask, self.aask, self.stream, self.astream = ask, aask, stream, astream


Body = Callable[[Asks, Capture], Any]


def _run(make: Callable[[], tuple[Body, Asks]]) -> Program:
    def program(capture: Capture) -> Any:
        body, asks = make()
        return body(asks, capture)

    return program


def _arun(make: Callable[[], tuple[Body, Asks]]) -> Program:
    async def program(capture: Capture) -> Any:
        body, asks = make()
        return await body(asks, capture)

    return program


THREADS = {"threads": _run}
LOOP = {"asyncio": _arun}


def body(drivers: Any, replays: int = RACES, **options: Any) -> Callable[[Body], Body]:
    """Put a function of what it asks, and of its capture, into the table."""

    def put(function: Body) -> Body:
        def make(world: Outside) -> tuple[Body, Asks]:
            return function, Asks(world)

        make.__name__, make.__doc__ = function.__name__, function.__doc__
        row("plain Python", drivers, replays=replays, **options)(make)
        return function

    return put


@body(LOOP)
async def gathered(asks: Asks, capture: Capture) -> Any:
    """Gathers four tasks that write to one list, twice each."""
    shared: list[Any] = []

    async def work(n: int) -> str:
        shared.append([n, await asks.aask("the same")])
        shared.append([n, uuid.uuid4(), time.time(), await asks.aask(f"more {len(shared)}")])
        return f"{n} {len(shared)}"

    return [await asyncio.gather(*(work(n) for n in range(4))), shared]


@body(LOOP)
async def first_completed(asks: Asks, capture: Capture) -> Any:
    """Waits for the first of four, then for the next, and asks with what it knows by then."""
    left = {asyncio.create_task(asks.aask(f"part {n}"), name=f"{n}") for n in range(4)}
    order: list[Any] = []
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        order += [[each.get_name(), each.result()] for each in done]
        order.append(await asks.aask(f"known {len(order)} {order[-1]}"))
    return order


@body(LOOP)
async def as_completed(asks: Asks, capture: Capture) -> Any:
    """Takes equal questions as they are answered."""
    order = [await each for each in asyncio.as_completed([asks.aask("the same") for _ in range(5)])]
    return [order, await asks.aask(f"in this order: {order}")]


@body(LOOP)
async def task_groups(asks: Asks, capture: Capture) -> Any:
    """Works with a queue between producers and consumers in a task group."""
    queue: asyncio.Queue[Any] = asyncio.Queue(2)
    eaten: list[Any] = []

    async def produce(n: int) -> None:
        for item in range(2):
            await queue.put([n, item, await asks.aask(f"make {n} {item}")])

    async def consume(n: int) -> None:
        for _ in range(2):
            eaten.append([n, await asks.aask(f"eat {await queue.get()}"), random.random()])  # noqa: PERF401 - it is shared

    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(produce(n))
            group.create_task(consume(n))
    return eaten


@body(LOOP)
async def eager_tasks(asks: Asks, capture: Capture) -> Any:
    """Begins the tasks of a group before it has made the next one, from Python 3.12 on."""
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    order: list[Any] = []

    async def work(n: int) -> int:
        order.append([n, uuid.uuid4()])
        if n % 2:
            order.append([n, await asks.aask("the same")])
        order.append([n, await asks.aask(f"known {len(order)}")])
        return n

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(n)) for n in range(5)]
        order.append("all are made")
    return [order, [task.result() for task in tasks]]


@body(LOOP)
async def streams(asks: Asks, capture: Capture) -> Any:
    """Reads three streams at once."""

    async def read(n: int) -> None:
        async for word in asks.astream(f"a stream of {n} words"):
            capture.add("stream", [n, word])

    await asyncio.gather(*(read(n) for n in range(3)))


@body(LOOP)
async def timeouts_and_hedges(asks: Asks, capture: Capture) -> Any:
    """Gives up what is late, takes the first of three, cancels the rest."""
    try:
        late = await asyncio.wait_for(asks.aask("late?"), 0.0005)
    except TimeoutError:
        late = "too late"
    tasks = [asyncio.create_task(asks.aask(f"hedge {n}")) for n in range(3)]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in left:
        each.cancel()
    return [
        late,
        [each.result() for each in done],
        [repr(x) for x in await asyncio.gather(*left, return_exceptions=True)],
    ]


@body(LOOP)
async def sleeps_against_calls(asks: Asks, capture: Capture) -> Any:
    """Lets a timer and calls race, and sleeps in parallel."""
    order: list[Any] = []

    async def nap(n: int) -> None:
        await asyncio.sleep(0.001 * n)
        order.append([f"nap {n}", datetime.now().isoformat()])  # noqa: DTZ005 - the clock of a program

    async def ask(n: int) -> None:
        order.append([f"ask {n}", await asks.aask(f"{n}"), time.time()])

    await asyncio.gather(nap(1), ask(0), nap(2), ask(1), ask(2))
    return order


@body(LOOP)
async def work_in_threads(asks: Asks, capture: Capture) -> Any:
    """Lets calls in threads and calls of the loop race."""
    order: list[Any] = []

    async def ask(n: int) -> None:
        order.append(await (asyncio.to_thread(asks.ask, f"{n}") if n % 2 else asks.aask(f"{n}")))

    await asyncio.gather(*(ask(n) for n in range(6)))
    return order


@body(THREADS)
def pools(asks: Asks, capture: Capture) -> Any:
    """Takes what a pool has done as it comes, by `as_completed`, with a pool that is smaller than the work."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(asks.ask, "the same") for _ in range(6)]
        order = [each.result() for each in concurrent.futures.as_completed(futures)]
    return [order, asks.ask(f"in this order: {order}")]


@body(THREADS)
def first_of_a_pool(asks: Asks, capture: Capture) -> Any:
    """Waits for the first of a pool, and then for all."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(asks.ask, f"{n}") for n in range(4)]
        done, left = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
        first = sorted(each.result() for each in done)
        return [first, asks.ask(f"first {first}"), len(left), list(pool.map(asks.ask, "xyz"))]


@body(THREADS)
def threads(asks: Asks, capture: Capture) -> Any:
    """Starts threads by hand that write to one list between their calls."""
    order: list[Any] = []

    def work(n: int) -> None:
        for turn in range(2):
            order.append([n, turn, asks.ask(f"{n} {turn}")])  # noqa: PERF401 - it is shared

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return order


@body(THREADS)
def streams_of_threads(asks: Asks, capture: Capture) -> Any:
    """Reads three streams in threads, through one queue."""
    queue: SimpleQueue[Any] = SimpleQueue()

    def read(n: int) -> None:
        for word in asks.stream(f"a stream of {n} words"):
            queue.put([n, word])

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(read, range(3)))
    return [queue.get() for _ in range(queue.qsize())]


@body(THREADS)
def loops_in_threads(asks: Asks, capture: Capture) -> Any:
    """Runs an event loop in each thread of a pool, which all add what comes to one list."""
    order: list[Any] = []

    async def both(n: int) -> Any:
        came = await asyncio.gather(asks.aask(f"{n} a"), asks.aask(f"{n} b"))
        order.append([n, uuid.uuid4(), await asks.aask(f"{n} of {len(order)}")])
        return came

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return [list(pool.map(lambda n: asyncio.run(both(n)), range(4))), order]


@body(LOOP)
async def loops_beside_each_other(asks: Asks, capture: Capture) -> Any:
    """Asks with each item of a queue that a loop in another thread fills."""
    queue: SimpleQueue[Any] = SimpleQueue()

    async def fill() -> None:
        for each in await asyncio.gather(*(asks.aask(f"part {n}") for n in range(3))):
            queue.put(each)
        queue.put(None)

    other = threading.Thread(target=lambda: asyncio.run(fill()))
    other.start()
    order = [await asks.aask("the same")]
    while (item := await asyncio.to_thread(queue.get)) is not None:
        order.append(await asks.aask(f"{item} after {len(order)}"))
    other.join()
    return order


@body(THREADS, ONCE_OR_TWICE)
def one_after_the_other(asks: Asks, capture: Capture) -> Any:
    """Asks the same question again and again, and draws times, numbers and ids."""
    now = datetime.now
    drawn = [[uuid.uuid4(), random.random(), now(), time.time()] for _ in range(3)]
    return [drawn, [[asks.ask("the same"), list(asks.stream("a stream")), now(), time.time()] for _ in range(3)]]


@body(THREADS, ONCE_OR_TWICE, missed="it looks like a set, whose order differs in each process")
def order_of_a_set(asks: Asks, capture: Capture) -> Any:
    """Puts a set of words into a question."""
    return asks.ask(" ".join({"tape", "reel", "spool", "head", "case", "motor", "belt"}))
