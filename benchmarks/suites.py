"""A suite of agent tests, replayed by a whole `pytest`: with fakes, AgentTape, pytest-recording, and with less."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from measure import FULL, Row, Scale

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from weather_agent.server import OpenAILoopback

_TESTS, _FILES, _ROUNDS = 60, 6, 7
_TIMED_OUT = 600

_AGENT = '''
import os

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."


def model() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5-mini", base_url=os.environ["BENCH_URL"], api_key="sk-any")


def answer(model, city: str) -> str:
    agent = create_agent(model, [get_weather], system_prompt="You are a helpful assistant.")
    asked = {"messages": [("user", f'What is the weather in "{city}"?')]}
    return agent.invoke(asked)["messages"][-1].content
'''

_FAKES = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class Fake(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def scripted(city: str) -> Fake:
    call = {"name": "get_weather", "args": {"city": city}, "id": "call-1"}
    return Fake(messages=iter([AIMessage("", tool_calls=[call]), AIMessage(f"It is sunny in {city}.")]))
"""

_MATCHED = """
import pytest


@pytest.fixture(scope="session")
def vcr_config():
    return {"match_on": ["method", "uri", "body"], "filter_headers": ["authorization"]}
"""


_LEAST = """
import datetime
import hashlib
import json
import random
import socket
import time
import uuid
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI

NOW = 1_795_000_000.0


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


def refuse(*_):
    raise RuntimeError("network")


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true")


@pytest.fixture(autouse=True)
def replay(request, monkeypatch):
    path = Path(__file__).parent / "recorded" / f"{request.node.name}.json"
    real, records, known = ChatOpenAI._generate, request.config.getoption("--record"), {}

    def generate(self, messages, stop=None, run_manager=None, **kwargs):
        sent = json.dumps(self._get_request_payload(messages, stop=stop, **kwargs), sort_keys=True, default=str)
        key = hashlib.sha256(sent.encode()).hexdigest()
        if not records:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(**known.pop(key)))])
        answered = real(self, messages, stop=stop, run_manager=run_manager, **kwargs)
        known[key] = answered.generations[0].message.model_dump()
        return answered

    monkeypatch.setattr(ChatOpenAI, "_generate", generate)
    if records:
        yield
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(known))
        return
    known.update(json.loads(path.read_bytes()))
    drawn, state = random.Random(path.name), random.getstate()
    random.seed(path.name)
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(datetime, "datetime", Clock)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=drawn.getrandbits(128), version=4))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    yield
    random.setstate(state)
    assert not known
"""
"""The least that could be called a replay: one function of one client is replaced, asked by the hash of what is sent.
Five names hold the world still, and nothing is redacted, ordered, or said where it differs."""


@dataclass(frozen=True)
class Suite:
    """A way to test the same agent.

    Args:
        plugin: The plugin of pytest that it needs.
        head: The first lines of each file.
        subject: The model that a test hands to the agent.
        recording: The option that records.
        conftest: The conftest, if it has one.
    """

    plugin: str
    head: str
    subject: str = "model()"
    recording: str = ""
    conftest: str = ""

    def write(self, folder: Path, tests: int) -> None:
        """Write the files of the suite."""
        folder.mkdir()
        (folder / "agent.py").write_text(_AGENT)
        (folder / "fakes.py").write_text(_FAKES)
        (folder / "pytest.ini").write_text("[pytest]\n")
        if self.conftest:
            (folder / "conftest.py").write_text(self.conftest)
        for number in range(min(_FILES, tests)):
            of_file = range(number, tests, _FILES)
            bodies = [
                f"\n\ndef test_{test}():\n    real = model()\n"
                f'    assert "City {test}" in answer({self.subject.format(test)}, "City {test}")\n'
                for test in of_file
            ]
            (folder / f"test_{number}.py").write_text(f"{self.head}from agent import answer, model\n{''.join(bodies)}")


SUITES: Mapping[str, Suite] = {
    "fakes": Suite("", "from fakes import scripted\n", 'scripted("City {}")'),
    "ours": Suite(
        "agenttape_core.pytest_plugin",
        "import pytest\n\npytestmark = pytest.mark.cassette\n",
        "real",
        "--cassette-mode=once",
    ),
    "vcr": Suite(
        "pytest_recording.plugin",
        "import pytest\n\npytestmark = pytest.mark.vcr\n",
        "real",
        "--record-mode=once",
        _MATCHED,
    ),
    "least": Suite("", "", "real", "--record", _LEAST),
}


def run(suite: Suite, folder: Path, url: str, *options: str) -> tuple[float, float]:
    """Run a suite; the seconds that it took, and those of the processor."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTAPE_", "PYTEST_"))}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BENCH_URL": url, "LANGSMITH_TRACING": "false"}
    environment |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-any"}  # for models that are made by their names
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    plugin = ["-p", suite.plugin] if suite.plugin else []
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-m", "pytest", "-q", *plugin, *options],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMED_OUT,
    )
    seconds, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return seconds, sum(after[2:4]) - sum(before[2:4])


_NAMES = {"fakes": "hand-written fakes", "vcr": "pytest-recording with vcrpy", "least": "the least replay"}
_BUDGETS = {"fakes": 1.15, "vcr": 0.9}


def suites(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the replay of a suite by a whole `pytest`, in the time of the processor, beside the same with others.

    Where the benchmark is only tried, the suite is recorded: a `pytest` takes seconds.
    """
    tests = _TESTS if scale is FULL else min(scale.sizes)
    chosen = [name for name in SUITES if name != "vcr" or find_spec("pytest_recording")] if scale is FULL else ["ours"]
    with OpenAILoopback() as server:
        url = server.base_url
        for name in chosen:
            SUITES[name].write(folder / name, tests)
            if SUITES[name].recording:
                run(SUITES[name], folder / name, url, SUITES[name].recording)
    took: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(_ROUNDS if scale is FULL else 0):  # interleaved: what else the machine does slows all of them
        for name in chosen:
            took[name].append(run(SUITES[name], folder / name, url)[1])
    for other, named in _NAMES.items():
        if theirs := took.get(other):
            least, middle = min(took["ours"]) / min(theirs), median(took["ours"]) / median(theirs)
            yield Row(
                f"suite of {tests} agent tests, AgentTape / {named}: least, median",
                f"{least:.2f}x, {middle:.2f}x",
                f"<= {_BUDGETS[other]}x of {min(theirs):.1f} s" if other in _BUDGETS else "",
            )
