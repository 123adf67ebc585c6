"""The JSON Schema of cassettes agrees with what reads them, on whole files and on damaged ones."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttape_core import convert, open_cassette
from agenttape_core.cli.commands.cassette import json_schema
from agenttape_core.errors import CassetteError

GOLDEN = sorted((Path(__file__).resolve().parents[2] / "golden").rglob("*.yaml"))
BEYOND = {"agenttape", "interaction", "step", "continues", "keep", "without"}
"""The keys of numbers and references, which no schema of a single record can judge."""
VALUES = st.sampled_from([None, True, 3, -1, "text", [], ["x"], {}, {"x": 1}])


@cache
def validator() -> Any:
    """Return a validator of records."""
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def lines_of(path: Path, folder: Path) -> list[str]:
    """Return the lines of a cassette in the JSON layout."""
    target = folder / "golden.jsonl"
    target.unlink(missing_ok=True)
    convert(path, target)
    return target.read_text(encoding="utf-8").splitlines()


def readable() -> list[Path]:
    """Return the golden cassettes of the versions that this one reads, with records and no assets."""
    found = []
    for path in GOLDEN:
        try:
            if not path.name.endswith(".snapshot.yaml") and list(open_cassette(path).records()):
                found.append(path)
        except CassetteError:
            continue
    return found


READABLE = readable()
WITHOUT_ASSETS = [path for path in READABLE if b"$asset" not in path.read_bytes()]


@pytest.mark.parametrize("path", READABLE, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_cassettes_fit(path: Path, tmp_path: Path) -> None:
    """Each record of the golden cassettes of every version fits the schema."""
    for line in lines_of(path, tmp_path):
        validator().validate(json.loads(line))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_cassettes(data: st.DataObject, tmp_path: Path) -> None:
    """A record with a key dropped, added, or of another type is refused by both, or by neither."""

    def is_read(lines: list[str], folder: Path) -> bool:
        """Return whether a cassette of these lines can be read to its end."""
        path = folder / "damaged.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            cassette = open_cassette(path)
            _ = cassette.header
            list(cassette.records())
        except CassetteError:
            return False
        return True

    lines = lines_of(data.draw(st.sampled_from(WITHOUT_ASSETS)), tmp_path)
    at = data.draw(st.integers(0, len(lines) - 2))  # the last one is the end
    record = json.loads(lines[at])
    place, keys = record, [key for key in record if key not in BEYOND]
    if isinstance(record.get("outcome"), dict) and data.draw(st.booleans()):
        place, keys = record["outcome"], list(record["outcome"])
    way = data.draw(st.sampled_from(["drop", "add", "change"]))
    if way == "add" or not keys:
        place["surplus"] = data.draw(VALUES)
    else:
        key = data.draw(st.sampled_from(keys))
        if way == "drop":
            del place[key]
        else:
            # Another request would fit, and not what later ones keep of it.
            place[key] = data.draw(
                VALUES.filter(lambda value: not isinstance(value, dict)) if key == "request" else VALUES
            )
    lines[at] = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    assert validator().is_valid(record) == is_read(lines, tmp_path), lines[at][:300]
