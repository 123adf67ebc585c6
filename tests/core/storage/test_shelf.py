"""Large cassettes are written from packed records, and are the same byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttape_core.format import volatile_values
from agenttape_core.format.written_steps import Stored, WrittenStep
from agenttape_core.storage import convert, writer
from agenttape_core.storage.writer import Shelf

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    "name",
    [
        "v1/weather.yaml",
        "v1/weather.jsonl",
        "v2/picture.yaml",
        "v2/stamps.yaml",
        "v2/stamps.jsonl",
        "v2/steps.yaml",
    ],
)
@pytest.mark.parametrize("most", [0, 1 << 20])
def test_packed_records_give_the_same_file(
    name: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records packed or none: the file, its stamps and its assets are the same, also where there are too many."""
    monkeypatch.setattr(volatile_values, "MAX_TEXT", most)
    written = []
    for first in (1_000, 0):
        monkeypatch.setattr(writer, "_AS_THEY_ARE", first)
        monkeypatch.setattr(volatile_values, "_MANY", first)
        target = tmp_path / str(first) / Path(name).name
        convert(GOLDEN / name, target)
        files = [path for path in target.parent.rglob("*") if path.is_file()]
        written.append({path.relative_to(target.parent): path.read_bytes() for path in files})
    assert written[0] == written[1]


@pytest.mark.parametrize("together", [1, 2, 200])
def test_what_is_packed_comes_back(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of a class of its own, and a step as it was written, come back as they were, and in their order."""
    monkeypatch.setattr(writer, "_AS_THEY_ARE", 1)
    monkeypatch.setattr(writer, "_TOGETHER", together)
    odd = {"value": type("Text", (str,), {})("text")}
    step = WrittenStep(1, "a", '"text"}')
    records: list[Stored] = [{"first": 1}, {"second": [1.5, None, "x"]}, step, odd, step.numbered(2)]
    found = Shelf(records)
    assert (list(found), list(found), len(found), odd in found, {} in found) == (records, records, 5, True, False)
    assert [type(record) for record in found] == [dict, dict, WrittenStep, dict, WrittenStep]
