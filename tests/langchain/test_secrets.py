"""Secrets that pass through an agent reach no file and no message, and its replay does not notice."""

from __future__ import annotations

import base64
import gzip
import operator
import re
import secrets
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import START, StateGraph

from agenttape_core import Rule, open_cassette, use_cassette
from agenttape_core.cli.app import run as command
from agenttape_core.errors import CassetteMissError
from agenttape_core.redaction import PSEUDONYM

from ..kit.replaying import Twice
from .fakes import NativeChat, StreamingChat, World, calling, in_turn

LETTERS = string.ascii_letters + string.digits


def word(length: int) -> str:
    """Random letters and digits, some of each."""
    return "".join(secrets.choice(LETTERS) for _ in range(length - 3)) + "a7Z"


def make_secrets() -> dict[str, str]:
    """Fake secrets of several kinds, new in each run, so that no file of this repository holds one."""
    return {
        "openai": "sk-" + "proj-" + word(48),
        "anthropic": "sk-" + "ant-api03-" + word(40),
        "github": "ghp_" + word(36),
        "aws": "AKIA" + "".join(secrets.choice(string.ascii_uppercase + "234567") for _ in range(16)),
        "bearer": word(40),
        "email": f"jane.{word(8).lower()}@" + "corp-mail.com",
        "password": "pw-" + word(12),
    }


@pytest.fixture(params=list(make_secrets()))
def secret(request: pytest.FixtureRequest) -> str:
    """One fake secret of each kind."""
    return make_secrets()[request.param]


def said(secret: str) -> str:
    """A sentence that gives a secret away, as people do."""
    if secret.startswith("pw-"):
        return f"my password={secret} is this"
    if "@" in secret or secret[:3] in {"sk-", "ghp", "AKI"}:
        return f"use {secret} for it"
    return f"send Authorization: Bearer {secret}"


def assert_absent(secret: str, folder: Path) -> None:
    """No file below the folder holds the secret, plain, in pieces of some length, or encoded."""
    encoded = base64.b64encode(secret.encode()).decode()[4:-4]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files, "something was written"
    for path in files:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        assert secret.encode() not in data, path.name
        assert encoded.encode() not in data, path.name
        assert secret[len(secret) // 2 :].encode() not in data, f"half of it in {path.name}"


class SecretChat(StreamingChat):
    """Streams its answer in pieces of three characters, so that every secret is cut."""

    def chunks(self, messages: Any) -> Any:
        """The chunks of `_stream`."""
        from langchain_core.messages import AIMessageChunk
        from langchain_core.outputs import ChatGenerationChunk

        text = str(self.said(messages).content)
        for start in range(0, len(text), 3):
            yield ChatGenerationChunk(message=AIMessageChunk(content=text[start : start + 3]))


def echoing(messages: Sequence[Any], number: int) -> AIMessage:
    """Repeat the request."""
    return AIMessage(f"You said in call {number}: {messages[-1].text}")


@pytest.mark.sweep
@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".jsonl.gz"])
async def test_prompts_and_answers(secret: str, suffix: str, world: World, tmp_path: Path) -> None:
    """A secret in prompt and answer is on no disk, midway or at the end, and comes back on replay."""
    model = SecretChat(world=world, reply=echoing)
    path = tmp_path / f"chat{suffix}"

    async def run() -> list[Any]:
        return [
            model.invoke([SystemMessage(said(secret)), HumanMessage(said(secret))]),
            list(model.stream(said(secret))),
            await model.ainvoke([HumanMessage([{"type": "text", "text": said(secret)}])]),
        ]

    with use_cassette(path, mode="all"):
        recorded = await run()
        assert_absent(secret, tmp_path)  # the journal
    assert secret in recorded[0].text
    assert_absent(secret, tmp_path)
    world.gone = True
    with use_cassette(path) as replay:
        replayed = await run()
    assert replayed[0] == recorded[0]
    assert replayed[2] == recorded[2]
    assert "".join(chunk.text for chunk in replayed[1]) == "".join(chunk.text for chunk in recorded[1])
    assert str(replay.report) == "3 replayed, 0 recorded"


def test_secret_cut_by_chunks_that_was_not_asked(secret: str, world: World, tmp_path: Path) -> None:
    """A secret that only the model knows, cut into chunks, is not on disk; its replay has a pseudonym."""
    model = SecretChat(world=world, reply=lambda messages, number: AIMessage(said(secret)))
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all"):
        assert secret in "".join(chunk.text for chunk in model.stream("tell me"))
        assert_absent(secret, tmp_path)
    assert_absent(secret, tmp_path)
    world.gone = True
    with use_cassette(path):
        replayed = "".join(chunk.text for chunk in model.stream("tell me"))
    assert secret not in replayed
    assert PSEUDONYM.search(replayed)


