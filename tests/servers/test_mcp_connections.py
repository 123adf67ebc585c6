"""Connections to MCP servers, recorded and replayed: they open, break and end, and bring messages between requests.

They are skipped where the package could not be installed.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordableValueError
from agenttape_core.mcp import links
from agenttape_core.storage import recover

pytest.importorskip("mcp")

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]
TALKER = Path(__file__).with_name("mcp_talker.py")
Program = Callable[[], Coroutine[Any, Any, Any]]


class Talker:
    """A server that talks between requests.

    Args:
        folder: The folder of its notes.
    """

    def __init__(self, folder: Path) -> None:
        self._seen = folder / "seen"
        self.parameters = StdioServerParameters(
            command=sys.executable, args=[str(TALKER)], env={"SEEN": str(self._seen)}
        )
        self.port = 0
        """A port at which no server listens."""
        self.silent = 0
        """A port at which a server accepts connections, and never answers."""

    def was_started(self) -> bool:
        """Return whether it was started since the last time."""
        was = self._seen.exists()
        self._seen.unlink(missing_ok=True)
        return was

    @asynccontextmanager
    async def connected(self, **callbacks: Any) -> AsyncIterator[ClientSession]:
        """Connect a client."""
        async with stdio_client(self.parameters) as streams, ClientSession(*streams, **callbacks) as client:
            await client.initialize()
            yield client

    def urls(self, port: int) -> list[tuple[Any, Any]]:
        """Return the transports over HTTP, and their addresses."""
        return [
            (streamable_http_client, f"http://127.0.0.1:{port}/mcp"),
            (sse_client, f"http://127.0.0.1:{port}/mcp"),
        ]


@pytest.fixture
def talker(tmp_path: Path) -> Iterator[Talker]:
    """A server that a client starts, and the ports of two that don't work."""
    found = Talker(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found.port = taken.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found.silent = silent.getsockname()[1]
        yield found


class Heard:
    """The messages of a client, in order, for a program to wait for."""

    def __init__(self) -> None:
        self.words: list[Any] = []
        self._came = asyncio.Event()

    async def log(self, params: Any) -> None:
        """Hear a log message."""
        self.add(params.data)

    def add(self, word: Any) -> None:
        """Note something."""
        self.words.append(word)
        self._came.set()

    async def until(self, beginning: str, times: int = 1) -> None:
        """Wait until so many messages have come that begin with a text."""
        while sum(str(word).startswith(beginning) for word in self.words) < times:
            self._came.clear()
            await self._came.wait()


async def talk(client: ClientSession, then: str = "") -> str:
    """Call the tool of the server; return its answer or the error."""
    try:
        return str((await client.call_tool("talk", {"then": then})).content[0].text)  # type: ignore[union-attr]
    except Exception as error:
        return repr(error)


def shape(error: BaseException) -> Any:
    """Return an error with those in its groups."""
    inner = [shape(each) for each in error.exceptions] if isinstance(error, BaseExceptionGroup) else str(error)
    return type(error).__name__, inner


def is_equal(path: Path, talker: Talker, program: Program) -> Any:
    """Record a program, expect the same of two replays without the server, and return its result."""
    with use_cassette(path, mode="all"):
        first = asyncio.run(program())
    assert talker.was_started()
    for _ in range(2):
        with use_cassette(path) as cassette:
            assert asyncio.run(program()) == first  # type: ignore[arg-type]
        assert (cassette.report.nondeterminism, talker.was_started()) == ((), False)
    return first


def test_a_program_falls_back(talker: Talker, tmp_path: Path) -> None:
    """A program that tries servers until one answers fails at each of them as it did, with the same errors."""

    async def program() -> list[Any]:
        tried: list[Any] = []
        missing = StdioServerParameters(command="there-is-no-such-command")
        for connect, given in [*talker.urls(talker.port), (stdio_client, missing), (stdio_client, talker.parameters)]:
            try:
                async with connect(given) as streams, ClientSession(*streams[:2]) as client:
                    await client.initialize()
                    tried.append(await talk(client))
            except (Exception, BaseExceptionGroup) as error:
                tried.append(shape(error))
        return tried

    path = tmp_path / "fall.yaml"
    *failed, answer = is_equal(path, talker, program)
    assert "ConnectError" in str(failed[0])
    assert "ConnectError" in str(failed[1])
    assert failed[2][0] == "FileNotFoundError"
    assert answer.startswith("talked")
    connected = [call for call in open_cassette(path).interactions() if call.name == "mcp.connect"]
    assert [call.request["transport"] for call in connected] == ["streamable_http", "sse", "stdio", "stdio"]
    assert [call.outcome.has_failed for call in connected] == [True, True, True, False]


@pytest.mark.parametrize("limit", [asyncio.timeout, anyio.fail_after])
def test_a_server_that_never_answers(talker: Talker, tmp_path: Path, limit: Any) -> None:
    """A program that gives up a silent server, while it connects or later, does so again."""

    async def program() -> list[Any]:
        tried: list[Any] = []
        for connect, given in talker.urls(talker.silent):
            try:
                with_limit = limit(0.2)
                async with (
                    anyio_or_asyncio(with_limit),
                    connect(given) as streams,
                    ClientSession(*streams[:2]) as client,
                ):
                    await client.initialize()
            except TimeoutError as error:
                tried.append(shape(error))
        async with talker.connected() as client:
            tried.append(await talk(client))
        return tried

    assert len(is_equal(tmp_path / "silent.yaml", talker, program)) == 3


@asynccontextmanager
async def anyio_or_asyncio(limit: Any) -> AsyncIterator[None]:
    """Enter a limit of either."""
    if hasattr(limit, "__aenter__"):
        async with limit:
            yield
    else:
        with limit:
            yield


def test_messages_between_requests(talker: Talker, tmp_path: Path) -> None:
    """Messages of a server before, between and after the requests reach the program at the same places."""

    async def program() -> list[Any]:
        heard = Heard()
        async with talker.connected(logging_callback=heard.log) as client:
            await heard.until("ready")
            heard.add("was ready")
            await client.send_roots_list_changed()
            await heard.until("roots")
            heard.add(await talk(client, "log"))
            await heard.until("after")
            heard.add("the last")
            await client.send_roots_list_changed()
            await heard.until("roots", 2)
        return heard.words

    first = is_equal(tmp_path / "between.yaml", talker, program)
    assert first.index("was ready") == 1
    assert first[-2] == "the last"


def test_each_message_is_a_text(talker: Talker, tmp_path: Path) -> None:
    """A secret in a message is found, whatever message came before; and those that come after it stay as they are."""

    async def program() -> list[str]:
        heard = Heard()
        async with talker.connected(logging_callback=heard.log) as client:
            await talk(client, "say")
            await heard.until("connected")
        return [word for word in heard.words if not word.startswith("ready")]

    with use_cassette(tmp_path / "says.yaml", mode="all"):
        ready, said, connected = asyncio.run(program())
    secret = said.partition("=")[2]
    assert secret not in (tmp_path / "says.yaml").read_text("utf-8")
    with use_cassette(tmp_path / "says.yaml"):
        again = asyncio.run(program())
    assert (again[0], again[2]) == (ready, connected) == ("server ready", "connected to the database")
    assert again[1].startswith("token=[REDACTED:")


def test_a_server_that_reads_no_longer(talker: Talker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves doesn't wait until a server has read all messages."""
    monkeypatch.setattr(links, "_LEAVING", 0.01)

    async def program() -> list[str]:
        async with talker.connected() as client:
            for _ in range(4):
                await client.send_progress_notification(1, 1.0, message="x" * 300_000)
        return ["left"]

    assert is_equal(tmp_path / "reads.yaml", talker, program) == ["left"]


def test_a_client_that_sends_as_it_leaves(talker: Talker, tmp_path: Path) -> None:
    """A client that leaves waits with a timer of ours: the timers of other tasks keep their order."""

    @boundary("call")
    async def other(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "answered"

    async def client() -> str:
        async with talker.connected() as session:
            await session.send_roots_list_changed()
        return "left"

    async def beside() -> list[str]:
        words = []
        for number in range(6):
            try:
                async with asyncio.timeout(0.05 if number % 2 else 0.5):
                    words.append(await other(0.1))
            except TimeoutError:
                words.append("late")
        return words

    async def program() -> Any:
        return await asyncio.gather(client(), beside())

    assert is_equal(tmp_path / "leaves.yaml", talker, program) == ["left", ["answered", "late"] * 3]


def test_a_server_asks_between_requests(talker: Talker, tmp_path: Path) -> None:
    """A request of a server that comes after its answer is answered by the client, in a replay without a server."""

    async def program() -> list[Any]:
        heard = Heard()
        async with talker.connected(logging_callback=heard.log) as client:
            heard.add(await talk(client, "ask"))
            await heard.until("answered")
        return heard.words

    is_equal(tmp_path / "asks.yaml", talker, program)


def test_what_is_no_message(talker: Talker, tmp_path: Path) -> None:
    """A line that the client can't read reaches its handler as the same error."""

    async def program() -> list[Any]:
        heard = Heard()

        async def handle(message: Any) -> None:
            if isinstance(message, Exception):
                heard.add(shape(message))

        async with talker.connected(message_handler=handle) as client:
            heard.add(await talk(client, "babble"))
            await heard.until("('ValidationError")
        return heard.words

    assert len(is_equal(tmp_path / "babble.yaml", talker, program)) == 2


async def talked(talker: Talker, *then: str) -> list[str]:
    """Have a server talk, wait for what it says after each answer, and return all that was heard, in order."""
    heard = Heard()
    async with talker.connected(logging_callback=heard.log) as client:
        await heard.until("ready")
        await client.list_tools()  # or the first call does, after its answer
        for number, each in enumerate(then):
            heard.add(f"{await talk(client, each)}: {each}")
            if each:
                await heard.until({"log": "after", "say": "connected"}[each], then[: number + 1].count(each))
    return [re.sub(r" \d+|=.*", "", word) for word in heard.words]


SAID = {"": [], "log": ["after the answer"], "say": ["server ready", "token", "connected to the database"]}


@pytest.mark.parametrize("mode", ["new_episodes", "update"])
def test_added_calls_bring_their_messages(talker: Talker, tmp_path: Path, mode: Any) -> None:
    """Messages follow the calls that they followed, recorded or added later, in this run and the next ones."""

    def run(mode: Any, *then: str) -> list[str]:
        with use_cassette(tmp_path / "added.yaml", mode=mode) as cassette:
            words = asyncio.run(talked(talker, *then))
        assert (cassette.report.nondeterminism, talker.was_started()) == ((), mode != "replay")
        assert words[0] == "ready"
        # The server that is started for the first call that is added says that it's ready, too.
        assert [word for word in words if word != "ready"] == [
            word for each in then for word in (f"talked: {each}", *SAID[each])
        ]
        return words

    run("all", "log", "", "log")
    for then in (("log", "say", "", "log"), ("log", "say", "say", "", "log", "log")):
        added = run(mode, *then)
        for _ in range(2):
            assert run("replay", *then) == added


def test_messages_of_calls_that_are_gone(talker: Talker, tmp_path: Path) -> None:
    """An update that drops a call drops the messages after it."""
    path = tmp_path / "gone.yaml"
    for mode, *then in (("all", "say", "log"), ("update", "log"), ("replay", "log")):
        with use_cassette(path, mode=mode):  # type: ignore[arg-type]
            assert asyncio.run(talked(talker, *then))[-2:] == ["talked: log", "after the answer"]
    assert "connected to the database" not in path.read_text("utf-8")


def test_one_more_message(talker: Talker, tmp_path: Path) -> None:
    """A comparison with a recording in which a server sent one more message finds that message, and no other."""

    async def program(*, more: bool) -> None:
        heard = Heard()
        async with talker.connected(logging_callback=heard.log) as client:
            await heard.until("ready")
            await client.list_tools()  # or the client asks for them beside its first call
            if more:
                await client.send_roots_list_changed()
                await heard.until("roots")
            await talk(client, "say")
            await heard.until("connected")

    for name, more in (("one.yaml", False), ("other.yaml", True)):
        with use_cassette(tmp_path / name, mode="all"):
            asyncio.run(program(more=more))
    one, other = (next(open_cassette(tmp_path / name).interactions()) for name in ("one.yaml", "other.yaml"))
    chunks = [
        {key: value for chunk in call.outcome.chunks or [] for key, value in (chunk or {}).items()}
        for call in (one, other)
    ]
    (more_key,) = chunks[1].keys() - chunks[0].keys()
    assert "roots" in str(chunks[1][more_key])


def test_recordings_of_numbered_messages(talker: Talker, tmp_path: Path) -> None:
    """A cassette that numbers the messages of a connection, as earlier versions did, replays them in their order."""
    path = tmp_path / "numbers.yaml"
    with use_cassette(path, mode="all"):
        first = asyncio.run(talked(talker, "log", "say", "log"))
    numbers = itertools.count(1)
    text = re.sub(r'"?\d+ after [^"\n]*?"?:\n', lambda _: f'"{next(numbers)}":\n', path.read_text("utf-8"))
    path.write_text(text.replace("- {}\n", "- null\n"), "utf-8")
    assert next(numbers) == 7
    with use_cassette(path) as cassette:
        assert asyncio.run(talked(talker, "log", "say", "log")) == first
    assert cassette.report.nondeterminism == ()


def test_a_recording_that_is_killed(talker: Talker, tmp_path: Path) -> None:
    """What is recovered of a recording that died while a connection was open replays up to there, with its messages."""
    path, kept = tmp_path / "killed.yaml", tmp_path / "kept"
    kept.mkdir()

    def dies() -> None:
        """Keep what is on disk now: that stays there, whatever happens."""
        for journal in tmp_path.glob(".*.journal"):
            shutil.copy(journal, kept)

    async def program() -> list[str]:
        heard = Heard()
        async with talker.connected(logging_callback=heard.log) as client:
            await heard.until("ready")
            heard.add(await talk(client, "say"))
            await heard.until("connected")
            heard.add(await talk(client))
            dies()
        return heard.words

    with use_cassette(path, mode="all"):
        first = asyncio.run(program())
    talker.was_started()
    (journal,) = kept.iterdir()
    with use_cassette(recover(journal)):  # type: ignore[arg-type]
        again = asyncio.run(program())
    assert [re.sub(r"=.*", "", word) for word in again] == [re.sub(r"=.*", "", word) for word in first]
    assert not talker.was_started()


def test_a_server_that_dies_during_parallel_requests(talker: Talker, tmp_path: Path) -> None:
    """Requests that a server's death ends together end in the same order, with what it had sent during them."""

    async def program() -> list[Any]:
        words: list[Any] = []
        try:
            async with talker.connected() as client:
                words += await asyncio.gather(*(talk(client, then) for then in ("", "", "die", "", "")))
        except BaseExceptionGroup as error:
            words.append(shape(error))
        return words

    for number in range(4):
        is_equal(tmp_path / f"dies{number}.yaml", talker, program)


def test_a_server_that_ends_its_output_while_a_request_waits(talker: Talker, tmp_path: Path) -> None:
    """The request that waits ends, and so does one that comes later."""

    async def program() -> list[Any]:
        async with talker.connected() as client:
            await client.list_tools()  # or the client asks for them beside its first call

            async def rest() -> list[str]:
                return [await talk(client, "close"), await talk(client)]

            return await asyncio.gather(talk(client, "mute"), rest())

    muted, (answered, late) = is_equal(tmp_path / "ends.yaml", talker, program)
    assert answered.startswith("talked")
    assert "losed" in muted
    assert "losed" in late


def test_a_message_that_cannot_be_recorded(talker: Talker, tmp_path: Path) -> None:
    """It raises, and the client doesn't wait for it forever."""

    async def program() -> None:
        heard = Heard()
        async with talker.connected(logging_callback=heard.log) as client:
            await talk(client, "deep")
            await heard.until("[[")

    with pytest.raises(UnrecordableValueError), use_cassette(tmp_path / "deep.yaml", mode="all"):
        asyncio.run(program())


@pytest.mark.parametrize("then", ["die", "leave"])
def test_a_server_that_goes(talker: Talker, tmp_path: Path, then: str) -> None:
    """A server that ends during or after an answer ends again, and later requests fail in the same way."""

    async def program() -> Any:
        words: list[Any] = []
        try:
            async with talker.connected() as client:
                words += [await talk(client), await talk(client, then), await talk(client)]
        except BaseExceptionGroup as error:
            words.append(shape(error))
        return words

    first = is_equal(tmp_path / "goes.yaml", talker, program)
    assert first[0].startswith("talked")
    assert "losed" in str(first) or "Broken" in str(first)


def test_servers_that_talk_in_parallel(talker: Talker, tmp_path: Path) -> None:
    """Each of several connections to one server gets its own messages again, in the order of all."""

    async def program() -> list[Any]:
        heard = Heard()

        async def one() -> None:
            mine = Heard()

            async def log(params: Any) -> None:
                heard.add(params.data)
                await mine.log(params)

            async with talker.connected(logging_callback=log) as client:
                await mine.until("ready")
                heard.add(await talk(client, "log"))
                await client.send_roots_list_changed()
                await mine.until("roots")

        await asyncio.gather(one(), one(), one())
        return heard.words

    assert len(set(is_equal(tmp_path / "parallel.yaml", talker, program))) == 12


def test_a_program_continues_while_it_sends(talker: Talker, tmp_path: Path) -> None:
    """Tasks beside one that sends something make their steps in the same order."""

    async def program() -> list[str]:
        steps: list[str] = []

        async def sends(client: ClientSession) -> None:
            await client.send_roots_list_changed()
            steps.append("sent")
            steps.append(await talk(client))

        async def continues() -> None:
            for step in range(4):
                await asyncio.sleep(0)
                steps.append(f"step {step}")

        async with talker.connected() as client:
            await asyncio.gather(sends(client), continues(), sends(client), continues())
        return steps

    assert len(is_equal(tmp_path / "steps.yaml", talker, program)) == 12


def test_servers_in_threads(talker: Talker, tmp_path: Path) -> None:
    """Threads with a loop each use a server at the same time, and their order is kept."""

    async def one(heard: Heard) -> None:
        async with talker.connected(logging_callback=heard.log) as client:
            await heard.until("ready")
            heard.add(await talk(client))
            await client.send_roots_list_changed()
            await heard.until("roots")

    async def program() -> list[Any]:
        heard = [Heard(), Heard()]
        threads = [threading.Thread(target=asyncio.run, args=(one(each),)) for each in heard]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        return [each.words for each in heard]

    assert [len(words) for words in is_equal(tmp_path / "threads.yaml", talker, program)] == [3, 3]


def test_recordings_without_connections(talker: Talker, tmp_path: Path) -> None:
    """A cassette of before connections were recorded replays, and adds calls, with a server for what is added."""

    async def program(*then: str) -> list[str]:
        async with talker.connected() as client:
            return [await talk(client, each) for each in then]

    path = tmp_path / "old.yaml"
    with use_cassette(path, mode="all"):
        first = asyncio.run(program(""))
    head, *calls = path.read_text("utf-8").split("\n---\n")
    path.write_text("\n---\n".join([head, *(call for call in calls if "mcp.connect" not in call)]), "utf-8")
    assert len(list(open_cassette(path).interactions())) == len(calls) - 1
    talker.was_started()
    with use_cassette(path):
        assert asyncio.run(program("")) == first
    assert not talker.was_started()
    with use_cassette(path, mode="new_episodes"):
        assert asyncio.run(program("", "more"))[0] == first[0]
    assert talker.was_started()


def test_a_connection_without_a_recording(talker: Talker, tmp_path: Path) -> None:
    """A replay names the server of a connection that was not recorded, and doesn't start it."""

    async def program(times: int) -> None:
        for _ in range(times):
            async with talker.connected():
                pass

    path = tmp_path / "once.yaml"
    with use_cassette(path, mode="all"):
        asyncio.run(program(1))
    talker.was_started()
    with pytest.raises(CassetteMissError, match=r"mcp\.connect"), use_cassette(path):
        asyncio.run(program(2))
    assert not talker.was_started()
