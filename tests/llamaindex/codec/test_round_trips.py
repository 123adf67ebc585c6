"""Whatever an LLM can return comes back equal, whole and as a stream."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    ChatResponse,
    CitableBlock,
    CitationBlock,
    CompletionResponse,
    DocumentBlock,
    ImageBlock,
    LogProb,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from pydantic import BaseModel
from tests.kit.fields_given import fields_given

from agenttape_core.integration import value_codec
from agenttape_core.integration.codecs import NOTHING, changed, changes
from agenttape_core.schema.codecs import keeping_sets
from agenttape_llamaindex.codec import CHATS, TEXTS

TEXT = st.text(st.characters(), max_size=12)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SMALL = st.dictionaries(st.text("abc$", max_size=2), PLAIN, max_size=3)
BYTES = st.binary(min_size=1, max_size=8)
ARGUMENTS = SMALL | TEXT

TEXTS_ = st.builds(lambda text: TextBlock(text=text), TEXT)
CALLS_ = st.builds(
    lambda name, kwargs, call_id: ToolCallBlock(tool_name=name, tool_kwargs=kwargs, tool_call_id=call_id),
    TEXT,
    ARGUMENTS,
    st.none() | TEXT,
)
BLOCKS = st.one_of(
    TEXTS_,
    CALLS_,
    st.builds(lambda data: ImageBlock(image=data, image_mimetype="image/png", detail="low"), BYTES),
    st.builds(lambda n: ImageBlock(url=f"https://example.org/{n}.png"), st.integers(0, 9)),
    st.builds(lambda data: AudioBlock(audio=data, format="wav"), BYTES),
    st.builds(lambda data: VideoBlock(video=data, video_mimetype="video/mp4", fps=2), BYTES),
    st.builds(lambda data: DocumentBlock(data=data, title="t", document_mimetype="application/pdf"), BYTES),
    st.builds(lambda ttl: CachePoint(cache_control=CacheControl(type="ephemeral", ttl=ttl)), TEXT),
    st.builds(lambda inner: CitableBlock(title="t", source="s", content=[inner]), TEXTS_),
    st.builds(
        lambda inner, n: CitationBlock(cited_content=inner, source="s", title="t", additional_location_info={"p": n}),
        TEXTS_,
        st.integers(),
    ),
    st.builds(
        lambda text, n, info: ThinkingBlock(content=text, num_tokens=n, additional_information=info),
        st.none() | TEXT,
        st.none() | st.integers(),
        SMALL,
    ),
)
MESSAGES = st.builds(
    lambda role, blocks, kwargs: ChatMessage(role=role, blocks=blocks, additional_kwargs=kwargs),
    st.sampled_from(MessageRole),
    st.lists(BLOCKS, max_size=3) | st.tuples(TEXTS_, CALLS_).map(list),
    SMALL,
)
LOGPROBS = st.none() | st.just([[LogProb(token="a", logprob=-0.25, bytes=[97])], []])
RESPONSES = st.builds(
    lambda message, raw, delta, logprobs, kwargs: ChatResponse(
        message=message, raw=raw, delta=delta, logprobs=logprobs, additional_kwargs=kwargs
    ),
    MESSAGES,
    st.none() | PLAIN,
    st.none() | TEXT,
    LOGPROBS,
    SMALL,
)
COMPLETIONS = st.builds(
    lambda text, raw, delta, logprobs, kwargs: CompletionResponse(
        text=text, raw=raw, delta=delta, logprobs=logprobs, additional_kwargs=kwargs
    ),
    TEXT,
    st.none() | PLAIN,
    st.none() | TEXT,
    LOGPROBS,
    SMALL,
)


class Usage(BaseModel):
    """A usage as a provider's client might have it."""

    tokens: int


class Raw(BaseModel):
    """An object that a provider's client might return."""

    id: str
    usage: Usage


def stored(value: Any) -> Any:
    """Return a value as a file would hold it."""
    return json.loads(json.dumps(value_codec().encode(value)))


@given(MESSAGES | RESPONSES | COMPLETIONS | BLOCKS)
def test_objects(value: Any) -> None:
    """Messages, blocks and responses come back equal, of the same class, and with the fields that they were given."""
    with keeping_sets():
        back = value_codec().decode(stored(value))
    assert type(back) is type(value)
    assert back == value
    assert repr(back) == repr(value)
    assert fields_given(back) == fields_given(value)


@given(st.lists(RESPONSES, min_size=1, max_size=4) | st.lists(COMPLETIONS, min_size=1, max_size=4))
def test_streams(responses: list[Any]) -> None:
    """Any sequence of responses comes back equal as a stream, whether or not each extends the one before."""
    sort = CHATS if isinstance(responses[0], ChatResponse) else TEXTS
    chunks = [value_codec().decode(stored(chunk)) for chunk in map(sort.writer(), responses)]
    read = sort.reader()
    assert [read(chunk) for chunk in chunks] == responses
    assert sort.join(chunks) == responses[-1].model_copy(update={"delta": None})


@given(RESPONSES | COMPLETIONS)
def test_whole_as_a_stream(response: Any) -> None:
    """A whole response serves a stream: of one chunk, which says all of it."""
    sort = CHATS if isinstance(response, ChatResponse) else TEXTS
    read = sort.reader()
    (chunk,) = [read(chunk) for chunk in sort.split(response)]
    assert chunk.model_copy(update={"delta": None}) == response.model_copy(update={"delta": None})
    assert isinstance(chunk.delta, str)


@given(PLAIN, PLAIN)
def test_changes(before: Any, after: Any) -> None:
    """The change between two pieces of plain data makes the one of the other, also of nothing."""
    for start in (before, NOTHING):
        change = changes(start, after)
        result = start if change is NOTHING else changed(start, json.loads(json.dumps(change)))
        assert repr(result) == repr(after) or result == after


def test_raw_of_a_class() -> None:
    """A provider's object comes back as such where its class is loaded, and else as a dict."""
    response = CompletionResponse(text="x", raw=Raw(id="1", usage=Usage(tokens=3)))
    plain = stored(response)
    assert value_codec().decode(plain) == response
    gone = json.loads(json.dumps(plain).replace(__name__, "gone.module"))
    assert value_codec().decode(gone).raw == {"id": "1", "usage": {"tokens": 3}}


def test_raw_that_can_only_tell() -> None:
    """An object without a codec that has a method for its data, as clients' objects do, is kept as that data."""

    class Told:
        def to_dict(self) -> dict[str, Any]:
            return {"id": 7}

    response = ChatResponse(
        message=ChatMessage(role="assistant", content="x", additional_kwargs={"tool_calls": [Told()]}), raw=Told()
    )
    back = value_codec().decode(stored(response))
    assert back.raw == {"id": 7}
    assert back.message.additional_kwargs == {"tool_calls": [{"id": 7}]}