async def test_agents(secret: str, world: World, tmp_path: Path) -> None:
    """A secret in tool arguments, results, artifacts and messages of an agent; the replay has the real one again."""

    def login(api_key: str, note: dict[str, Any]) -> tuple[str, Any]:
        world.reach("tool")
        return f"logged in: {said(api_key)}", {"headers": {"X-Api-Key": api_key}, "raw": [said(api_key)]}

    login_first = in_turn([("login", {"api_key": secret, "note": {"deep": [said(secret)]}})], then="done with {last}")
    tool = StructuredTool.from_function(login, description="Log in.", response_format="content_and_artifact")
    agent = create_agent(NativeChat(world=world, reply=login_first), [tool], system_prompt=said(secret))
    path = tmp_path / "agent.yaml"
    question = {"messages": [("user", said(secret))]}
    with use_cassette(path, mode="all"):
        recorded = agent.invoke(question)
        assert_absent(secret, tmp_path)
    assert_absent(secret, tmp_path)
    assert secret in recorded["messages"][-1].text
    world.gone = True
    with use_cassette(path):
        assert await agent.ainvoke(question) == recorded


def test_exceptions(secret: str, world: World, tmp_path: Path) -> None:
    """A secret in an exception, its arguments and its attributes is not on disk, and its handler sees it again."""

    class LoginError(ToolException):
        """An error that carries more than its text."""

        def __init__(self, text: str, *, header: dict[str, str]) -> None:
            self.header = header
            super().__init__(text)

    def login(api_key: str) -> str:
        world.reach("tool")
        raise LoginError(f"refused, {said(api_key)}", header={"X-Api-Key": api_key})

    tool = StructuredTool.from_function(login, description="Log in.")
    path = tmp_path / "tool.yaml"
    with use_cassette(path, mode="all"), pytest.raises(LoginError) as recorded:
        tool.invoke({"api_key": secret})
    assert_absent(secret, tmp_path)
    world.gone = True
    with use_cassette(path), pytest.raises(LoginError) as replayed:
        tool.invoke({"api_key": secret})
    assert str(replayed.value) == str(recorded.value)
    assert replayed.value.header == recorded.value.header


def test_misses(secret: str, world: World, twice: Twice) -> None:
    """No miss shows a secret: not that of the recording, nor that of the call."""
    model = NativeChat(world=world)
    other = make_secrets()["openai"]
    twice.record(lambda: model.invoke(f"one {said(secret)}"))
    with pytest.raises(CassetteMissError) as miss, twice.replays():
        model.invoke(f"two {said(secret)} {said(other)}")
    assert secret not in str(miss.value)
    assert other not in str(miss.value)
    assert "two" in str(miss.value)


def test_interactions_of_the_session_are_redacted(secret: str, world: World, tmp_path: Path) -> None:
    """The interactions that a session shows are those on disk."""
    with use_cassette(tmp_path / "chat.yaml", mode="all") as session:
        NativeChat(world=world, reply=echoing).invoke(said(secret))
        assert secret not in repr(session.interactions)
    assert secret not in repr(session.interactions)
    assert secret not in str(session.report)


def test_model_settings(world: World, tmp_path: Path) -> None:
    """The key that a client is made with is no part of a request."""
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    key = make_secrets()["openai"]
    model = ChatOpenAI(
        model="gpt-5-mini",
        api_key=SecretStr(key),
        base_url="http://127.0.0.1:9/v1",
        default_headers={"X-Api-Key": key},
        max_retries=0,
    )
    import openai

    with use_cassette(tmp_path / "chat.yaml", mode="all"), pytest.raises(openai.APIConnectionError):
        model.invoke("hello")
    assert_absent(key, tmp_path)


def test_own_rules(world: World, tmp_path: Path) -> None:
    """A rule of the user's own is kept to, and rehydrated like the others."""
    code = "case-" + word(6)
    model = NativeChat(world=world, reply=echoing)
    path = tmp_path / "chat.yaml"
    rules = [Rule("case", pattern=r"case-\w{6}")]
    with use_cassette(path, mode="all", redact=rules):
        recorded = model.invoke(f"about {code}")
    assert_absent(code, tmp_path)
    world.gone = True
    with use_cassette(path, redact=rules):
        assert model.invoke(f"about {code}") == recorded


