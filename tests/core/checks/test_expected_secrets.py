"""An expected value that holds a secret: it's compared as the recording holds it, and stands in no report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.checks import Run, check_run, run_of
from agenttape_core.checks.traces import read_trace, runs_of
from agenttape_core.checks.words import WORDS, checks_of
from agenttape_core.cli.app import run as command

from .conftest import ask

pytestmark = pytest.mark.usefixtures("project")

MAIL = "bob.smith" + "@" + "weather-desk.org"
PASSWORD = "hunter" + "2-Zebra"
KEY = "sk-proj-" + "A1b2C3d4" * 6


@boundary("tool")
def log_in(mail: str, password: str) -> str:
    """Log somebody in."""
    return "done"


def sign_up() -> None:
    """Log in, and answer with what a user would write into a check."""
    log_in(MAIL, PASSWORD)
    asked = {"role": "assistant", "content": "", "tool_calls": [{"name": "mail", "args": {"to": MAIL}, "id": "1"}]}
    ask("gpt-5", [{"role": "user", "content": f"I am {MAIL}"}], asked)
    ask(
        "gpt-5",
        [{"role": "user", "content": f"I am {MAIL}"}, {"role": "assistant", "content": "?"}],
        json.dumps({"to": MAIL, "key": KEY}),
    )


def runs() -> Iterator[tuple[str, Run]]:
    """Yield the run from everywhere that it can be read from."""
    with use_cassette("secret", mode="all") as session:
        sign_up()
        yield "recording", run_of(session)
    assert not any(secret in Path("cassettes/secret.yaml").read_text() for secret in (MAIL, PASSWORD, KEY))
    with use_cassette("secret") as session:
        sign_up()
        yield "replaying", run_of(session)
    yield "cassette", run_of("secret")
    assert command(["export", "secret", "--format", "jsonl-trace", "-o", "t.jsonl"]) == 0
    ((line),) = runs_of(read_trace("t.jsonl"), "t.jsonl")
    yield "trace", line


def arguments(mail: str, password: str) -> dict[str, Any]:
    """Return the arguments of the tool."""
    return {"mail": mail, "password": password}


def pattern(mail: str) -> dict[str, str]:
    """Return a regular expression that spells out an address."""
    return {"regex": f"^{mail}$".replace(".", r"\.")}


def schema(mail: str, password: str) -> dict[str, Any]:
    """Return the JSON Schema of the arguments with these values only."""
    return {"properties": {"mail": {"type": "string", "enum": [mail]}, "password": {"const": password}}}


WANTED = [
    ("output", lambda mail, _: {"equals": json.dumps({"to": mail, "key": KEY})}),
    ("output", lambda mail, _: {"contains": [mail, '"to"']}),
    ("output", lambda mail, _: {"regex": f'"to": "{mail}"'}),
    ("output", lambda mail, _: {"regex": f'"to": "{mail}"'.replace(".", r"\.").replace("@", r"\@")}),
    ("output", lambda mail, _: {"json_schema": {"properties": {"to": {"const": mail}}}}),
    ("output", lambda mail, _: {"json_schema": {"properties": {"to": {"type": "string", "pattern": f"^{mail}$"}}}}),
    ("arguments", lambda *both: {"tool": "log_in", "equals": arguments(*both)}),
    ("arguments", lambda mail, _: {"tool": "log_in", "equals": {"mail": pattern(mail)}}),
    ("arguments", lambda *both: {"tool": "log_in", "json_schema": schema(*both)}),
    ("called", lambda *both: {"tool": "log_in", "arguments": arguments(*both)}),
    ("called", lambda _, password: {"tool": "log_in", "arguments": {"password": password}}),
    ("exactly", lambda *both: [{"tool": "log_in", "arguments": arguments(*both)}]),
    ("trajectory", lambda *both: {"superset": [{"tool": "log_in", "arguments": arguments(*both)}]}),
    ("trajectory", lambda *both: {"strict": [{"tool": "log_in", "arguments": arguments(*both)}]}),
]
SECRETS_CANNOT_STAND_IN = {"after", "at_most", "before", "confirmed", "judged", "never", "no_errors"}
"""Words without expected values, and two that have tests of their own."""


def test_each_word_is_tried() -> None:
    """A word of checks that is added is tried with a secret, or takes no expected values."""
    assert {word for word, _ in WANTED} | SECRETS_CANNOT_STAND_IN == WORDS.keys()


@pytest.mark.parametrize(("word", "value"), WANTED)
def test_an_expected_secret_is_compared_as_it_was_recorded(word: str, value: Any) -> None:
    """The right secret passes, another one fails, wherever the run is from; neither stands in the result."""
    for source, run in runs():
        right = check_run(run, checks_of(word, value(MAIL, PASSWORD)))
        assert right.findings == (), source
        wrong = check_run(run, checks_of(word, value("eve" + MAIL, PASSWORD + "3")))
        assert wrong.has_failed, source
        reported = json.dumps([right.to_dict(), wrong.to_dict()])
        assert not any(secret in reported for secret in (MAIL, PASSWORD, KEY)), source


def test_a_call_with_a_secret_is_found_that_must_never_be_made() -> None:
    """`never` finds the call, and the one that a model has only asked for, with the secret that it names."""
    for source, run in runs():
        for tool, name in (("log_in", "mail"), ("mail", "to")):
            (found,) = checks_of("never", {"tool": tool, "arguments": {name: MAIL}})
            assert check_run(run, [found]).has_failed, source
            (other,) = checks_of("never", {"tool": tool, "arguments": {name: "eve" + MAIL}})
            assert not check_run(run, [other]).has_failed, source


def test_a_judge_compares_with_the_recorded_form() -> None:
    """The reference of an evaluator reaches it as the answer does."""
    from agenttape_core.checks import judged

    def holds(outputs: Any, reference_outputs: Any) -> bool:
        return reference_outputs["answer"] in outputs["answer"]

    for source, run in runs():
        assert not check_run(run, [judged(holds, reference=MAIL)]).has_failed, source
        assert check_run(run, [judged(holds, reference="eve" + MAIL)]).has_failed, source
