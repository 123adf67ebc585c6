"""Checks of the last answer of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agenttape_core.checks.checking import Check
from agenttape_core.checks.json_schemas import problems_of, validator
from agenttape_core.checks.run import Call, Run
from agenttape_core.checks.values import compiled, forms_of, shown
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import spelled
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.tools.reporting import Finding


def output(
    *,
    equals: str | None = None,
    contains: str | Sequence[str] | None = None,
    regex: Any = None,
    json_schema: Mapping[str, Any] | None = None,
) -> Check:
    """Return the check of the text of the last answer of a model.

    Args:
        equals: The whole text.
        contains: A part of it, or several.
        regex: A regular expression that is found in it.
        json_schema: The JSON Schema that it fits, read as JSON; needs the extra `checks`.

    Raises:
        ConfigurationError: If nothing is given, or it is malformed.
    """
    expectations = [
        *([_equals(equals)] if equals is not None else []),
        *([_contains(part) for part in _parts(contains)] if contains is not None else []),
        *([_fits(compiled(regex, "output"))] if regex is not None else []),
        *([_fits_schema(validator(json_schema, "output"))] if json_schema is not None else []),
    ]
    if not expectations:
        raise ConfigurationError("output: expected one of equals, contains, regex, json_schema")

    def judge(run: Run) -> Iterator[Finding]:
        last = next((call for call in reversed(run.happened) if call.kind in MODEL_KINDS), None)
        for _, find in expectations:
            yield from find(run, last)

    return Check("output", f"output {', '.join(said for said, _ in expectations)}", judge, ("output",))


_Expectation = tuple[str, Callable[[Run, Call | None], Iterator[Finding]]]
"""An expectation in words, and the function that finds where it is not met."""


def _equals(text: Any) -> _Expectation:
    if not isinstance(text, str):
        raise ConfigurationError(f"output: equals is a text, found {text!r}")

    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        forms = forms_of(run, text)
        if run.answer not in forms:
            yield run.finding("the output is another one", last, differences=(spelled("", forms[-1], run.answer),))

    return f"equals {shown(text)}", find


def _contains(part: str) -> _Expectation:
    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        if not any(form in run.answer for form in forms_of(run, part)):
            yield run.finding("the output lacks a text", last, expected=part, found=shown(run.answer))

    return f"contains {shown(part)}", find


def _fits(pattern: re.Pattern[str]) -> _Expectation:
    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        if not any(form.search(run.answer) for form in forms_of(run, pattern)):
            yield run.finding("the output does not fit", last, expected=shown(pattern), found=shown(run.answer))

    return f"fits {shown(pattern)}", find


def _fits_schema(schema: Any) -> _Expectation:
    def find(run: Run, last: Call | None) -> Iterator[Finding]:
        try:
            value = json.loads(run.answer)
        except ValueError as error:
            yield run.finding(f"the output is no JSON: {error}", last, found=shown(run.answer))
            return
        if found := problems_of(run, schema, value):
            yield run.finding("the output does not fit the schema", last, differences=tuple(found))

    return "fits a schema", find


def _parts(contains: Any) -> list[str]:
    parts = [contains] if isinstance(contains, str) else contains
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str) and part for part in parts):
        raise ConfigurationError(f"output: contains is a text or a list of texts, found {contains!r}")
    return list(parts)
