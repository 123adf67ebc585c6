"""State that outlives a test, behind a cache or in a wider fixture: all recordings are true, and they converge."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import langchain_core.vectorstores.in_memory  # noqa: F401 - a run inside forgets what it imported: this stays
import pytest

import agenttape_langchain.automatic  # noqa: F401 - see above
from agenttape_core import open_cassette

INI = """
[pytest]
addopts = -p no:benchmark -p no:codspeed -p no:recording -p no:socket -p no:syrupy -p no:randomly -p no:asyncio
filterwarnings = error
"""
KNOWLEDGE = """
import functools
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from agenttape_core import boundary

TEXTS = ["refunds take 14 days", "parcels take two days", "our cats are asleep"]

def reach():
    assert not Path(__file__).with_name("offline").exists()

class Words(Embeddings):
    model = "words"

    def embed_query(self, text):
        reach()
        return [float(word in text) for word in ("refunds", "parcels", "cats")]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

def built():
    store = InMemoryVectorStore(Words())
    store.add_texts(TEXTS)
    return store

@functools.lru_cache
def cached():
    return built()

class Remote:
    def __init__(self):
        self.texts = []

    @boundary("memory")
    def add_texts(self, texts):
        reach()
        self.texts += texts

    @boundary("retrieval")
    def search(self, query):
        reach()
        return [text for text in self.texts if query in text]

@boundary("chat")
def model(prompt):
    reach()
    return f"You asked: {prompt}"

def answer(store, question):
    return model(f"{question} {store.as_retriever(search_kwargs={'k': 1}).invoke(question)[0].page_content}")
"""


class Suite:
    """The tests of a user.

    Args:
        pytester: Where they lie.
    """

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        pytester.makefile(".ini", pytest=INI)
        pytester.makepyfile(knowledge=KNOWLEDGE)

    def write(self, tests: str) -> None:
        """Write the tests."""
        self._pytester.makepyfile(test_it=tests)

    def run(self, *args: str, online: bool = False) -> pytest.RunResult:
        """Run some tests, as a process of their own would: nothing is left of earlier runs."""
        offline = self._pytester.path / "offline"
        offline.unlink() if online and offline.exists() else None
        if not online:
            offline.touch()
        return self._pytester.runpytest_inprocess(*args)

    def told(self, folder: Path) -> dict[str, Any]:
        """Return the prompts that were recorded, by their tests."""
        chats = {}
        for path in sorted(folder.rglob("*.yaml")):
            prompts = [
                row.request["arguments"]["prompt"] for row in open_cassette(path).interactions() if row.kind == "chat"
            ]
            chats[path.stem] = prompts
        return chats


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """A suite without tests."""
    return Suite(pytester)


def test_a_store_behind_a_cache(suite: Suite, pytester: pytest.Pytester) -> None:
    """Whichever test comes first fills it; each is recorded truly, and once failing ones are, any order is green."""
    cached = dedent("""
        import pytest
        from knowledge import answer, cached

        pytestmark = pytest.mark.cassette

        def test_refunds():
            assert "14 days" in answer(cached(), "refunds")
            assert len(cached().store) == 3

        def test_parcels():
            assert "two days" in answer(cached(), "parcels")
            assert len(cached().store) == 3
    """)
    cats = dedent("""
        def test_cats():
            assert "asleep" in answer({}, "our cats")
    """)

    refunds, parcels = "test_it.py::test_refunds", "test_it.py::test_parcels"
    suite.write(cached)
    suite.run("--cassette-mode=once", online=True).assert_outcomes(passed=2)
    suite.run().assert_outcomes(passed=2)
    alone = suite.run(parcels)  # nobody has filled the store before it, as when it was recorded
    assert "Words was called with a request" in alone.stdout.str()
    suite.run("--rerecord=failed", online=True).assert_outcomes(passed=2)
    for order in ((), (parcels,), (parcels, refunds)):
        result = suite.run(*order)
        result.assert_outcomes(passed=len(order) or 2)
    assert "2 cassettes replayed" in result.stdout.str()
    assert "1 unused" in result.stdout.str()  # the other one has filled the store

    suite.write(cached + cats.format("cached()"))  # one more test, in a suite that is recorded
    suite.run("--cassette-mode=once", online=True).assert_outcomes(passed=3)
    suite.run().assert_outcomes(passed=3)
    assert suite.told(pytester.path) == {
        "test_cats": ["our cats our cats are asleep"],
        "test_parcels": ["parcels parcels take two days"],
        "test_refunds": ["refunds refunds take 14 days"],
    }


def test_a_wider_fixture_with_a_cassette(
    suite: Suite, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store in memory serves tests that are recorded later; one elsewhere refuses, and the way out is named."""
    wider = dedent("""
        import pytest
        from agenttape_core import use_cassette
        from knowledge import Remote, answer, built, model

        @pytest.fixture(scope="session")
        def store():
            with use_cassette("kb"):
                return built()

        @pytest.fixture(scope="session")
        def remote():
            with use_cassette("remote"):
                remote = Remote()
                remote.add_texts(["refunds take 14 days"])
            return remote

        @pytest.mark.cassette
        def test_refunds(store):
            assert "14 days" in answer(store, "refunds")

        @pytest.mark.cassette
        def test_remote(remote):
            assert "14 days" in model(str(remote.search("refunds")))
    """)
    more = dedent("""
        @pytest.mark.cassette
        def test_parcels(store):
            assert "two days" in answer(store, "parcels")

        @pytest.mark.cassette
        def test_remote_again(remote):
            assert "14 days" in model(str(remote.search("refunds take")))
    """)

    suite.write(wider)
    monkeypatch.setenv("AGENTTAPE_MODE", "once")
    suite.run(online=True).assert_outcomes(passed=2)
    monkeypatch.delenv("AGENTTAPE_MODE")
    suite.run().assert_outcomes(passed=2)
    told = suite.told(pytester.path)
    assert told["test_refunds"] == ["refunds refunds take 14 days"]

    suite.write(wider + more)
    late = suite.run("--cassette-mode=once", online=True)
    late.assert_outcomes(passed=3, failed=1)
    late.stdout.fnmatch_lines(["*IncompleteObjectError: Can't record Remote.search: *"])
    assert "was replayed from cassettes" in late.stdout.str()
    assert "pytest --rerecord" in late.stdout.str()
    suite.run("--rerecord", online=True).assert_outcomes(passed=4)
    suite.run().assert_outcomes(passed=4)
    assert suite.told(pytester.path) == {
        **told,
        "test_parcels": ["parcels parcels take two days"],
        "test_remote_again": ["['refunds take 14 days']"],
    }
