"""A recording, `check --only secrets` and `cassette redact` agree on what is a secret."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.settings import load_settings
from agenttape_core.tools.rewrite import Leak, Scan, redact

SECRETS = ("Kx9tundra77", "1234567890", "gh" + "p_" + "a1B2c3D4e5" * 3 + "a1B2c3", "Zebra-4471", "ann@acme-mail.com")

words = st.sampled_from([*SECRETS, "password:", "the", "token is", "user/pass: admin/Zebra-4471", "Köln", "key_"])
texts = st.lists(words, max_size=5).map(" ".join)
names = st.sampled_from(["password", "session_token", "note", "content", "sensitive", "value", SECRETS[0]])
plain: st.SearchStrategy[Any] = st.recursive(
    texts | st.integers(0, 10) | st.just(1234567890) | st.booleans() | texts.map(lambda text: json.dumps({"in": text})),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(st.tuples(plain, plain), min_size=1, max_size=3), st.lists(texts, max_size=1))
def test_all_three_agree(calls: list[tuple[Any, Any]], tags: list[str]) -> None:
    """A redacted recording has no secret; in any other one, all that is found is replaced, and nothing is left."""

    @boundary("tool")
    def look(given: Any, answer: Any) -> Any:
        """Return an answer."""
        return answer

    def leaks(path: Path) -> list[Leak]:
        """Return what `check --only secrets` finds."""
        cassette = open_cassette(path)
        return list(Scan(Redactor(new_key())).leaks(cassette.header, cassette.records()))

    def recorded(path: Path, calls: list[tuple[Any, Any]], tags: list[str], *, redacts: bool) -> Path:
        """Record calls."""
        with use_cassette(path, mode="all", redact=redacts, tags=tags):
            for given_, answer in calls:
                look(given_, answer)
        return path

    with tempfile.TemporaryDirectory() as folder:
        clean = recorded(Path(folder, "clean.yaml"), calls, tags, redacts=True)
        assert leaks(clean) == []
        assert redact(clean, load_settings()) == ((), (), False)
        raw = recorded(Path(folder, "raw.yaml"), calls, tags, redacts=False)
        found = leaks(raw)
        done = redact(raw, load_settings())
        assert bool(found) == bool(done.replaced)
        assert done.left == ()
        assert leaks(raw) == []
