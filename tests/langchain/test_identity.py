"""Two different models are never the same request, also if they do not describe themselves."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import LLM, BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnidentifiedModelWarning
from agenttape_langchain import TapeCallbackHandler

from ..kit.replaying import Twice


class Style(Enum):
    """How a model answers."""

    TERSE = "terse"
    LONG = "long"


class InHouse(BaseChatModel):
    """A chat model as companies write it, without identifying parameters."""

    deployment_alias: str = "a"
    creativity: float = 0.0
    style: Style = Style.TERSE
    base_url: str = "http://one"
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "in-house"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.asked += 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I am {self.deployment_alias}"))])


class InHouseText(LLM):
    """A text model without identifying parameters."""

    model: str = "a"

    @property
    def _llm_type(self) -> str:
        return "in-house"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **_: Any) -> str:
        return f"I am {self.model}"


class Nameless(BaseChatModel):
    """A chat model with nothing to go by."""

    client: Any = None

    @property
    def _llm_type(self) -> str:
        return "nameless"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("hm"))])


@pytest.mark.parametrize(
    ("recorded", "other", "word"),
    [
        (InHouse(), InHouse(deployment_alias="b"), "deployment_alias"),
        (InHouse(), InHouse(creativity=0.9), "creativity"),
        (InHouse(), InHouse(style=Style.LONG), "style"),
        (InHouseText(), InHouseText(model="b"), "model"),
    ],
)
def test_another_model_is_missed(recorded: Any, other: Any, word: str, twice: Twice) -> None:
    """A model without identifying parameters doesn't get the answers of another one."""
    twice.record(lambda: recorded.invoke("Who?"))
    with (
        pytest.raises(CassetteMissError, match=rf"{word} differs"),
        twice.replays(on_unused="ignore"),
    ):
        other.invoke("Who?")


def test_the_same_model_is_replayed(twice: Twice) -> None:
    """Counters, and what belongs to the machine, are no part of a model."""
    model = InHouse()
    answers = twice.record(lambda: [model.invoke("Who?").text, model.invoke("You?").text])
    with twice.replays() as cassette:
        other = InHouse(base_url="http://two")
        assert [other.invoke("Who?").text, other.invoke("You?").text] == answers
    assert len(cassette.report.replayed) == 2


def test_other_embeddings_are_missed(twice: Twice) -> None:
    """An embedding model that is no pydantic model is told from others by its attributes."""

    class InHouseEmbeddings(Embeddings):
        """An embedding model that is no pydantic model."""

        def __init__(self, flavour: str = "a") -> None:
            self.flavour = flavour

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return [float(ord(self.flavour)), float(len(text))]

    twice.record(lambda: InHouseEmbeddings().embed_query("one"))
    with (
        pytest.raises(CassetteMissError, match="flavour differs"),
        twice.replays(on_unused="ignore"),
    ):
        InHouseEmbeddings("b").embed_query("one")


def test_classes_that_change_between_calls(tmp_path: Any) -> None:
    """A class that inherits from other classes than at its last call has their attributes in its next request."""

    class Named:
        model = "a"

    class Deployed:
        deployment = "b"

    class Changing(Nameless, Named):
        pass

    with use_cassette(tmp_path / "a.yaml", mode="all") as cassette:
        Changing().invoke("Who?")
        Changing.__bases__ = (Nameless, Deployed)
        Changing().invoke("Who?")
    assert [call.request.get("model") for call in cassette.interactions] == ["a", "b"]


def test_observed_model_is_replayed(tmp_path: Any) -> None:
    """What a handler observed of such a model, without its fields, answers it."""
    answer = InHouse().invoke("Who?", config={"callbacks": [TapeCallbackHandler(tmp_path / "a.yaml")]})
    with use_cassette(tmp_path / "a.yaml") as cassette:
        assert InHouse().invoke("Who?").text == answer.text
    assert len(cassette.report.replayed) == 1


def test_nothing_to_go_by_is_warned_of(tmp_path: Any) -> None:
    """A recording of a model that nothing tells from others of its class ends with a warning, a replay without."""
    with (
        pytest.warns(UnidentifiedModelWarning, match="chat Nameless do not say which model is asked"),
        use_cassette(tmp_path / "a.yaml", mode="all"),
    ):
        Nameless().invoke("Who?")
    with use_cassette(tmp_path / "a.yaml"):
        Nameless().invoke("Who?")


class Unnamed(InHouse):
    """A chat model that describes itself, perhaps without a name: llama.cpp and LM Studio serve the one they have."""

    described: Any = None

    @property
    def _identifying_params(self) -> Any:
        return self.described


class UnnamedText(InHouseText):
    """A text model of that kind."""

    described: Any = None

    @property
    def _identifying_params(self) -> Any:
        return self.described


NAMELESS = [{}, {"model": ""}, {"model": None}, {"model_name": ""}, {"model": "", "temperature": 1}]


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore::agenttape_core.errors.UnidentifiedModelWarning")
@pytest.mark.parametrize("described", NAMELESS)
@pytest.mark.parametrize("cls", [Unnamed, UnnamedText])
def test_model_without_a_name(cls: Any, described: Any, tmp_path: Any, twice: Twice) -> None:
    """A model whose name is empty or missing is recorded, observed and replayed as any other."""
    observed = tmp_path / "observed.yaml"
    twice(lambda: cls(described=described).invoke("Hi"))
    with TapeCallbackHandler(observed) as handler:
        cls(described=described).invoke("Hi", {"callbacks": [handler]})
    assert handler.errors == []
    with use_cassette(observed) as replay:
        cls(described=described).invoke("Hi")
    assert len(replay.report.replayed) == 1


def test_name_beside_an_empty_one(twice: Twice) -> None:
    """Where one of the two names is empty, the other one counts."""
    twice.record(lambda: Unnamed(described={"model": "", "model_name": "a"}).invoke("Hi"))
    with pytest.raises(CassetteMissError, match="model"), twice.replays():
        Unnamed(described={"model": "", "model_name": "b"}).invoke("Hi")


def test_a_setting_that_the_class_gets_later_counts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that a class gets between two calls is a part of the second request."""
    path = tmp_path / "run.yaml"
    with use_cassette(path, mode="record") as tape:
        InHouse().invoke("Paris?")
        with monkeypatch.context() as patched:
            patched.setattr(InHouse, "temperature", 0.5, raising=False)
            InHouse().invoke("Paris?")
    assert [call.request.get("temperature") for call in tape.interactions] == [None, 0.5]

    with pytest.raises(CassetteMissError, match="temperature"), use_cassette(path):
        InHouse().invoke("Paris?")
        InHouse().invoke("Paris?")
