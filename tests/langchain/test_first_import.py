"""The first import of a program that is recorded with its HTTP requests."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.mark.process
def test_a_part_of_the_framework_is_imported_first(tmp_path: Path) -> None:
    """The framework imports an HTTP client in the middle of its own import, which connects both integrations."""
    program = (
        "from agenttape_core import use_cassette\n"
        "with use_cassette('first', mode='all', http=True):\n"
        "    from langchain_core.documents.base import Blob\n"
        "    print(Blob.__name__)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout == "Blob\n", ran.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "package", ["agenttape_langgraph", "agenttape_llamaindex"]
)  # the first one imports LangChain's
def test_our_package_is_imported_first(tmp_path: Path, package: str) -> None:
    """A program whose first import in a session is that of an integration gets all of its names."""
    if find_spec(package) is None:
        pytest.skip(f"{package} isn't installed")
    program = (
        "from agenttape_core import use_cassette\n"
        f"import {package} as package\n"
        "with use_cassette('first', mode='all'):\n"
        "    print([getattr(package, name) for name in package.__all__] != [])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.stdout == "True\n", ran.stderr


_KEY = "sk-proj-" + "Ab3De5Gh7Jk9Mn1Pq2Rs4Tu6" * 2


@pytest.mark.process
def test_a_replay_imports_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay imports the detectors of secrets once a request has one, and the interfaces that its program does.

    Objects of an interface that is imported late in the session are replayed, too.
    """
    chat = dedent("""
        import sys

        from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage

        from agenttape_core import use_cassette
        from agenttape_langchain.tape import LATE

        for number, question in enumerate(sys.argv[2:]):
            model = GenericFakeChatModel(messages=iter([AIMessage("an answer")] * 3))
            with use_cassette(f"chat{number}", mode=sys.argv[1]):
                for text in ("Hello?", question, "Hello again?"):
                    assert model.invoke(text).content == "an answer"
            print([name for name in ("agenttape_core.redaction.scanner", *LATE) if name in sys.modules])

        with use_cassette("store", mode=sys.argv[1]):
            from langchain_core.vectorstores import VectorStore

            class Store(VectorStore):
                def similarity_search(self, query, k=4, **kwargs):
                    assert sys.argv[1] == "record"
                    return []

                @classmethod
                def from_texts(cls, texts, embedding, **kwargs):
                    return cls()

            print(Store().similarity_search("Where?"))
    """)
    questions = ["And then?", f"My key is {_KEY}"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["chat", "record", *questions])
    exec(chat, {})
    assert _KEY not in Path("cassettes/chat1.yaml").read_text(encoding="utf-8")
    command = [sys.executable, "-c", chat, "replay", *questions]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.stdout == "[]\n['agenttape_core.redaction.scanner']\n[]\n", ran.stderr
