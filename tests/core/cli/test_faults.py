"""`agenttape lab faults`: the calls of tests fail, and a matrix says what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import faults

from .conftest import Ended


@pytest.mark.process
def test_faults(taped: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of tests is a target: its result is data, a report, and an exit code, without the key of pseudonyms."""
    agent = dedent("""
        from agenttape_core import boundary

        @boundary("tool")
        def ask(question):
            raise AssertionError("really asked")
    """)
    test = dedent("""
        import pytest
        from agent import ask

        @pytest.mark.cassette
        def test_a():
            try:
                ask("same")
            except TimeoutError:
                pass
    """)

    (taped / "agent.py").write_text(agent)
    (taped / "test_it.py").write_text(test)
    namespace: dict[str, Any] = {}
    exec(agent.replace("raise AssertionError", "return str"), namespace)
    cassette = taped / "cassettes" / "test_it" / "test_a.yaml"
    with use_cassette(cassette, mode="all"):
        namespace["ask"]("same")
    found: Ended = command("lab", "faults", "--json", "--kinds=timeout,tool_error", "--report=faults.xml", "test_it.py")
    assert (found.code, found.json["tests"][0]["counts"]) == (1, {"silent": 1, "raised": 1})
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin,xdist.plugin")
    spread: Ended = command("lab", "faults", "--json", "--kinds=timeout,tool_error", "--jobs=2", "test_it.py")
    assert spread.json == found.json
    key = open_cassette(cassette).preface.redaction.key
    one: Ended = command("lab", "faults", "--json", "--kinds=tool_error", "--call=ask", "test_it.py")
    assert one.json["tests"][0]["counts"] == {"raised": 1}
    assert faults("test_it.py::test_a", kinds=["timeout"], call=["ask"]).count() == {"silent": 1}
    with pytest.raises(ConfigurationError, match=r"call=\{'aks'\}: no recorded call .* there are ask"):
        faults("test_it.py::test_a", call=["aks"])
    looked: Ended = command("lab", "why", "--json", "--text=really", "--report=why.xml", "test_it.py")
    (one,) = looked.json["results"]
    assert (looked.code, one["name"], one["test"], one["ok"]) == (0, "why", "test_it.py::test_a", True)
    assert "testsuite" in (taped / "why.xml").read_text()
    missed: Ended = command("lab", "why", "--text=other", "test_it.py")
    assert (missed.code, "why shows nothing: no recorded answer of" in missed.out) == (1, True)
    for name in ("agent", "test_it"):  # others have modules of these names
        sys.modules.pop(name, None)
    assert not [text for text in (found.out, (taped / "faults.xml").read_text()) if key in text]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["faults", "--kinds=timout"], "there is no kind 'timout'"),
        (["orders", "desk.py:run", "--jobs=2"], "orders takes no --jobs: each replay decides what the next one varies"),
        (["why", "desk.py:run", "--max-usd=1"], "why takes no --max-usd: it calls no model"),
        (["model", "openai:new", "desk.py:run", "--seed=1"], "model takes no --seed: it draws nothing at random"),
        (["faults", "--nope"], "No such option '--nope'"),
        (["mutants", "--", "python", "desk.py"], "mutants takes no command after --"),
    ],
)
def test_options_of_others(command: Any, words: list[str], why: str) -> None:
    """An option that other experiments have is refused with its reason; one that none has, or a kind, as unknown."""
    refused: Ended = command("lab", *words)
    assert refused.code == 2
    assert why in refused.err
