"""Secrets that are split between the chunks of a stream."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction import PSEUDONYM, Redactor

CANARY = "sk-" + "proj-" + "c4n4ryC4N4RYc4n4ry0123456789"
TEXT = f"Use {CANARY} or alice@example.com, not 4111 1111 1111 1111."
ARGUMENTS = '{"user": "bob", "password": "hun\\"ter2", "n": 12, "api_key": 99887}'


def split(text: str, cuts: list[int]) -> list[str]:
    """Cut a text at positions; pieces may be empty."""
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


@pytest.mark.parametrize("text", [TEXT, ARGUMENTS])
@given(cuts=st.lists(st.integers(min_value=0), max_size=20))
def test_every_split(text: str, cuts: list[int]) -> None:
    """However a text is cut, its chunks are joined to what the whole text becomes, and nothing else of them changes."""
    redactor = Redactor("k")
    chunks = [{"type": "AIMessageChunk", "content": piece, "id": "lc_run--7"} for piece in split(text, cuts)]
    redacted = redactor.chunks(chunks)
    assert "".join(chunk["content"] for chunk in redacted) == redactor.text(text)
    assert [{**chunk, "content": ""} for chunk in redacted] == [{**chunk, "content": ""} for chunk in chunks]


def test_every_single_cut() -> None:
    """Each position of a cut is safe; the pseudonym is where the secret starts and the rest is gone."""
    redactor = Redactor("k")
    for cut in range(len(TEXT) + 1):
        first, second = redactor.chunks([TEXT[:cut], TEXT[cut:]])
        assert first + second == redactor.text(TEXT)
        if 5 <= cut <= 4 + len(CANARY):
            assert PSEUDONYM.search(first)
            assert second.startswith(" or ")


def test_tool_call_arguments_by_block_index() -> None:
    """Arguments that arrive in pieces are joined by the block's own index, not by its place in the list."""
    redactor = Redactor("k")
    chunks = [
        {"tool_call_chunks": [{"index": index, "args": args}]}
        for pair in zip(split(ARGUMENTS, [20, 33, 36]), split('{"q": "no secret here"}', [3, 9, 12]), strict=True)
        for index, args in enumerate(pair)
    ]
    redacted = redactor.chunks(chunks)
    joined = ["".join(c["tool_call_chunks"][0]["args"] for c in redacted[index::2]) for index in (0, 1)]
    assert joined == [redactor.text(ARGUMENTS), '{"q": "no secret here"}']


def test_cumulative_chunks_stay_cumulative() -> None:
    """A stream whose chunks repeat the text so far is redacted in each chunk, without half a secret in any."""
    redactor = Redactor("k")
    chunks = [{"text": TEXT[:end], "delta": TEXT[end - 1 : end]} for end in range(1, len(TEXT) + 1)]
    redacted = redactor.chunks(chunks)
    texts = [chunk["text"] for chunk in redacted]
    assert texts[-1] == redactor.text(TEXT) == "".join(chunk["delta"] for chunk in redacted)
    assert all(new.startswith(old) for old, new in itertools.pairwise(texts))
    assert not any(CANARY[:12] in text for text in texts)


def test_denied_names_in_streams() -> None:
    """A value under a denied name that arrives in pieces becomes one pseudonym; a repeated one stays repeated."""
    redactor = Redactor("k")
    redacted = redactor.chunks([{"password": "hun", "x-api-key": "k9"}, {"password": "ter2", "x-api-key": "k9"}])
    whole = redactor.value({"password": "hunter2", "x-api-key": "k9"})
    assert [chunk["password"] for chunk in redacted] == [whole["password"], ""]
    assert [chunk["x-api-key"] for chunk in redacted] == [whole["x-api-key"]] * 2


def test_repeated_secrets_are_not_glued() -> None:
    """The same secret whole in every chunk becomes the same pseudonym in every chunk."""
    redactor = Redactor("k")
    assert redactor.chunks([CANARY, CANARY]) == [redactor.text(CANARY)] * 2


def test_bytes_in_streams() -> None:
    """Bytes are joined before they are looked at, too."""
    redactor = Redactor("k")
    chunks = [{"$bytes": base64.b64encode(piece.encode()).decode()} for piece in split(TEXT, [12, 40])]
    redacted = redactor.chunks(chunks)
    assert b"".join(base64.b64decode(chunk["$bytes"]) for chunk in redacted).decode() == redactor.text(TEXT)


@pytest.mark.parametrize(
    "chunks", [[], [{"content": "Hel"}, {"content": "lo"}], ["a", "a", "a"], [{"n": 1, "x": None}, [1, "a"]]]
)
def test_harmless_chunks_are_the_same_object(chunks: list[Any]) -> None:
    """A stream without secrets comes back as it is."""
    assert Redactor("k").chunks(chunks) is chunks


def test_model_tokens_stay() -> None:
    """The tokens of a stream with log probabilities are no credentials."""
    chunks = [{"token": token, "logprob": -0.1} for token in ("Hel", "lo", " there")]
    assert Redactor("k").chunks(chunks) is chunks


def test_short_and_long_forms_are_one_text() -> None:
    """A secret is found when its pieces arrive as a tagged text and as the content of a tagged dict."""
    redactor = Redactor("k")
    chunks: list[Any] = [{"$chunk": f"it is {CANARY[:9]}"}, {"$chunk": {"content": f"{CANARY[9:]}.", "last": True}}]
    redacted = redactor.chunks(chunks)
    assert CANARY[9:] not in repr(redacted)
    assert redacted[0]["$chunk"] + redacted[1]["$chunk"]["content"] == redactor.text(f"it is {CANARY}.")


@pytest.mark.parametrize(
    "chunk",
    [
        {"headers": [["X-Api-Key", "hunter2x"], ["Accept", "text"]]},
        {"selector": "#password", "text": "hunter2x"},
    ],
)
def test_chunks_are_redacted_like_other_data(redactor: Redactor, chunk: Any) -> None:
    """A secret that only its neighbor gives away is redacted in a chunk as anywhere else, and put back."""
    chunks = [{"delta": "one"}, chunk, {"delta": "two"}]
    redacted = redactor.chunks(chunks)
    assert redacted == [redactor.value(each) for each in chunks]
    assert "hunter2x" not in str(redacted)
    assert list(redactor.rehydrate_chunks(redacted)) == chunks
