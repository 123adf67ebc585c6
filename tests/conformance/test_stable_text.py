"""The text of a cassette without its volatile block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteNotFoundError
from agenttape_core.testing import stable_text

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("run.yaml", "run.jsonl", "run.yaml.gz", "run.jsonl.gz")


def record(path: Path, text: str) -> None:
    """Record one call that returns a text."""
    with use_cassette(path, mode="all"):
        boundary("tool", name="tell")(lambda: text)()


@pytest.mark.parametrize("name", NAMES)
def test_same_run(tmp_path: Path, name: str) -> None:
    """Two recordings of the same run have the same stable text, without the time at which they were made."""
    texts = []
    for _ in range(2):
        record(tmp_path / name, "volatile:\n  not this one\n")
        texts.append(stable_text(tmp_path / name))
    assert texts[0] == texts[1]
    assert "created" not in texts[0]
    assert "not this one" in texts[0]


@pytest.mark.parametrize("name", NAMES)
def test_another_run(tmp_path: Path, name: str) -> None:
    """Another answer gives another stable text."""
    texts = []
    for answer in ("one", "other"):
        record(tmp_path / name, answer)
        texts.append(stable_text(tmp_path / name))
    assert texts[0] != texts[1]


def test_header_is_kept(tmp_path: Path) -> None:
    """Everything of the header but the volatile block stays."""
    with use_cassette(tmp_path / "run.yaml", mode="all", tags=["mine"]) as session:
        boundary("tool", name="tell")(lambda: "told")()
    whole = session.path.read_text(encoding="utf-8")
    header, _, records = whole.partition("volatile:\n")
    assert stable_text(session.path) == header + records[records.index("---\n") :]


def test_no_cassette(tmp_path: Path) -> None:
    """A cassette that is not there is reported as that."""
    with pytest.raises(CassetteNotFoundError):
        stable_text(tmp_path / "none.yaml")
