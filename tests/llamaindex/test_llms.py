"""LLMs of every base class, taped by hand and met by automatic sessions."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ImageBlock,
    LogProb,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import MockLLM
from llama_index.core.llms.utils import resolve_llm
from llama_index.core.program.utils import get_program_for_llm
from llama_index.core.rate_limiter import BaseRateLimiter, TokenBucketRateLimiter
from pydantic import BaseModel, PrivateAttr

from agenttape_core import open_cassette, use_cassette
from agenttape_core.redaction import PSEUDONYM
from agenttape_llamaindex import tape

from .fakes import (
    CALLS,
    Callbacks,
    CallingLLM,
    DelegatingLLM,
    LeafLLM,
    PromptingLLM,
    PromptLLM,
    done,
    events_of,
    with_events,
)
from .scripted import World

KEY = "sk-" + "proj-" + "c4n4ryC4N4RYc4n4ry0123456789"
CLASSES: list[Callable[[World], Any]] = [LeafLLM, DelegatingLLM, PromptingLLM, PromptLLM, CallingLLM]


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
def test_replay_equals_the_recording(
    tmp_path: Path, world: World, cls: Callable[[World], Any], name: str, *, auto: bool
) -> None:
    """A leaf call of any class gives the same value, events and callbacks unrecorded, recorded and replayed."""
    listeners = [Callbacks(), Callbacks(), Callbacks()]
    managers = [CallbackManager([each]) for each in listeners]
    _, plain = with_events(lambda: CALLS[name](cls(World(), callback_manager=managers[0])))
    llm = cls(world) if auto else tape(cls(world))
    llm.callback_manager = managers[1]
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=auto):
        recorded, told = with_events(lambda: CALLS[name](llm))
    world.gone = True
    llm.callback_manager = managers[2]
    with use_cassette(tmp_path / "c.yaml", auto=auto) as replay:
        replayed, told_again = with_events(lambda: CALLS[name](llm))
    assert replayed == recorded
    assert told_again == told
    assert told == plain, "recording must not change what is told"
    assert listeners[0].told == listeners[1].told == listeners[2].told != []
    assert [type(item) for item in replayed] == [type(item) for item in recorded]
    assert len(replay.interactions) == len(world.reached) == 1
    assert world.trespasses == []


@pytest.mark.parametrize(
    ("cls", "name", "delegated_by"),
    [
        (LeafLLM, "chat", None),
        (DelegatingLLM, "chat", ["chat"]),
        (DelegatingLLM, "achat", ["achat", "chat"]),
        (DelegatingLLM, "acomplete", ["acomplete"]),
        (DelegatingLLM, "astream_complete", ["astream_complete"]),
        (PromptingLLM, "stream_chat", ["stream_chat"]),
    ],
)
def test_recording_names_the_methods_that_delegated(
    tmp_path: Path, world: World, cls: Callable[[World], Any], name: str, delegated_by: list[str] | None
) -> None:
    """A call that methods of one object hand to each other is one interaction, which names the outer ones."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        done(CALLS[name](cls(world)))
    (record,) = open_cassette(tmp_path / "c.yaml").records()
    assert record.metadata.get("delegated_by") == delegated_by


@pytest.mark.parametrize("asked", ["achat", "astream_chat"])
@pytest.mark.parametrize("recorded", ["chat", "stream_chat"])
def test_delegated_call_serves_one_that_is_not(tmp_path: Path, world: World, recorded: str, asked: str) -> None:
    """A chat that was delegated to a completion serves a method that makes a chat itself."""
    llm = tape(PromptingLLM(world))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        first = done(CALLS[recorded](llm))
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"):
        second = done(CALLS[asked](llm))
    ends = [value[-1] if isinstance(value, list) else value for value in (first, second)]
    assert ends[0].message == ends[1].message
    assert world.trespasses == []


def test_taped_is_of_the_same_class(world: World) -> None:
    """A taped LLM has the class, the metadata and the state of the original."""
    original = CallingLLM(world, system_prompt="Be kind.")
    taped = tape(original)
    assert tape(taped) is taped
    assert isinstance(taped, CallingLLM)
    assert type(taped).__name__ == "CallingLLM"
    assert (taped.metadata, taped.to_dict(), taped.to_payload()) == (
        original.metadata,
        original.to_dict(),
        original.to_payload(),
    )
    assert taped.class_name() == original.class_name()
    assert inspect.signature(type(taped)._prepare_chat_with_tools) == inspect.signature(
        CallingLLM._prepare_chat_with_tools
    )
    taped.system_prompt = "Be brief."
    assert original.system_prompt == "Be brief."


