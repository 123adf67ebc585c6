"""Cassettes of every version that was ever written are read; one from the future is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import CassetteVersionError
from agenttape_core.schema import Header, Interaction
from agenttape_core.storage import open_cassette, write_cassette

GOLDEN = Path(__file__).parents[2] / "golden"


def expected() -> list[Interaction]:
    """What the golden cassettes of version 1 hold."""
    weather = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    first = [{"role": "system", "content": "Be brief.\nBe kind.\n"}, {"role": "human", "content": "Weather in Köln?"}]
    call = {"role": "ai", "content": "", "tool_calls": [{"name": "get_weather", "args": {"city": "Köln"}, "id": "c1"}]}
    result = {"role": "tool", "content": "sunny", "tool_call_id": "c1"}
    common = {"fingerprint": "0f" * 16}
    records: list[dict[str, Any]] = [
        {
            "kind": "chat",
            "name": "ChatOpenAI",
            "address": "agent/model#1",
            "request": {"model": "gpt-5", "temperature": 0.0, "tools": [weather], "messages": first},
            "outcome": {"status": "returned", "value": call, "usage": {"input_tokens": 20, "output_tokens": 9}},
        },
        {
            "kind": "tool",
            "name": "get_weather",
            "address": "agent/tools/get_weather#1",
            "parent": 1,
            "ids": ["c1"],
            "request": {"args": {"city": "Köln"}},
            "outcome": {"status": "returned", "value": "sunny"},
        },
        {
            "kind": "chat",
            "name": "ChatOpenAI",
            "address": "agent/model#2",
            "tags": ["final"],
            "request": {"model": "gpt-5", "tools": [weather], "messages": [*first, call, result]},
            "outcome": {
                "status": "streamed",
                "chunks": ["It is ", "sunny", {"$tuple": [1, 1.0, True, None, "1", "null", "", -0.0, 2**70]}],
                "ended": "exhausted",
            },
        },
        {
            "kind": "tool",
            "name": 'odd: "name" \U0001f3b2',
            "address": "agent/tools/odd\n#1",
            "request": {"args": {"text": "a\x00b\x85c\u2028d\ufeff\r\n", "yes": "no", "lines": " one\n\ntwo\n\n"}},
            "outcome": {
                "status": "raised",
                "error": {
                    "type": "builtins:ValueError",
                    "message": "no such city",
                    "args": ["no such city"],
                    "attributes": {"code": 404},
                    "bases": ["builtins:Exception"],
                },
            },
        },
    ]
    return [Interaction.model_validate({"number": n, **common, **record}) for n, record in enumerate(records, start=1)]


NAMES = pytest.mark.parametrize("name", ["weather.yaml", "weather.jsonl"])


@NAMES
def test_version_1_is_read(name: str, full_header: Header) -> None:
    """The golden files hold the header and the interactions that were written into them."""
    cassette = open_cassette(GOLDEN / "v1" / name)

    assert cassette.header == full_header
    assert list(cassette.interactions()) == expected()
    assert [cassette.outcome(n) for n in range(1, 5)] == [interaction.outcome for interaction in expected()]


@NAMES
def test_version_1_is_written_as_it_always_was(tmp_path: Path, name: str, full_header: Header) -> None:
    """A change of the text without a new version number would make every repository's cassettes change."""
    write_cassette(tmp_path / name, full_header, expected())

    assert (tmp_path / name).read_bytes() == (GOLDEN / "v1" / name).read_bytes()


@pytest.mark.parametrize("name", ["weather.yaml", "weather.jsonl"])
def test_the_future_is_refused(name: str) -> None:
    """The error says which format was found, which is supported, and what to do."""
    with pytest.raises(CassetteVersionError, match=r"format 999.*up to 2(?s:.)*pip install --upgrade agenttape-core"):
        open_cassette(GOLDEN / "future" / name)
