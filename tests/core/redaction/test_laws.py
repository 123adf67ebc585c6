"""What holds for every text and every data of the corpus, whole, in pieces and put together at random."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttape_core.redaction import Redactor

JOINTS = ["", " ", "\n", ", ", '", "', "\\n", ": ", "=", '{"password": "', "'", "&", "/"]


@pytest.fixture(scope="module")
def corpus(positives: dict[str, list[Any]], negatives: dict[str, list[Any]]) -> list[Any]:
    """All texts and data of the corpus."""
    return [case.plain for half in (*positives.values(), *negatives.values()) for case in half]


@pytest.fixture(scope="module")
def texts(corpus: list[Any]) -> list[str]:
    """All texts of the corpus."""
    return [plain for plain in corpus if isinstance(plain, str)]


@pytest.mark.slow
def test_redacted_is_redacted(corpus: list[Any]) -> None:
    """Redacting what is redacted changes nothing, for a redactor that has seen none of it."""
    for plain in corpus:
        redacted = Redactor("k").value(plain)
        assert Redactor("k").value(redacted) == redacted


@pytest.mark.slow
def test_rehydration_restores(corpus: list[Any]) -> None:
    """Who has seen the secrets gets exactly the original back; nobody's data is changed in place."""
    for plain in corpus:
        redactor, before = Redactor("k"), copy.deepcopy(plain)
        redacted = redactor.value(plain)
        assert redactor.rehydrate(redacted) == before == plain
        assert (redacted is plain) == (redacted == plain)


@pytest.mark.slow
def test_streams_give_what_the_whole_text_gives(texts: list[str]) -> None:
    """However a text is cut, its redacted chunks are the redacted text, cut."""

    def pieces_of(text: str, rng: Random) -> list[str]:
        """Cut a text at random places."""
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(1, 8)))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    rng = Random(5)
    for text in texts:
        redactor = Redactor("k")
        pieces = pieces_of(text, rng)
        whole = redactor.text(text)
        chunks = redactor.chunks([{"delta": {"text": piece}} for piece in pieces])
        redacted = [chunk["delta"]["text"] for chunk in chunks]
        assert "".join(redacted) == whole
        assert redactor.rehydrate(whole) == text


@pytest.mark.slow
def test_long_texts(texts: list[str]) -> None:
    """A secret within a long text splits it in parts, in which nothing is left to be found, and all come back."""
    rng = Random(7)
    for _ in range(40):
        parts = [part for text in rng.choices(texts, k=8) for part in (text, "a line of words " * rng.randrange(900))]
        long = rng.choice(JOINTS).join(parts)
        redactor = Redactor("k")
        redacted = redactor.text(long)
        assert Redactor("k").text(redacted) == redacted
        assert redactor.rehydrate(redacted) == long


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_texts_put_together(texts: list[str], data: st.DataObject) -> None:
    """Put together at random, redacted texts stay redacted and come back."""
    parts = data.draw(st.lists(st.sampled_from(texts), min_size=2, max_size=3))
    joints = data.draw(st.lists(st.sampled_from(JOINTS), min_size=3, max_size=3))
    text = "".join(part + joint for part, joint in zip(parts, joints, strict=False))
    cut = data.draw(st.integers(min_value=0, max_value=len(text)))
    redactor = Redactor("k")
    redacted = redactor.text(text)
    assert Redactor("k").text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text
    if not text[cut:].startswith(text[:cut]):  # that would be a stream that repeats all text so far
        assert "".join(redactor.chunks([text[:cut], text[cut:]])) == redacted