def test_copies_stay_taped(tmp_path: Path) -> None:
    """A copy of a taped LLM by pydantic, `copy` or `pickle` is taped."""
    taped = tape(MockLLM(max_tokens=2))
    for n, twin in enumerate(
        [taped.model_copy(), copy.copy(taped), copy.deepcopy(taped), pickle.loads(pickle.dumps(taped))]
    ):
        with use_cassette(tmp_path / f"{n}.yaml", mode="all", auto=False) as cassette:
            assert twin.complete("x").text == "text text"
        assert len(cassette.interactions) == 1


def test_request_is_what_the_provider_receives(tmp_path: Path, world: World) -> None:
    """A request names model, sampling, messages, tools and results in the terms of all cassettes."""
    picture = ImageBlock(image=b"\x89PNG", image_mimetype="image/png")
    history = [
        ChatMessage(role="user", blocks=[TextBlock(text="Look"), picture]),
        ChatMessage(
            role="assistant",
            blocks=[ToolCallBlock(tool_call_id="t1", tool_name="add", tool_kwargs='{"a": 1}')],
        ),
        ChatMessage(role="tool", content="1", additional_kwargs={"tool_call_id": "t1", "name": "add"}),
    ]
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=False):
        tape(LeafLLM(world)).chat(history, stop=["."], stream=True)
    request = next(iter(open_cassette(tmp_path / "c.yaml").records())).request
    assert request["model"] == "fake-1"
    assert request["temperature"] == 0.5
    assert request["stop"] == ["."]
    assert request.keys() == {"model", "temperature", "stop", "messages"}
    look, call, result = request["messages"]
    assert (look["role"], look["content"][0], look["content"][1]["type"]) == (
        "user",
        {"type": "text", "text": "Look"},
        "image_url",
    )
    assert call == {"role": "assistant", "content": "", "tool_calls": [{"name": "add", "args": {"a": 1}, "id": "t1"}]}
    assert result == {"role": "tool", "content": "1", "tool_call_id": "t1", "name": "add"}


@pytest.mark.parametrize("name", ["chat", "achat", "stream_chat", "astream_chat", "complete"])
def test_errors_are_raised_again(tmp_path: Path, world: World, name: str) -> None:
    """An error of the provider is recorded and raised again, with the same events."""
    llm = tape(LeafLLM(world, fails=True))
    with use_cassette(tmp_path / "c.yaml", mode="all"), events_of() as told, pytest.raises(ValueError, match="refused"):
        done(CALLS[name](llm))
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"), events_of() as again, pytest.raises(ValueError, match="refused"):
        done(CALLS[name](llm))
    assert [event[:2] for event in again] == [event[:2] for event in told]


def test_class_that_is_defined_meanwhile(tmp_path: Path, world: World) -> None:
    """An automatic session meets classes that are defined while it is open."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as cassette:

        class Late(LeafLLM):
            def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
                return self._complete("late")

        Late(world).complete("x")
    assert [interaction.name for interaction in cassette.interactions] == ["Late"]


def test_framework_takes_a_taped_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and `resolve_llm` accept a taped LLM, and programs are chosen as for the original."""

    class City(BaseModel):
        name: str

    taped, original = tape(CallingLLM(world)), CallingLLM(world)
    monkeypatch.setattr(Settings, "_llm", None)
    Settings.llm = taped
    assert Settings.llm is taped
    assert resolve_llm(taped) is taped
    from llama_index.core.prompts import PromptTemplate

    programs = [get_program_for_llm(City, PromptTemplate("x"), llm) for llm in (taped, original)]
    assert type(programs[0]) is type(programs[1])


