"""Whatever stands in a foreign file: a report, or an error that names the file; and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import CassetteFormatError
from agenttape_core.integration.importing import NotImportableError
from agenttape_langchain.importers import (
    anthropic_messages,
    import_agenttape01,
    import_langsmith,
    import_vcr,
    openai_completions,
    openai_responses,
)
from agenttape_langchain.importers.detection import agenttape01, langsmith, outline_of, vcrpy
from agenttape_langchain.importers.requests import History, ModelCall

WORDS = (
    *("interactions", "request", "response", "method", "uri", "headers", "body", "string", "status", "code", "version"),
    *("kind", "boundary", "args", "error", "endpoint", "index", "id", "run_type", "inputs", "outputs", "messages"),
    *("generations", "message", "kwargs", "lc", "type", "content", "role", "tool_calls", "function", "name", "input"),
    *("arguments", "tool_call_id", "call_id", "output", "text", "tools", "tool_choice", "choices", "delta", "usage"),
    *("events", "extra", "tags", "metadata", "parent_run_id", "child_runs", "system", "model", "format"),
)
VALUES = (
    *(
        "1",
        1,
        "POST",
        "GET",
        "http://a/b",
        "http://[",
        "tool",
        "llm",
        "http",
        "retrieval",
        "retriever",
        "chain",
        "user",
    ),
    *("assistant", "system", "constructor", "human", "ai", "message", "function_call", "json_schema", "{}", "x"),
    *(None, True, 200, 429, 0.5, -1, [], {}, "", "function_call_output", "tool_use", "tool_result", "chat.completions"),
)
PLAIN = st.recursive(
    st.sampled_from(VALUES) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)
OBJECTS = st.dictionaries(st.sampled_from(WORDS), PLAIN, max_size=6)
RUNS = st.fixed_dictionaries(
    {"id": st.sampled_from("abc"), "run_type": st.sampled_from(["llm", "tool", "retriever", "chain"])},
    optional=dict.fromkeys(("inputs", "outputs", "extra", "parent_run_id", "tags", "events", "serialized"), PLAIN),
)
FILES: dict[str, tuple[Callable[..., Any], Any]] = {
    "vcr": (
        import_vcr,
        st.fixed_dictionaries(
            {
                "interactions": st.lists(
                    st.fixed_dictionaries({"request": OBJECTS, "response": OBJECTS}) | PLAIN, max_size=3
                )
            }
        ),
    ),
    "langsmith": (import_langsmith, st.lists(RUNS | OBJECTS, max_size=4)),
    "agenttape01": (
        import_agenttape01,
        st.fixed_dictionaries({"version": st.just("1"), "interactions": st.lists(OBJECTS, max_size=3)}),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_any_file(name: str) -> None:
    """A file of any plain data is imported, or refused as malformed."""
    importer, contents = FILES[name]

    @given(contents | PLAIN)
    def holds(content: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "source.json"), Path(folder, "target.jsonl")
            source.write_text(json.dumps(content), encoding="utf-8")
            try:
                report = importer(source, target)
            except CassetteFormatError as error:
                assert str(error).startswith(str(source))  # noqa: PT017
                assert not target.exists()
            else:
                assert target.exists()
                assert str(report)

    holds()


@pytest.mark.parametrize("form", [openai_completions, openai_responses, anthropic_messages])
def test_any_request(form: Any) -> None:
    """A request of any form is read as a call, or refused as not importable."""

    @given(
        st.fixed_dictionaries({}, optional={key: st.lists(OBJECTS, max_size=4) for key in ("messages", "input")}),
        OBJECTS,
    )
    def holds(conversation: dict[str, Any], more: dict[str, Any]) -> None:
        try:
            assert isinstance(form.read_call({**more, **conversation}, History(), ()), ModelCall)
        except NotImportableError as error:
            assert str(error)  # noqa: PT017

    holds()


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    """A file of any text is refused with its place, or is plain data."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source.yaml")
        source.write_bytes(text.encode("utf-8", "replace"))
        for importer in (import_vcr, import_langsmith, import_agenttape01):
            with pytest.raises(CassetteFormatError, match=r"source\.yaml"):
                importer(source, Path(folder, "target.yaml"))


def test_yaml_that_names_objects_executes_nothing(tmp_path: Path) -> None:
    """YAML that PyYAML's full loader would execute is refused, with its line."""

    class Harm:
        def __init__(self, marker: Path) -> None:
            self.marker = marker

        def __reduce__(self) -> Any:
            return Path.touch, (self.marker,)

    marker = tmp_path / "executed"
    harmful = yaml.dump({"interactions": [{"request": Harm(marker)}]}, Dumper=yaml.Dumper)
    (tmp_path / "source.yaml").write_text(harmful, encoding="utf-8")
    for importer in (import_vcr, import_agenttape01):
        with pytest.raises(CassetteFormatError, match=r"source\.yaml:\d+: not YAML of plain data"):
            importer(tmp_path / "source.yaml", tmp_path / "target.yaml")
    assert not marker.exists()


# -- the tool that wrote a file ------------------------------------------------------------------------------------

RECORDED = Path(__file__).parent / "recordings" / "agenttape01.yaml"

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
words = st.sampled_from(["interactions", "request", "response", "kind", "runs", "run_type", "version", "x"])
contents = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5))


def outline(data: bytes) -> object:
    """Return the outline of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "foreign")
        path.write_bytes(data)
        return outline_of(path)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_content_fails(data: bytes) -> None:
    """Whatever a file holds, it is of a tool or of none."""
    outline(data)


@given(st.dictionaries(words, contents, min_size=1, max_size=5))
def test_yaml_and_json_are_seen_alike(value: dict[str, object]) -> None:
    """The outline from the beginning of a YAML file equals that of the whole."""
    seen = outline(yaml.safe_dump(value, sort_keys=False).encode())
    whole = outline(json.dumps(value).encode())
    lists = [key for key in value if key in {"interactions", "runs"}]
    if len(lists) < 2:
        assert seen[1] == whole[1]  # type: ignore[index]
        assert seen[0] <= whole[0]  # type: ignore[index]


HOSTILE = [b"- " * 100_000, b"[" * 100_000, b"a: &a [*a]", b"!!python/object:os.system {}", b"\xff"]


@pytest.mark.parametrize("data", HOSTILE, ids=["deep YAML", "deep JSON", "itself", "code", "no text"])
def test_hostile_content(data: bytes) -> None:
    """A file that is deep, holds itself or names code is of no tool."""
    assert outline(data) in [(frozenset(), frozenset()), (frozenset({"a"}), frozenset())]


def test_a_real_one() -> None:
    """A cassette that agenttape 0.1 wrote is of that tool only."""
    assert [importer.recognises(RECORDED) for importer in (agenttape01, langsmith, vcrpy)] == [True, False, False]
