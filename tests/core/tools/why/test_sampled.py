"""Which messages of a request turn the answer of its model: sampled with a scripted model, within a limit."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from agenttape_core import ConfigurationError, VerificationError, boundary, use_cassette
from agenttape_core.tools.why import Why, why

PLANTED = "the order is 9981"


class Model:
    """A scripted model, which knows nothing but what it is told."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self.mood: Iterator[bool] = itertools.repeat(True)
        self.knows = False
        self.error: Exception | None = None

    def answer(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Answer with the order, where it is told."""
        self.asked.append(messages)
        if self.error is not None:
            raise self.error
        is_told = self.knows or any(PLANTED in message["content"] for message in messages)
        text = "Your order 9981 is on its way" if is_told and next(self.mood) else "I do not know"
        return {"response_metadata": {"model_name": "gpt-x"}, "content": text}


model = Model()


@pytest.fixture(autouse=True)
def fresh(prices: None) -> None:
    """A model that has not been asked, with a price."""
    vars(model).update(vars(Model()))


@boundary("tool")
def look_up(what: str) -> str:
    """Return the planted fact."""
    return f"Well, {what}.\n{PLANTED}.\n" + "Nothing more is known about it. " * 10


@boundary("chat")
def ask(messages: list[dict[str, Any]]) -> Any:
    """Ask the model."""
    return model.answer(messages)


@boundary("chat")
async def aask(messages: list[dict[str, Any]]) -> Any:
    """Ask it, awaited."""
    await asyncio.sleep(0)
    return model.answer(messages)


@boundary("chat")
def stream(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Ask it for a stream."""
    yield from model.answer(messages)["content"].split(" ")


@boundary("chat")
async def astream(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Ask it for a stream, awaited."""
    for word in model.answer(messages)["content"].split(" "):
        yield word


def messages(*, count: int = 8) -> list[dict[str, Any]]:
    """Return a conversation in which one message holds the planted fact."""
    facts = [{"role": "user", "content": f"fact {number}"} for number in range(count)]
    facts.insert(count // 2, {"role": "tool", "content": look_up("as far as I see")})
    return [{"role": "system", "content": "Be kind."}, *facts]


def plain() -> Any:
    """Ask once."""
    return ask(messages())


async def awaited() -> Any:
    """Ask once, awaited."""
    return await aask(messages())


def streamed() -> Any:
    """Read a stream."""
    return [*stream(messages())]


async def astreamed() -> Any:
    """Read a stream, awaited."""
    return [word async for word in astream(messages())]


def sampled(function: Any, **options: Any) -> Why:
    """Record a program, and sample it."""
    with use_cassette("c", mode="all"):
        asyncio.run(function()) if asyncio.iscoroutinefunction(function) else function()
    model.asked.clear()
    return why("c", function, **{"samples": 1, "max_usd": 1.0, **options})


@pytest.mark.parametrize("function", [plain, awaited, streamed, astreamed])
def test_the_planted_message_is_found(function: Any) -> None:
    """The message, and the line in it, in at most 12 calls for the message; every other call is served."""
    found = sampled(function, text=None if function in {streamed, astreamed} else "9981").sampled
    assert found is not None
    assert [(one.at, one.text, one.is_part) for one in found.turned] == [
        ("messages[5]", "Well, as far as I see. the order is 9981. Nothing more is kn…", False),
        ("messages[5]", "the order is 9981.", True),
    ]
    assert (found.whole.said, found.nothing.said) == (1, 0)
    assert all((one.alone.said, one.without.said) == (1, 0) for one in found.turned)
    assert found.calls == len(model.asked)
    texts = [asked[5]["content"] for asked in model.asked]
    assert next(number for number, text in enumerate(texts) if "…" in text and PLANTED in text) <= 12
    assert {message["role"] for asked in model.asked for message in asked} == {"system", "user", "tool"}


def test_links_and_samples_stand_apart() -> None:
    """What is sampled changes no link, has a section of its own, and intervals; without it there is none."""
    found, shown = sampled(plain, text="9981", samples=2), why("c", plain, text="9981")
    assert shown.sampled is None
    assert shown.to_dict()["sampled"] is None
    assert found.links == shown.links
    text = str(found)
    assert text.startswith(str(shown))
    assert "sampled, not shown: '9981' stands in 2 of 2 (34% to 100%) answers" in text
    assert found.to_dict()["sampled"]["turned"][0]["without"]["of"] == 2


def test_a_model_that_wavers_is_sampled_as_often_as_needed() -> None:
    """One answer of five that is another one hides no message, and the shares say so."""

    def few() -> Any:
        return ask(messages(count=2))

    with use_cassette("c", mode="all"):
        few()
    model.mood = itertools.cycle([True, True, True, True, False])
    found = why("c", few, text="9981", samples=5, max_usd=1.0).sampled
    assert found is not None
    assert found.turned[0].at == "messages[2]"
    assert found.whole.said == 4
    assert 0 < found.whole.interval[0] < 0.8 < found.whole.interval[1] < 1


@pytest.mark.parametrize("seed", [1, 2])
def test_one_of_several_that_are_enough(seed: int) -> None:
    """If two messages hold the fact, one is found, the same for a seed; without it the other one is enough."""

    def twice() -> Any:
        return ask([*messages(count=2), {"role": "user", "content": f"again: {PLANTED}"}])

    found = [sampled(twice, text="9981", seed=seed).sampled for _ in "ab"]
    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0].turned[0].at in {"messages[2]", "messages[4]"}
    assert found[0].turned[0].without.said == 1


def test_what_cannot_be_told() -> None:
    """A model that knows it by itself, or does not say it again, is named, and no message is blamed."""
    with use_cassette("c", mode="all"):
        plain()
    model.knows = True
    known = why("c", plain, text="9981", samples=2, max_usd=1.0).sampled
    model.mood = itertools.repeat(False)
    forgotten = why("c", plain, text="9981", samples=2, max_usd=1.0).sampled
    assert known is not None
    assert forgotten is not None
    assert (known.turned, known.note) == ((), "the model answers so by itself, whatever it is asked")
    assert (forgotten.turned, forgotten.calls) == ((), 4)
    assert forgotten.note.startswith("the model seldom answers so again")


def test_what_was_found_before_the_end_is_kept() -> None:
    """The number of calls is limited, and the account says that it was not searched to the end."""
    found = sampled(plain, text="9981", samples=4, max_replays=9).sampled
    assert found is not None
    assert (found.calls, found.turned) == (9, ())
    assert "9 replays were allowed: not searched to the end" in found.note


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"samples": 2}, "give both, samples=5 and max_usd=0.5"),
        ({"max_usd": 1}, "give both"),
        ({"samples": 0, "max_usd": 1}, "samples=0: expected how often"),
        ({"samples": 2, "max_usd": -1}, "expected a limit in US dollars"),
        ({"samples": 2, "max_usd": 1, "call": 1}, "is tool look_up, and no model"),
    ],
)
def test_wrong_questions(options: Any, problem: str) -> None:
    """Each is refused before anything runs."""
    with use_cassette("c", mode="all"):
        plain()
    model.asked.clear()
    with pytest.raises(ConfigurationError) as error:
        why("c", plain, **options)
    assert problem in str(error.value)
    assert not model.asked


def test_a_model_that_cannot_be_reached() -> None:
    """An error of the model is no answer, and is told."""
    with use_cassette("c", mode="all"):
        plain()
    model.error = ConnectionError("no key")
    with pytest.raises(VerificationError, match=r"cannot be asked: .*ConnectionError: no key"):
        why("c", plain, samples=2, max_usd=1.0)


def test_a_limit_of_nothing() -> None:
    """With a limit of no dollars, the model is not asked."""
    found = sampled(plain, text="9981", max_usd=0.0).sampled
    assert found is not None
    assert (found.calls, model.asked) == (0, [])
    assert found.note == "the limit of the cost was reached: not searched to the end"
