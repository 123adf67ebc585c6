from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, ChatMessageChunk, HumanMessage
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
    RunInfo,
)

from agenttape_core.errors import UnreadableValueError

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

Survives = Callable[[Any], Any]


def test_a_text_delta_is_written_as_its_text(survives: Survives) -> None:
    """The chunk that fills most streams must be one short string."""
    assert survives(ChatGenerationChunk(message=AIMessageChunk(content="Hel"))) == {"$chunk": "Hel"}
    assert survives(ChatGenerationChunk(message=AIMessageChunk(content=""))) == {"$chunk": ""}


def test_other_chunks_are_written_as_their_message(survives: Survives) -> None:
    """A chunk of the usual class must be the fields of its message, and what the generation adds."""
    message = AIMessageChunk(content="", id="1", tool_call_chunks=[{"name": None, "args": "{", "id": None, "index": 0}])
    chunk = ChatGenerationChunk(message=message, generation_info={"finish_reason": "stop"})
    assert survives(chunk) == {
        "$chunk": {
            "tool_call_chunks": [{"args": "{", "index": 0}],
            "id": "1",
            "generation_info": {"finish_reason": "stop"},
        }
    }


def test_a_chunk_of_another_message_class_survives(survives: Survives) -> None:
    """Chunks of other roles must come back as their class."""
    survives(ChatGenerationChunk(message=ChatMessageChunk(content="x", role="critic")))


def test_text_that_differs_from_the_message_survives(survives: Survives) -> None:
    """A generation's text that was made before its message changed must not be derived again."""
    for make in (ChatGeneration(message=AIMessage("a")), ChatGenerationChunk(message=AIMessageChunk(content="a"))):
        make.message.content = "b"
        plain = survives(make.model_copy(update={"text": str(make.text)}))
        assert "a" in str(plain)


@pytest.mark.parametrize(
    "content",
    [[], ["a", {"type": "text", "text": "b"}], [{"text": "legacy"}], [{"type": "image", "url": "x"}]],
    ids=repr,
)
def test_text_of_block_content_is_derived(content: list[Any], survives: Survives) -> None:
    """Text that follows from content blocks must be left out, and come back."""
    assert "text" not in survives(ChatGeneration(message=AIMessage(content)))["$chat_generation"]
    survives(ChatGenerationChunk(message=AIMessageChunk(content=content)))


@pytest.mark.parametrize(
    "generation",
    [
        Generation(text="a"),
        Generation(text="a", generation_info={"x": (1,)}),
        GenerationChunk(text="a"),
        GenerationChunk(text="\ud800"),
        ChatGeneration(message=HumanMessage("a")),
    ],
    ids=repr,
)
def test_generations_survive(generation: Generation, survives: Survives) -> None:
    """Each generation class must come back as itself."""
    survives(generation)


def test_a_text_generation_is_short(values: ValueCodec) -> None:
    """A completion must be its text."""
    assert values.encode(GenerationChunk(text="a")) == {"$generation_chunk": "a"}
    assert values.encode(Generation(text="a")) == {"$generation": "a"}


def test_a_result_is_its_only_generation(survives: Survives) -> None:
    """The usual result must be written without a list of one."""
    result = ChatResult(generations=[ChatGeneration(message=AIMessage("a"))], llm_output={"model_name": "m"})
    assert survives(result) == {
        "$chat_result": {"message": {"type": "ai", "content": "a"}, "llm_output": {"model_name": "m"}}
    }


def test_results_of_any_length_survive(survives: Survives) -> None:
    """Results with no, several or chunk generations must come back."""
    one, two = (ChatGeneration(message=AIMessage(text), generation_info={"n": text}) for text in "ab")
    for generations in ([], [one], [one, two], [ChatGenerationChunk(message=AIMessageChunk(content="a"))]):
        survives(ChatResult(generations=generations))


def test_llm_results_survive(survives: Survives, values: ValueCodec) -> None:
    """The results that callbacks see must come back, including run ids."""
    result = LLMResult(
        generations=[[Generation(text="a")], [ChatGeneration(message=AIMessage("b"))], []],
        llm_output={"token_usage": {}},
        run=[RunInfo(run_id=uuid.UUID(int=1))],
    )
    survives(result)
    assert values.encode(LLMResult(generations=[])) == {"$llm_result": {"generations": []}}


def test_documents_survive(survives: Survives) -> None:
    """A document must come back with its id and the types of its metadata."""
    plain = survives(Document("text", id="d", metadata={"span": (1, 2)}))
    assert plain == {"$document": {"page_content": "text", "id": "d", "metadata": {"span": {"$tuple": [1, 2]}}}}
    survives(Document("text"))


def test_subclasses_come_back(survives: Survives, subclass: Callable[..., Any]) -> None:
    """Users' subclasses that can be found by name must come back as themselves, with all they hold."""
    annotations = {"message": str}
    generation = ChatGeneration(message=AIMessage("a"))
    survives(subclass(ChatResult, __annotations__=annotations, message="")(generations=[generation], message="x"))
    survives(subclass(ChatGeneration, model_config={"extra": "allow"})(message=AIMessage("a"), weight=1))
    survives(subclass(ChatGenerationChunk)(message=AIMessageChunk(content="a")))
    survives(subclass(Document, model_config={"extra": "allow"})("text", score=0.5))
    survives(subclass(Generation)(text="a"))


def test_message_text_survives(survives: Survives) -> None:
    """`message.text`, which tools return, must come back as the same kind of string."""
    survives(AIMessage("a").text)


@pytest.mark.parametrize(
    "plain",
    [
        {"$chunk": 1},
        {"$chunk": {"message": {"type": "robot"}}},
        {"$chunk": {"colour": 1}},
        {"$chat_result": {}},
        {"$chat_result": {"generations": "x"}},
        {"$chat_result": []},
        {"$chat_generation": {}},
        {"$generation": {}},
        {"$llm_result": {"generations": [], "run": ["x"]}},
        {"$llm_result": {"generations": [], "run": 1}},
        {"$document": {"metadata": {}}},
        {"$document": {"page_content": "x", "$class": "pathlib:Path"}},
    ],
    ids=repr,
)
def test_malformed_outputs_are_refused(plain: Any, values: ValueCodec) -> None:
    """Outputs that were edited into something impossible must be refused by our own error."""
    with pytest.raises(UnreadableValueError):
        values.decode(plain)
