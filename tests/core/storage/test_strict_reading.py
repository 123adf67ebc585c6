"""What YAML and JSON can do beyond plain data is refused, with the line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from agenttape_core.format.json_text import load_line
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.records import header_from_dict, outcome_from_dict
from agenttape_core.format.yaml_load import load_yaml
from agenttape_core.schema import Header, Outcome, Usage

LOADERS = [getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader]
BILLION = b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        (b"a: 1\na: 2\n", "appears twice", 1),
        (b"a: 1\nb: !!python/object/apply:os.system [ls]\n", "no YAML tags", 1),
        (b"a: !custom x\n", "no YAML tags", 0),
        (b"a: !!str 1\n", "no YAML tags", 0),
        (BILLION, "no YAML anchors", 0),
        (b"a: *b\n", "no YAML aliases", 0),
        (b"<<: {a: 1}\n", "key must be a string", 0),
        (b"1: a\n", "key must be a string", 0),
        (b"null: a\n", "key must be a string", 0),
        (b"? [a]\n: 1\n", "key must be a string", 0),
        (b"a: 1e999\n", "out of range", 0),
        (b"a: " + b"9" * 5000 + b"\n", "digits", 0),
        (b"a: 1\nb: [\n", "not YAML", 2),
        (b"a: \xff\n", "not UTF-8", 0),
        (b"a: 1\n--- \nb: 2\n", "second document", 1),
        (b"[" * 100_000, "nested deeper", 0),
        (b"a: \x01\n", "not YAML", 0),
    ],
)
def test_yaml_beyond_plain_data_is_refused(loader: Any, text: bytes, problem: str, line: int) -> None:
    """Both parsers of PyYAML lead to the same refusal, at the line where it starts."""
    with pytest.raises(Malformed, match=problem) as caught:
        load_yaml(text, loader)

    assert caught.value.line == line


@pytest.mark.parametrize("loader", LOADERS)
def test_only_json_like_scalars_are_resolved(loader: Any) -> None:
    """What YAML 1.1 takes for booleans, dates, octals and the like are strings here."""
    text = b"[yes, No, on, ~, 2024-01-01, 1:30, 0o7, 0x1F, 010, 1_000, .5, +1, .inf, .nan, True, =]"

    assert load_yaml(b"a: " + text, loader)["a"] == text.decode()[1:-1].split(", ")
    assert load_yaml(b"a: [null, true, false, -1, 0.5, 1e3, -0]\nb:\n", loader) == {
        "a": [None, True, False, -1, 0.5, 1000.0, 0],
        "b": None,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a":1,"a":2}', "appears twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e999}', "out of range"),
        (b'{"a":"\\ud800"}', "lone surrogate"),
        (b'{"a":\xff}', "not UTF-8"),
        (b'{"a":1} x', "more on the line"),
        (b'{"a":"\n"}', "not JSON"),
        (b"[" * 100_000, "nested deeper|not JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_json_beyond_plain_data_is_refused(text: bytes, problem: str) -> None:
    """Duplicate keys, non-finite numbers, lone surrogates and broken text are refused."""
    with pytest.raises(Malformed, match=problem):
        load_line(text)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(),
    st.sampled_from(["", "full", "+0100", "+0100 CET", "0 1", "x"]),
    st.lists(st.sampled_from(["a", 1, None]), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", 1, None]), max_size=2),
)
"""Values of all types that a header has, and of those that it doesn't have."""


def fields_of(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Return fields of a record, some with values of another type, and sometimes one that it doesn't have."""
    fields: dict[str, Any] = {"unknown": _VALUES}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if name not in {"steps", "timings"}:  # read from texts of their own
            fields[name] = fields_of(inner) if isinstance(inner, type) and issubclass(inner, BaseModel) else _VALUES
    required = {name: _VALUES for name, field in model.model_fields.items() if field.is_required()}
    one = st.sampled_from(sorted(fields)).flatmap(lambda name: fields[name].map(lambda value: {name: value}))
    return st.tuples(st.fixed_dictionaries(required), one, one).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


def outcome_of(read: Any, *args: Any) -> Any:
    """Return what is read with the names of the given fields; `None` if it's refused."""
    try:
        record = read(*args)
    except (Malformed, ValidationError):
        return None
    return repr(record), record.model_fields_set  # NaN isn't equal to itself


@given(fields_of(Header))
def test_a_header_is_read_as_pydantic_reads_it(fields: dict[str, Any]) -> None:
    """A header that is read without pydantic's validators is what these make of it, and they refuse what is refused."""
    read = outcome_of(header_from_dict, {"agenttape": 1, **fields})
    assert read == outcome_of(Header.model_validate, fields)


@given(fields_of(Usage))
def test_usage_is_read_as_pydantic_reads_it(usage: dict[str, Any]) -> None:
    """So is the usage of an outcome."""
    stored = {"status": "returned", "value": 1, "usage": usage}
    assert outcome_of(outcome_from_dict, stored) == outcome_of(Outcome.model_validate, stored)


@pytest.mark.parametrize("seconds", [1e30, -1e30, 1e308])
def test_a_time_is_one_that_a_date_can_hold(seconds: float) -> None:
    """A header whose clock shows no date is refused when it's read, and not where the program asks for the time."""
    with pytest.raises(Malformed, match="clock"):
        header_from_dict({"agenttape": 1, "name": "tape", "volatile": {"clock": seconds}})
