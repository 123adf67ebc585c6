"""Log probabilities spell an answer out token by token: what is secret in the answer is redacted in them, too."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction import Redactor

CANARY = "sk-" + "proj-" + "c4n4ryC4N4RYc4n4ry0123456789"
TEXT = f"Use {CANARY} or write to ann.lee@nordwind-mail.com; the password: hunt3r2!x"


def split(text: str, cuts: list[int]) -> list[str]:
    """Cut a text at positions; pieces may be empty."""
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


def entry(token: str, *alternatives: str) -> dict[str, Any]:
    """Return the entry of a token as OpenAI gives it; the most probable alternative is the token itself."""
    top = [{"token": each, "bytes": list(each.encode()), "logprob": -0.5} for each in (token, *alternatives)]
    return {"token": token, "bytes": list(token.encode()), "logprob": -0.5, "top_logprobs": top}


def openai(tokens: list[str]) -> Any:
    """Return log probabilities as LangChain has them in the metadata of a message."""
    return {"response_metadata": {"logprobs": {"content": [entry(token, "other") for token in tokens]}}}


def llama(tokens: list[str]) -> Any:
    """Return log probabilities as LlamaIndex has them in a response: a row of candidates for each token."""
    return {"logprobs": [[{"token": token, "logprob": -0.5, "bytes": list(token.encode())}] for token in tokens]}


def spelled(plain: Any) -> str:
    """Return the text that log probabilities spell out."""
    logprobs = plain.get("response_metadata", plain)["logprobs"]
    places = logprobs if isinstance(logprobs, list) else logprobs["content"]
    return "".join((place[0] if isinstance(place, list) else place)["token"] for place in places)


def in_bytes(plain: Any) -> str:
    """Return all bytes that stand beside tokens, as one text."""
    if isinstance(plain, dict):
        own = bytes(plain["bytes"]).decode() if "bytes" in plain else ""
        return own + "".join(in_bytes(item) for item in plain.values())
    return "".join(map(in_bytes, plain)) if isinstance(plain, list) else ""


@pytest.mark.parametrize("made", [openai, llama])
@given(cuts=st.lists(st.integers(min_value=0), max_size=30))
def test_tokens_spell_the_redacted_text(made: Any, cuts: list[int]) -> None:
    """However an answer is cut into tokens, they spell what the answer becomes, and as many; rehydration spells it."""
    redactor, plain = Redactor("k"), made(split(TEXT, cuts))
    before = copy.deepcopy(plain)
    redacted = redactor.value(plain)
    assert spelled(redacted) == redactor.text(TEXT)
    assert in_bytes(redacted).replace("other", "").count(CANARY[8:]) == 0
    assert json.dumps(redacted).count('"token"') == json.dumps(plain).count('"token"')
    assert Redactor("k").value(redacted) == redacted
    assert spelled(redactor.rehydrate(redacted)) == TEXT
    assert plain == before


@pytest.mark.parametrize("made", [openai, llama])
@given(cuts=st.lists(st.integers(min_value=0), max_size=20), chunk_cuts=st.lists(st.integers(min_value=0), max_size=5))
def test_tokens_of_streams(made: Any, cuts: list[int], chunk_cuts: list[int]) -> None:
    """The same holds where the tokens arrive in chunks, several or none in each."""
    redactor, tokens = Redactor("k"), split(TEXT, cuts)
    places = [0, *sorted(cut % (len(tokens) + 1) for cut in chunk_cuts), len(tokens)]
    chunks = [made(tokens[a:b]) for a, b in itertools.pairwise(places)]
    redacted = redactor.chunks(chunks)
    assert "".join(map(spelled, redacted)) == redactor.text(TEXT)
    assert CANARY[8:] not in in_bytes(redacted)
    assert "".join(map(spelled, redactor.rehydrate_chunks(redacted))) == TEXT


@pytest.mark.parametrize("made", [openai, llama])
def test_bytes_and_alternatives_tell_nothing(made: Any) -> None:
    """Of a token within a secret neither its bytes nor its alternatives stay; all other entries do, unchanged."""
    tokens = ["Use", " ", *CANARY, ",", " please"]
    redacted = Redactor("k").value(made(tokens))
    assert in_bytes(redacted).endswith(in_bytes(made([",", " please"])))
    assert "c4n4" not in in_bytes(redacted) + spelled(redacted)
    assert redacted != made(tokens)


@pytest.mark.parametrize("made", [openai, llama])
def test_tokens_without_secrets_stay(made: Any) -> None:
    """Tokens that spell nothing secret are the very same object, and so are their chunks; alternatives are no text."""
    plain = made(["Hel", "lo", " there"])
    assert Redactor("k").value(plain) is plain
    assert Redactor("k").chunks([plain]) == [plain]
    alternatives = {"content": [entry("a", *(CANARY[at : at + 4] for at in range(0, len(CANARY), 4)))]}
    assert Redactor("k").value(alternatives) is alternatives


def test_an_alternative_that_is_a_secret() -> None:
    """A secret that is one token is replaced among the alternatives; so are its bytes, and what else an entry has."""
    plain = [{**entry("a", "ann.lee@nordwind-mail.com"), "note": "ann.lee@nordwind-mail.com"}]
    assert "ann.lee" not in json.dumps(Redactor("k").value(plain)) + in_bytes(Redactor("k").value(plain))
