"""Cassettes of version 2, the one with assets, are read and written as they always were."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from agenttape_core.schema import Header, Interaction
from agenttape_core.storage import MIN_ASSET_BYTES, open_cassette, write_cassette

GOLDEN = Path(__file__).parents[2] / "golden" / "v2"
PICTURE = (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 65)[:MIN_ASSET_BYTES]
NOISE = bytes(255 - n for n in range(256)) * 65
NAMES = pytest.mark.parametrize("name", ["picture.yaml", "picture.jsonl"])


def expected() -> list[Interaction]:
    """What the golden cassettes of version 2 hold: bytes, a data URL, a text, and data that looks like a reference."""
    picture, noise = base64.b64encode(PICTURE).decode(), base64.b64encode(NOISE).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    common = {"number": 1, "kind": "chat", "name": "ChatOpenAI", "address": "agent/model#1", "fingerprint": "0f" * 16}
    records = [
        {
            **common,
            "request": {"model": "gpt-5", "messages": [{"role": "human", "content": [image]}]},
            "outcome": {"status": "returned", "value": {"role": "ai", "content": "A picture."}},
        },
        {
            **common,
            "number": 2,
            "kind": "tool",
            "request": {"arguments": {"data": {"$bytes": noise}}},
            "outcome": {"status": "streamed", "chunks": [picture, {"$asset": 1}, {"$asset": {"plain": 2}}]},
        },
    ]
    return [Interaction.model_validate(record) for record in records]


@NAMES
def test_version_2_is_read(name: str) -> None:
    """The golden files hold the interactions that were written into them, their binary parts included."""
    assert list(open_cassette(GOLDEN / name).interactions()) == expected()


@NAMES
def test_version_2_is_written_as_it_always_was(tmp_path: Path, name: str) -> None:
    """The text and the names of the assets do not change without a new version number."""
    write_cassette(tmp_path / name, Header(name="picture"), expected())

    folder, golden = (place / f"{name}.assets" for place in (tmp_path, GOLDEN))
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        file.name: file.read_bytes() for file in golden.iterdir()
    }