def test_rate_limiter_does_not_wait_for_what_is_replayed(tmp_path: Path, world: World) -> None:
    """A rate limiter lets through in a replay what it would hold up for a minute."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        for number in range(3):
            tape(LeafLLM(world)).complete(str(number))
    llm = tape(LeafLLM(world))
    llm.rate_limiter = TokenBucketRateLimiter(requests_per_minute=1)
    world.gone = True
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert [llm.complete(str(number)).text for number in range(3)] == ["text 1", "text 2", "text 3"]
    assert len(replay.report.replayed) == 3


class LastFirst(BaseRateLimiter):
    """A limiter that lets the last of three callers through first, once all are there."""

    def __init__(self) -> None:
        self.asked = 0
        self._turns: list[asyncio.Event] = []

    def acquire(self, num_tokens: int = 0) -> None:
        """Let a caller through at once."""
        self.asked += 1

    async def async_acquire(self, num_tokens: int = 0) -> None:
        """Wait for the callers that come later."""
        self.asked += 1
        self._turns.append(turn := asyncio.Event())
        if self.asked == 3:
            turn.set()
        await turn.wait()
        self._turns.pop()
        if self._turns:
            self._turns[-1].set()


def test_calls_are_answered_as_their_limiter_let_them_through(tmp_path: Path, world: World) -> None:
    """Concurrent calls behind a rate limiter are answered in the recorded order, and a replay does not ask it."""

    async def ask(limiter: LastFirst) -> list[str]:
        llm, order = LeafLLM(world), []
        llm.rate_limiter = limiter

        async def one(name: str) -> None:
            answer = await llm.acomplete("Hello?")
            order.append(f"{name} {answer.text}")

        await asyncio.gather(*map(one, "abc"))
        return order

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(ask(LastFirst()))
    assert [text[0] for text in recorded] == ["c", "b", "a"]
    world.gone, limiter = True, LastFirst()
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert asyncio.run(ask(limiter)) == recorded
    assert replay.report.nondeterminism == ()
    assert limiter.asked == 0


@pytest.mark.sweep
@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("name", ["chat", "achat", "stream_chat", "astream_chat"])
def test_the_id_of_the_response_before_is_kept(name: str, tmp_path: Path, *, taped: bool) -> None:
    """A replayed call leaves the LLM in the conversation that it was in, and a call that is added goes on there."""

    class Conversing(LeafLLM):
        """Keeps the id of the response before, and sends it with the next call, as OpenAI's responses can."""

        _previous_response_id: str | None = PrivateAttr(default=None)
        _sent: list[str | None] = PrivateAttr(default_factory=list)

        def _chat(self, what: str) -> Any:
            self._sent.append(self._previous_response_id)
            answer = super()._chat(what)
            self._previous_response_id = f"response-{answer.raw['id']}"
            return answer

        def _chunks(self, what: str) -> Any:
            for chunk in super()._chunks(what):
                yield chunk
                self._previous_response_id = f"response-{chunk.raw['id']}"

    path, world, ids = tmp_path / "c.yaml", World(), []
    for mode in ("all", "none", "new_episodes"):
        llm = Conversing(world)
        given = tape(llm) if taped else llm
        with use_cassette(path, mode=mode, auto=not taped):
            done(CALLS[name](given))
            ids.append(llm._previous_response_id)
            if mode == "new_episodes":
                given.chat([ChatMessage(role="user", content="Go on")])
    assert ids[0] is not None
    assert ids == ids[:1] * 3
    assert llm._sent == ids[:1]


def test_log_probabilities_spell_no_secret(tmp_path: Path, world: World) -> None:
    """The log probabilities of an answer spell a pseudonym in the cassette, and in a replay what the recording did."""

    class SpellingLLM(LeafLLM):
        """Gives a row of candidates for each character of its answer."""

        def _chat(self, what: str) -> ChatResponse:
            response = super()._chat(what)
            rows = [[LogProb(token=each, logprob=-0.1, bytes=list(each.encode()))] for each in f"it is {KEY}."]
            return response.model_copy(update={"logprobs": rows})

    def find(plain: Any, key: str) -> Any:
        """Return what stands under a key, wherever that is."""
        if isinstance(plain, dict):
            return (
                plain[key] if key in plain else next(filter(None, (find(item, key) for item in plain.values())), None)
            )
        return next(filter(None, (find(item, key) for item in plain)), None) if isinstance(plain, list) else None

    llm = SpellingLLM(world)
    asked = [ChatMessage(content=f"repeat {KEY}")]
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        llm.chat(asked)
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"):
        replayed = llm.chat(asked)
    (interaction,) = open_cassette(tmp_path / "c.yaml").interactions()
    assert "".join(row[0].token for row in replayed.logprobs or []) == f"it is {KEY}."
    rows = find(interaction.model_dump(), "logprobs")
    assert PSEUDONYM.sub(KEY, "".join(row[0]["token"] for row in rows)) == f"it is {KEY}."
    assert PSEUDONYM.sub(KEY, bytes(n for row in rows for n in row[0]["bytes"]).decode()) == f"it is {KEY}."
    assert PSEUDONYM.search("".join(row[0]["token"] for row in rows))
