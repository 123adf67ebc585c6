"""Checks as YAML: the same words, and nothing else."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.checks import check_run, run_of
from agenttape_core.checks.check_file import parsed, read_checks
from agenttape_core.checks.words import WORDS
from agenttape_core.errors import ConfigurationError

WHOLE = """\
checks: 1
every:
- called: {tool: look_up, times: 2, kind: tool, arguments: {order: {regex: "none|A-7"}}}
- never: [delete_everything, drop_table]
- before: {first: look_up, then: refund, kind: tool}
- after: {first: look_up, then: refund, within: 2, kind: tool}
- exactly: {calls: [look_up, look_up, refund], strict: true, kind: tool}
- trajectory: {superset: [{tool: refund, arguments: {amount: 5}}], kind: tool}
- at_most: {calls: 5, tokens: 350, seconds: 60}
- no_errors: {allow: [look_up]}
- arguments: {tool: refund, equals: {amount: 5}, json_schema: {required: [order]}}
- output: {contains: refunded, regex: Paris, json_schema: {type: object}}
cases:
- prompt: May I have my money back?
  name: refund
  output: {equals: '{"refunded": 5, "to": "Paris"}'}
  checks:
  - called: refund
"""
KEYS = [
    match for match in re.finditer(r"(?<![\w\"'])([a-z_]+)(?=:)", WHOLE) if match[1] not in {"order", "amount", "type"}
]
"""The keys of the file that are ours: those of arguments and schemas may be anything."""
SCHEMA_KEYS = {"required"}


def test_every_word_passes_and_fails(recorded: Path) -> None:
    """A file with every word passes over the run that it describes, and each of its words fails over an empty one."""
    recorded.with_name("checks.yaml").write_text(WHOLE)
    file = read_checks("checks.yaml")
    run = run_of(recorded)
    assert check_run(run, [*file.every, *file.cases[0].checks]).findings == ()
    assert {check.rule for check in file.every} == WORDS.keys() - {"confirmed", "judged"}
    assert (file.cases[0].prompt, file.cases[0].name, file.cases[0].line) == (run.prompt, "refund", 14)


@given(st.sampled_from(range(len(KEYS))), st.data())
def test_a_typo_is_refused(number: int, data: st.DataObject) -> None:
    """Each one-letter change of a key is refused, with its line."""
    key = KEYS[number]
    at = data.draw(st.integers(0, len(key[1]) - 1))
    way = data.draw(st.sampled_from(["drop", "double", "change"]))
    letter = data.draw(st.sampled_from([other for other in string.ascii_lowercase if other != key[1][at]]))
    changed = key[1][:at] + {"drop": "", "double": key[1][at] * 2, "change": letter}[way] + key[1][at + 1 :]
    text = WHOLE[: key.start()] + changed + WHOLE[key.end() :]
    if key[1] in SCHEMA_KEYS:
        return
    with pytest.raises(ConfigurationError) as refused:
        parsed(text, "checks.yaml")
    line = WHOLE.count("\n", 0, key.start()) + 1
    assert re.search(rf"checks\.yaml:(?:{line}|1)\b", str(refused.value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "checks.yaml:1: expected a mapping that begins with `checks: 1`"),
        ("checks: 2\nevery:\n- no_errors: true\n", "checks.yaml:1: expected `checks: 1`, found 2"),
        ("checks: 1\n", "checks.yaml:1: nothing to check: expected `every` or `cases`"),
        ("checks: 1\nevery: {never: x}\n", "checks.yaml:2: `every` is a list of checks"),
        ("checks: 1\nevery:\n- nver: x\n", "checks.yaml:3: unknown check 'nver'; did you mean 'never'?"),
        (
            "checks: 1\nevery:\n- at_most: {token: 3}\n",
            "checks.yaml:3: at_most: unknown key 'token'; did you mean 'tokens'?",
        ),
        (
            "checks: 1\nevery:\n- never: x\n  called: y\n",
            "checks.yaml:3: a check in `every` is a mapping with one word",
        ),
        ("checks: 1\nevery:\n- never: x\nevery: []\n", "checks.yaml:4: the key 'every' occurs twice, first on line 2"),
        ("checks: 1\nevery:\n- no_errors: false\n", "checks.yaml:3: no_errors: expected true, or a mapping with allow"),
        ("checks: 1\nevery:\n- output: {regex: (}\n", "checks.yaml:3: output: '(' isn't a regular expression"),
        ("checks: 1\nevery:\n- before: [a]\n", "checks.yaml:3: before: expected a list of two tools, found ['a']"),
        (
            "checks: 1\nevery:\n- called: []\n",
            "checks.yaml:3: called: expected the names of tools, found an empty list",
        ),
        ("checks: 1\ncases:\n- prompt: 3\n  called: x\n", "checks.yaml:3: `prompt` is a text, found 3"),
        ("checks: 1\ncases:\n- prompt: a\n", "checks.yaml:3: a case without a check: expected one of after"),
        (
            "checks: 1\ncases:\n- prompt: a\n  outptu: {contains: x}\n",
            "checks.yaml:4: unknown key 'outptu'; did you mean 'output'?",
        ),
        (
            "checks: 1\ncases:\n- {prompt: a, called: x}\n- {prompt: a, called: y}\n",
            "checks.yaml:4: a case with this prompt is already on line 3",
        ),
        ("checks: [\n", "checks.yaml:2: no YAML"),
        ("checks: &a [*a]\n", "checks.yaml:1: a value contains itself"),
        ("checks: 2026-99-99\n", "checks.yaml:1: month must be in 1..12"),
        ("a: " + "[" * 3000 + "]" * 3000, "checks.yaml"),
    ],
)
def test_malformed_files_are_refused(text: str, said: str) -> None:
    """A malformed file is refused with the line, what was found, and what was expected."""
    with pytest.raises(ConfigurationError) as refused:
        parsed(text, "checks.yaml")
    assert said in str(refused.value)


def test_all_problems_are_told() -> None:
    """A file with several problems is refused with all of them."""
    with pytest.raises(ConfigurationError) as refused:
        parsed("checks: 1\nevery:\n- nver: x\n- at_most: {}\ncase: []\n", "c.yaml")
    assert [line.strip() for line in str(refused.value).splitlines()] == [
        "c.yaml: 3 problems in the checks",
        "c.yaml:5: unknown key 'case'; did you mean 'cases'?",
        "c.yaml:3: unknown check 'nver'; did you mean 'never'?",
        (
            "c.yaml:4: at_most: expected a limit: calls, tokens, seconds, dollars, steps, uncached_tokens, "
            "cache_miss_dollars"
        ),
    ]
