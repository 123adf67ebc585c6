"""Cassettes of the older distribution `agenttape` 0.1 become cassettes that replay what they hold.

`recordings/agenttape01.yaml` was recorded with agenttape 0.1.8 against the example's loopback server: OpenAI's client,
LangChain's client, a callback, decorated functions and plain HTTP.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteFormatError
from agenttape_langchain.importers import import_agenttape01

RECORDED = Path(__file__).parent / "recordings" / "agenttape01.yaml"


def cassette_of(folder: Path, *interactions: dict[str, Any], **meta: Any) -> Path:
    """Write a cassette as 0.1 does."""
    numbered = [{"index": number, **item} for number, item in enumerate(interactions)]
    path = folder / "old.yaml"
    path.write_text(yaml.safe_dump({"version": "1", "meta": meta, "interactions": numbered}), encoding="utf-8")
    return path


def test_a_real_cassette_is_graded(tmp_path: Path) -> None:
    """Each interaction has its grade, with the reason where something is lost."""
    report = import_agenttape01(RECORDED, tmp_path / "new.yaml")
    graded = {item.place.removeprefix("interaction "): (item.fidelity, item.reason) for item in report.items}
    assert [fidelity for fidelity, _ in graded.values()] == (
        ["exact", "lossy", "exact", "missing", "exact", "lossy", "exact", "exact", "missing"]
        + ["exact"] * 3
        + ["missing"]
    )
    assert "***REDACTED***" in graded["1"][1]
    assert "without its body" in graded["3"][1]
    assert "made JSON" in graded["5"][1]
    assert "decorated as memory" in graded["8"][1]
    assert str(report).splitlines()[0] == "agenttape01.yaml -> new.yaml: 8 exact, 2 lossy, 3 missing"


def test_a_real_cassette_replays(tmp_path: Path) -> None:
    """Models, tools, a retriever, embeddings and errors of 0.1 serve a LangChain program; lossy ones on request."""

    @tool
    def get_weather(city: str) -> str:
        """Weather of a city."""
        raise AssertionError(city)

    @tool
    def read_page(url: str) -> str:
        """Read a page."""
        raise AssertionError(url)

    @tool
    def look_up(city: str) -> dict[str, Any]:
        """Look up a city."""
        raise AssertionError(city)

    @tool
    def divide(a: int, b: int) -> float:
        """Divide."""
        raise AssertionError(a, b)

    class Search(BaseRetriever):
        name: str = "search"

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            raise AssertionError(query)

    import_agenttape01(RECORDED, tmp_path / "new.yaml")
    model = ChatOpenAI(model="gpt-5-mini", api_key="x")
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}, on_unused="ignore") as replay:
        hello = model.bind(seed=7).invoke("Say hello")
        assert "Say hello" in hello.text
        assert hello.usage_metadata["total_tokens"] > 0
        assert "By hand" in model.invoke("By hand").text
        assert get_weather.invoke({"city": "Rome"}) == "sunny in Rome"
        assert look_up.invoke({"city": "Rome"}) == {"city": "Rome", "at": [1, 2]}
        assert read_page.invoke({"url": "http://a.example"}) == "page " * 1000
        assert Search().invoke("weather")[0].metadata == {"page": 1}
        assert len(OpenAIEmbeddings(model="text-embedding-3-small", api_key="x").embed_query("Paris")) == 8
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            divide.invoke({"a": 1, "b": 0})
        with pytest.raises(openai.RateLimitError, match="slow down") as caught:
            model.invoke("Too fast")
    assert caught.value.response.status_code == 429
    assert len(replay.report.replayed) == 9


def test_the_frozen_clock_is_kept(tmp_path: Path) -> None:
    """The clock stands where it stood in 0.1, as prompts may tell the date."""
    import_agenttape01(RECORDED, tmp_path / "new.yaml")
    header = open_cassette(tmp_path / "new.yaml").header
    recorded = yaml.safe_load(RECORDED.read_text("utf-8"))["meta"]["freeze"]["base_time"]
    assert (header.freeze.kinds, header.volatile.clock) == (["clock"], recorded)


def test_json_is_read_too(tmp_path: Path) -> None:
    """A cassette in JSON is the same as one in YAML."""
    source = tmp_path / "old.json"
    source.write_text(json.dumps(yaml.safe_load(RECORDED.read_text("utf-8"))), encoding="utf-8")
    shutil.copytree(RECORDED.with_suffix(".assets"), source.with_suffix(".assets"))
    report = import_agenttape01(source, tmp_path / "new.jsonl")
    assert len(report.exact) == 8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: file.write_text("other"), "its hash differs"),
        (lambda file: file.unlink(), "cannot be read"),
    ],
    ids=["changed", "gone"],
)
def test_large_values_are_checked(tmp_path: Path, change: Any, reason: str) -> None:
    """A large value beside the file that is not what was recorded is missing."""
    shutil.copy(RECORDED, tmp_path)
    shutil.copytree(RECORDED.with_suffix(".assets"), tmp_path / "agenttape01.assets")
    change(next((tmp_path / "agenttape01.assets").iterdir()))
    report = import_agenttape01(tmp_path / RECORDED.name, tmp_path / "new.yaml")
    assert reason in report.items[6].reason
    assert report.items[6].fidelity == "missing"


@pytest.mark.parametrize("name", ["../secret", "sha256:../../secret", "sha256:" + "g" * 64, 7])
def test_no_other_file_is_read(tmp_path: Path, name: Any) -> None:
    """A reference that is no digest leads nowhere."""
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    told = {
        "kind": "tool",
        "boundary": "t",
        "request": {"name": "t", "args": {}},
        "response": {"__agenttape_asset__": name},
    }
    report = import_agenttape01(cassette_of(tmp_path, told), tmp_path / "new.yaml")
    assert "isn't a SHA-256 digest" in report.missing[0].reason


UNCLEAR: dict[str, tuple[dict[str, Any], str]] = {
    "a graph": (
        {"kind": "memory_write", "boundary": "graph_state", "request": {}, "response": {}},
        "last state of a graph",
    ),
    "prompts": ({"kind": "llm", "request": {"prompts": ["Human: hi"]}, "response": {}}, "messages as one text"),
    "an endpoint": ({"kind": "llm", "request": {"endpoint": "audio"}, "response": {}}, "endpoint is unknown"),
    "no connection": (
        {"kind": "llm", "request": {"endpoint": "responses"}, "error": {"type": "APIConnectionError"}},
        "failed without an answer: APIConnectionError",
    ),
    "no URL": ({"kind": "http", "request": {}, "response": {"status_code": 200}}, "no URL"),
    "no response": ({"kind": "http", "request": {"url": "http://a"}, "error": {}}, "without an answer"),
    "bad bytes": (
        {"kind": "http", "request": {"url": "http://a", "raw_b64": "*"}, "response": {"status_code": 200}},
        "not base64",
    ),
    "bad marker": ({"kind": "tool", "request": {"args": {}}, "response": {"__agenttape_bytes__": "*"}}, "not base64"),
    "no arguments": ({"kind": "tool", "request": {"name": "t"}, "response": 1}, "not recorded"),
    "no query": ({"kind": "retrieval", "request": {"args": {"a": "x", "b": "y"}}, "response": []}, "was the query"),
    "no documents": ({"kind": "retrieval", "request": {"query": "x"}, "response": "y"}, "a list of documents"),
    "no content": ({"kind": "retrieval", "request": {"query": "x"}, "response": [{"text": "y"}]}, "no content"),
}


@pytest.mark.parametrize("what", UNCLEAR)
def test_an_unclear_interaction_is_missing(tmp_path: Path, what: str) -> None:
    """An interaction of which no call can be made is missing, with its reason."""
    told, reason = UNCLEAR[what]
    report = import_agenttape01(cassette_of(tmp_path, told), tmp_path / "new.yaml")
    assert reason in report.missing[0].reason


def test_bytes_messages_and_forms_come_back(tmp_path: Path) -> None:
    """Bytes stay bytes; a tool message with an artifact is lossy; an error of a library keeps type and attributes."""
    message = {"type": "tool", "content": "c", "tool_call_id": "c1", "artifact": {"k": 1}}
    error = {"type": "Busy", "module": "library.errors", "message": "wait", "repr": "Busy()", "attrs": {"code": 7}}
    told = [
        {"kind": "tool", "boundary": "a", "request": {"args": {}}, "response": {"__agenttape_bytes__": "YWJj"}},
        {"kind": "tool", "boundary": "b", "request": {"input": "plain text"}, "response": message},
        {"kind": "tool", "boundary": "c", "request": {"args": {}}, "error": error},
        {"kind": "http", "request": {"url": "http://a", "form": {"x": ["1", "2"]}}, "response": {"status_code": 200}},
    ]
    report = import_agenttape01(cassette_of(tmp_path, *told), tmp_path / "new.yaml")
    assert [item.fidelity for item in report.items] == ["exact", "lossy", "lossy", "missing"]
    outcomes = [open_cassette(tmp_path / "new.yaml").interaction(number).outcome for number in (1, 2, 3)]
    assert outcomes[0].value == {"$bytes": "YWJj"} or outcomes[0].value == b"abc"
    assert outcomes[1].value["$message"]["artifact"] == {"k": 1}
    assert outcomes[2].error is not None
    assert (outcomes[2].error.type, outcomes[2].error.attributes) == ("library.errors:Busy", {"code": 7})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: '2'\ninteractions: []", "found version '2'"),
        ("version: '1'", "and interactions"),
        ("version: '1'\ninteractions: 7", "at interactions: expected a list"),
        ("version: '1'\ninteractions: [7]", r"at interactions\[0\]: expected a mapping"),
        ("version: '1'\ninteractions: [{request: {}}]", r"at interactions\[0\]\.kind"),
        ("- 1", "at the top"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    """A file that is no cassette of 0.1 is an error with its place."""
    (tmp_path / "old.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(CassetteFormatError, match=problem):
        import_agenttape01(tmp_path / "old.yaml", tmp_path / "new.yaml")
