"""`agenttape mcp`, used by the official client over standard input and output, by versions 1 and 2 of the package."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp")

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from agenttape_core import boundary, open_cassette, use_cassette

from ..kit import forks

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]
SERVER = [sys.executable, "-P", "-c", "from agenttape_core.cli import main; main()", "mcp"]
ENVIRONMENT = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "agenttape_core.pytest_plugin"}
GREETING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
PATIENCE = 60.0
TEST = "test_desk.py::test_dune"
CASSETTE = "cassettes/test_desk/test_dune.yaml"
DESK = """\
import os
import time

from agenttape_core import boundary

PROMPT = "Answer in one sentence."


@boundary("tool")
def copies_of(title):
    return 3


@boundary("chat")
def ask(messages, model):
    open("asked", "a").write("x")
    while os.path.exists("slow"):
        time.sleep(0.01)
    open("answered", "a").write("x")
    print("noise on standard output")
    said = f"{messages[0]['content']} {messages[-1]['content']}"
    return {"content": said, "usage": {"input_tokens": 100, "output_tokens": 50}}


def answer(title):
    found = f"{copies_of(title)} copies of {title}"
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": found}]
    return ask(messages, model="gpt-5")["content"]
"""
TESTS = """\
import pytest
from desk import answer


@pytest.mark.cassette
def test_dune():
    assert "Dune" in answer("Dune")
"""
SETTINGS = """\
[tool.agenttape]
prices = "prices.json"