class State(TypedDict):
    """What was said in a graph."""

    said: Annotated[list[str], operator.add]


def test_a_rule_that_came_later(world: World, twice: Twice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was redacted after a later rule replays for who has the secret: a streamed agent, and a graph."""
    secret = "Bluebird-" + "Seven9"  # nothing but a rule gives it away

    def reply(messages: Sequence[Any], number: int) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage(f"It is about {secret} , as {messages[-1].text}")
        return calling(("temperature", {"city": secret}), number=number)

    def temperature(city: str) -> str:
        """Tell the temperature of a city."""
        world.reach("temperature")
        return f"18 degrees in {city}"

    def run() -> list[Any]:
        agent = create_agent(StreamingChat(world=world, reply=reply), [temperature])
        parts = agent.stream({"messages": [("user", f"What is {secret} about?")]}, stream_mode="messages")
        model = StreamingChat(world=world, reply=echoing)
        ask: Any = lambda state: {"said": [model.invoke(state["said"][-1]).text]}  # noqa: E731
        builder = StateGraph(State).add_node("first", ask).add_node("second", ask)
        graph = builder.add_edge(START, "first").add_edge("first", "second").compile()
        return [*(part[0].text for part in parts), graph.invoke({"said": [f"What is {secret} about?"]})]

    recorded = twice.record(run)
    assert secret in twice.path.read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJECT", secret)
    Path("pyproject.toml").write_text('[tool.agenttape]\nredaction_rules = [{name = "project", env = "PROJECT"}]\n')
    assert command(["cassette", "redact", "."]) == 0
    assert_absent(secret, tmp_path)
    with twice.replays():
        assert run() == recorded


def test_another_secret_is_a_miss(world: World, twice: Twice) -> None:
    """A program that doesn't hold the recorded secret gets a miss, which shows neither secret."""
    first, second = make_secrets()["openai"], make_secrets()["openai"]
    model = NativeChat(world=world, reply=echoing)
    twice.record(lambda: model.invoke(said(first)))
    with pytest.raises(CassetteMissError) as miss, twice.replays():
        model.invoke(said(second))
    assert first not in str(miss.value)
    assert second not in str(miss.value)


@pytest.mark.parametrize("streamed", [False, True])
def test_log_probabilities_spell_no_secret(world: World, *, streamed: bool, twice: Twice) -> None:
    """The log probabilities of an answer spell a pseudonym in the cassette, and in a replay what the recording did."""

    class SpellingChat(SecretChat):
        """Gives the log probabilities of each character of its answer, as OpenAI does of its tokens."""

        def said(self, messages: Any) -> AIMessage:
            """The answer of `_generate`."""
            message = super().said(messages)
            message.response_metadata["logprobs"] = probabilities(str(message.content))
            return message

        def chunks(self, messages: Any) -> Any:
            """The chunks of `_stream`."""
            for chunk in super().chunks(messages):
                chunk.message.response_metadata["logprobs"] = probabilities(chunk.text)
                yield chunk

    def probabilities(text: str) -> dict[str, Any]:
        """Return the log probabilities of an answer whose tokens are its characters."""
        entries = [{"token": each, "bytes": list(each.encode()), "logprob": -0.1} for each in text]
        return {"content": [{**entry, "top_logprobs": [entry]} for entry in entries]}

    def spelled(value: Any, key: str) -> str:
        """Return all that stands under a key anywhere in a value, joined."""
        if isinstance(value, dict):
            own = value.get(key, "")
            own = bytes(own).decode() if isinstance(own, list) else own
            return own + "".join(spelled(item, key) for name, item in value.items() if name != "top_logprobs")
        return "".join(spelled(item, key) for item in value) if isinstance(value, list) else ""

    secret = make_secrets()["openai"]
    model = SpellingChat(world=world, reply=echoing)

    def run() -> list[Any]:
        return list(model.stream(said(secret))) if streamed else [model.invoke(said(secret))]

    recorded = twice.record(run)
    assert secret in spelled([chunk.response_metadata for chunk in recorded], "token")
    with twice.replays():
        replayed = run()
    plain = [interaction.model_dump() for interaction in open_cassette(twice.path).interactions()]
    for key in ("token", "bytes"):
        expected = spelled([chunk.response_metadata for chunk in recorded], key)
        assert spelled([chunk.response_metadata for chunk in replayed], key) == expected
        assert re.sub(PSEUDONYM.pattern, secret, spelled(plain, key)) == expected