[tool.pytest.ini_options]
asyncio_default_fixture_loop_scope = "function"
"""
PRICES = {"gpt-5": {"input": 1000, "output": 2000}}


class Said(NamedTuple):
    """The answer to a tool call."""

    text: str
    data: Any
    is_error: bool


Call = Callable[..., Awaitable[Said]]


def begin(folder: Path) -> None:
    """Write a project with an agent, one test, and prices."""
    (folder / "desk.py").write_text(DESK)
    (folder / "test_desk.py").write_text(TESTS)
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "prices.json").write_text(json.dumps(PRICES))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project."""
    folder = tmp_path / "project"
    folder.mkdir()
    begin(folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an `agenttape` and a `python` that begin with their modules loaded."""
    loaded = (*forks.SESSION, "pytest", "agenttape_core.cli.commands.agent_tools")
    with forks.commands(tmp_path_factory.mktemp("commands"), loaded, "agenttape", "python") as folder:
        yield folder


@asynccontextmanager
async def connected(commands: Path) -> AsyncIterator[ClientSession]:
    """Connect the official client to a server in the current folder."""
    environment = {**ENVIRONMENT, "FORKED_PYTHON": str(commands / "python")}
    parameters = StdioServerParameters(
        command=str(commands / "agenttape"), args=["mcp"], env=environment, cwd=Path.cwd()
    )
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def said(session: ClientSession, tool: str, **arguments: Any) -> Said:
    """Call a tool."""
    plain = (await session.call_tool(tool, arguments)).model_dump(by_alias=True)
    return Said(plain["content"][0]["text"], plain["structuredContent"], plain["isError"])


@pytest.fixture
async def call(desk: Path, commands: Path) -> AsyncIterator[Call]:
    """A function that calls a tool of a server in the project."""
    ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:  # the task that enters a client must leave it
        async with connected(commands) as session:
            ready.set_result(session)
            await done.wait()

    holder = asyncio.create_task(hold())
    await asyncio.wait([ready, holder], return_when=asyncio.FIRST_COMPLETED)
    session = ready.result() if ready.done() else await holder

    async def calling(tool: str, **arguments: Any) -> Said:
        return await said(session, tool, **arguments)  # type: ignore[arg-type] # a holder that ends has raised

    yield calling
    done.set()
    await holder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose test is recorded, which the tests copy."""
    folder = tmp_path_factory.mktemp("recorded")
    begin(folder)
    words = [sys.executable, "-m", "pytest", "-q", "--cassette-mode=once"]
    subprocess.run(words, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    return folder


@pytest.fixture
def recorded_desk(desk: Path, recorded: Path) -> Path:
    """The project, with the recording of its test."""
    shutil.copytree(recorded, desk, dirs_exist_ok=True)
    return desk


def edit(desk: Path, old: str = "one sentence", new: str = "two sentences") -> None:
    """Edit the prompt of the agent."""
    program = desk / "desk.py"
    program.write_text(program.read_text().replace(old, new))


async def test_a_working_day(desk: Path, call: Call) -> None:
    """Record, edit, explain, plan, update, compare, reject, accept and look at it, from tool calls alone."""
    recorded = await call("update", tests=["test_desk.py"], max_usd=1)
    assert not recorded.is_error
    assert recorded.text.startswith("command: agenttape update --yes --max-usd=1 --review test_desk.py\n")
    assert CASSETTE in (await call("ls")).text
    shown = await call("show", recording="test_dune")
    assert "copies_of" in shown.text
    assert "Answer in one sentence. 3 copies of Dune" in (await call("show", recording=CASSETTE, call=2)).text

    edit(desk)
    explained = await call("explain", test=TEST)
    assert "+ Answer in two sentences." in explained.text
    assert explained.data["result"]["misses"][TEST]["nearest"] == 2
    assert (await call("explain")).data["result"] == explained.data["result"]
    asked = (desk / "asked").read_text()
    plan = await call("plan_update", tests=[TEST])
    assert "1 of 2 calls changed, about $0.20" in plan.text
    assert (plan.is_error, plan.data["exit_code"], plan.data["result"]["plans"][TEST]["dollars"]) == (False, 1, 0.2)
    refused = await call("update", tests=[TEST], max_usd=0.1)
    assert refused.is_error
    assert "$0.1 is allowed; nothing was recorded" in refused.text
    assert (desk / "asked").read_text() == asked

    updated = await call("update", tests=[TEST], max_usd=1)
    assert updated.data["result"]["updated"]
    before, waiting = (desk / CASSETTE).read_bytes(), desk / f"{CASSETTE.removesuffix('.yaml')}.pending.yaml"
    pending = waiting.read_bytes()
    compared = await call("diff", paths=[CASSETTE, str(waiting.relative_to(desk))])
    assert "{+two+} {+sentences+}" in compared.text
    assert compared.data["result"]["identical"] is False
    assert "1 call rejected" in (await call("reject", keys=[CASSETTE])).text
    assert ((desk / CASSETTE).read_bytes(), waiting.exists()) == (before, False)
    waiting.write_bytes(pending)
    assert len((desk / "asked").read_text()) == len(asked) + 1
    review = await call("review")
    (key,) = (one["key"] for one in review.data["result"]["pending"][0]["calls"])
    assert "1 call accepted" in (await call("accept", keys=[key])).text
    assert "two sentences" in (await call("show", recording="test_dune", call=2)).text
    assert (await call("explain", test=TEST)).text.endswith("no call missed its recording")

    edit(desk, "two sentences", "three sentences")
    (desk / "test_other.py").write_text("def test_other():\n    assert 0\n")
    other = await call("explain", test="test_other.py", unmarked=True)
    assert "it fails, and pytest has kept no miss of a recording" in other.text
    assert "assert 0" in other.text
    (desk / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    assert "+ Answer in three sentences." in (await call("explain", test=TEST)).text


async def test_an_experiment(recorded_desk: Path, call: Call) -> None:
    """An experiment runs only if it's told to, and calls no model."""
    desk = recorded_desk
    asked = (desk / "asked").read_text()
    planned = await call("lab", experiment="faults", target=TEST, options={"kinds": "timeout"})
    assert planned.text.startswith(f"command: agenttape lab faults {TEST} --kinds=timeout\nnot run")
    ran = await call("lab", experiment="faults", target=TEST, options={"kinds": "timeout"}, run=True)
    assert not ran.is_error
    assert "2 faults: 2 raised" in ran.text
    assert {cell["fault"] for cell in ran.data["result"]["tests"][0]["cells"]} == {"timeout"}
    assert (desk / "asked").read_text() == asked
    tried = await call("lab", experiment="model", target=TEST, model="gpt-5-mini")
    assert tried.text.startswith(f"command: agenttape lab model gpt-5-mini {TEST}\nnot run")


@pytest.mark.usefixtures("desk")
async def test_what_a_client_may_assume(commands: Path) -> None:
    """Tools that only read are marked so, those that replace or execute too, and each names its command."""
    async with connected(commands) as session:
        tools = [tool.model_dump(by_alias=True) for tool in (await session.list_tools()).tools]
    hints = {tool["name"]: tool["annotations"] for tool in tools}
    assert {name for name, each in hints.items() if each["readOnlyHint"]} == {"ls", "show", "diff", "review"}
    assert {name for name, each in hints.items() if each["destructiveHint"]} == {"update", "accept", "reject", "lab"}
    assert {name for name, each in hints.items() if each["openWorldHint"]} == {
        "explain",
        "plan_update",
        "update",
        "lab",
    }
    assert {tool["name"] for tool in tools if "unmarked" in tool["inputSchema"]["properties"]} == {
        "explain",
        "plan_update",
    }
    assert all(
        "he same as `agenttape " in " ".join(tool["description"].split()) or "pytest" in tool["description"]
        for tool in tools
    )
    assert {tool["inputSchema"]["additionalProperties"] for tool in tools} == {False}


REACHING = """

import urllib.request


def reach():
    try:
        urllib.request.urlopen(open("url").read(), timeout=5).read()
    except OSError:
        pass


@pytest.mark.cassette
def test_reaching():
    reach()


def test_without_a_cassette():
    reach()
"""


@pytest.mark.parametrize("tool", ["explain", "plan_update"])
async def test_what_replayed_tests_reach(recorded_desk: Path, call: Call, tool: str) -> None:
    """In plans and explanations, a test with a cassette makes no connection; one without runs only with `unmarked`."""
    desk = recorded_desk
    (desk / "test_desk.py").write_text(TESTS + REACHING)
    (desk / CASSETTE).with_name("test_reaching.yaml").write_bytes((desk / CASSETTE).read_bytes())
    reached: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        (desk / "url").write_text(f"http://127.0.0.1:{port}/")
        for test, unmarked, connections in (
            ("reaching", True, 0),
            ("without_a_cassette", False, 0),
            ("without_a_cassette", True, 1),
        ):
            name = f"test_desk.py::test_{test}"
            chosen = {"test": name} if tool == "explain" else {"tests": [name]}
            reached.clear()
            told = await call(tool, **chosen, unmarked=unmarked)
            assert len(reached) == connections
            assert ("with unmarked=true" in told.text) is not unmarked


REFUSED = [
    ("ls", {"paths": ["../other"]}, "../other leads out of the project"),
    ("ls", {"paths": ["/etc"]}, "/etc leads out of the project"),
    ("ls", {"paths": ["linked"]}, "linked leads out of the project"),
    ("ls", {}, "secret.yaml leads out of the project"),
    ("ls", {"paths": ["--help"]}, "'--help' isn't a path"),
    ("show", {"recording": "-"}, "'-' isn't a path"),
    ("show", {"recording": "https://host.example/run.yaml"}, "isn't a path"),
    ("show", {"recording": "secret"}, "secret.yaml leads out of the project"),
    ("show", {"recording": "before.yaml", "call": 9}, "it has no call 9"),
    ("show", {"recording": "broken.yaml"}, "broken.yaml"),
    ("show", {"recording": "before.yaml", "calls": 2}, "show takes recording, call\n  calls: "),
    ("show", {}, "recording: Field required"),
    ("diff", {"base": "--output=x"}, "base: "),
    ("explain", {}, "no test run with cassettes is remembered here"),
    ("explain", {"test": "rm"}, "there is no file or folder rm in this project"),
    ("plan_update", {"tests": []}, "tests: "),
    ("update", {"tests": [TEST]}, "max_usd: Field required"),
    ("update", {"tests": [TEST], "max_usd": -1}, "max_usd: "),
    ("update", {"tests": ["python", "-c"], "max_usd": 1}, "there is no file or folder python"),
    ("accept", {"keys": ["../x.yaml::ask"]}, "leads out of the project"),
    ("accept", {"keys": ["ask"]}, "no call waits for review under the key 'ask'"),
    ("lab", {"experiment": "magic", "target": TEST}, "experiment: "),
    ("lab", {"experiment": "faults", "target": "os:abort", "run": True}, "there is no file or folder os"),
    ("lab", {"experiment": "faults", "target": TEST, "options": {"report": "x.md"}}, "'report' isn't an option"),
    ("lab", {"experiment": "faults", "target": TEST, "options": {"nope": 1}, "run": True}, "--nope"),
    ("lab", {"experiment": "flaky", "target": TEST, "run": True}, "would call tools or models for real"),
    ("lab", {"experiment": "change", "target": TEST, "options": {"live": "tool"}, "run": True}, "for real"),
    ("lab", {"experiment": "mutants", "target": TEST, "options": {"live": "chat"}}, "'live' isn't an option"),
    ("lab", {"experiment": "mutants", "target": TEST, "options": {"source": "../other"}}, "leads out of the project"),
    ("lab", {"experiment": "change", "target": TEST, "options": {"checks": "/etc/passwd"}}, "leads out of the project"),
    ("lab", {"experiment": "model", "target": TEST}, "lab(model=...)"),
    ("lab", {"experiment": "model", "target": TEST, "model": "m", "run": True}, "would call tools or models for real"),
    ("lab", {"experiment": "model", "target": TEST, "model": "m,to=/tmp"}, "model: String should match"),
    ("lab", {"experiment": "model", "target": TEST, "model": "m", "options": {"live": "a,to=/tmp"}}, "live: a,to=/tmp"),
    ("lab", {"experiment": "model", "target": TEST, "model": "m", "options": {"app": "os:abort"}}, "'app' isn't"),
    ("update", {"tests": [TEST], "max_usd": "Infinity"}, "max_usd: Input should be a finite number"),
    ("magic", {}, "there is no tool 'magic'; tools are ls, show"),
]


async def test_what_is_refused(desk: Path, call: Call) -> None:
    """Wrong arguments, paths out of the project and damaged cassettes are errors of the tool, in our words."""
    outside = desk.parent / "other"
    with use_cassette(outside / "secret.yaml", mode="once"):
        pass
    with use_cassette(desk / "before.yaml", mode="once"):
        pass
    (desk / "broken.yaml").write_text("agenttape: [\n")
    (desk / "linked").symlink_to(outside)
    (desk / "cassettes").mkdir()
    (desk / "cassettes" / "secret.yaml").symlink_to(outside / "secret.yaml")
    for tool, arguments, problem in REFUSED:
        refused = await call(tool, **arguments)
        assert refused.is_error, (tool, arguments)
        assert problem in refused.text
        assert "Traceback" not in refused.text


async def test_answers_are_redacted_and_bounded(desk: Path, call: Call) -> None:
    """A secret stays a pseudonym, the key of the pseudonyms stays in the file, and a long answer is cut."""
    secret = f"sk-{'proj'}-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"

    @boundary("tool")
    def look_up(text: str) -> str:
        return text * 2_000

    with use_cassette(desk / "long.yaml", mode="once"):
        look_up(f"the key is {secret}")
    shown = [await call("show", recording="long.yaml"), await call("show", recording="long.yaml", call=1)]
    assert not any(secret in one.text for one in shown)
    assert "more characters: ask for less" in shown[1].text
    assert len(shown[1].text) < 25_000
    key = open_cassette(desk / "long.yaml").header.redaction.key
    assert key
    assert not any(key in f"{one.text}{one.data}" for one in [*shown, await call("ls"), await call("diff")])


def test_a_client_that_leaves(recorded_desk: Path) -> None:
    """When the client leaves in the middle of an update, the server ends, its program too, and no recording changes."""
    desk = recorded_desk
    edit(desk)
    before = (desk / CASSETTE).read_bytes()
    (desk / "asked").unlink()
    (desk / "answered").unlink()
    (desk / "slow").touch()
    with subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        update = {"name": "update", "arguments": {"tests": [TEST], "max_usd": 1}}
        messages = [
            {"id": 1, "method": "initialize", "params": GREETING},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": update},
        ]
        server.stdin.write(b"\xff no message\n")
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
        while not (desk / "asked").exists():
            assert server.poll() is None
            time.sleep(0.05)
        server.stdin.close()
        assert server.wait(PATIENCE) == 0
    (desk / "slow").unlink()
    assert (desk / CASSETTE).read_bytes() == before
    assert not (desk / "answered").exists()
