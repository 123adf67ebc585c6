"""Keys in colours, in diffs, in full-width and among invisible characters."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction import PSEUDONYM, Redactor, Rule
from agenttape_core.redaction.detection.views import normalised

KEY = "gh" + "p_" + "RJzRYRQx4oJavnfHaqcuOscD5LW1Zig8SU9J"
SECRET = "Zq7jCIejlCJr"
UNSEEN = [
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[1;38;5;4m",
    "\x1b]0;title\x07",
    "\xad",
    "\u200b",
    "\u2060",
    "\ufeff",
    "\\u001b[32m",
]
TEXTS = st.lists(st.sampled_from([*UNSEEN, "a", "\uff1a", "\xa0", " ", "\n", "é", "密", "\\"]), max_size=12).map(
    "".join
)


@given(TEXTS)
def test_each_character_comes_from_where_it_stood(text: str) -> None:
    """A normal text is the original with parts left out, and each of its positions leads back."""
    normal = normalised(text)
    assert normalised(normal.text).text == normal.text
    origins = [normal.origin(at) for at in range(len(normal.text))]
    assert origins == sorted(set(origins))
    same = {"\uff1a": ":", "\xa0": " "}
    assert [same.get(text[at], text[at]) for at in origins] == list(normal.text)


@pytest.mark.parametrize("text", [
    "\x1b[31m{}\x1b[0m", "\\u001b[31m{}\\u001b[0m", "+{}", "-{}", "a\n-{}\n+b", '"diff\\n+{}\\n"', "\u200b{}\u200b",
    "\uff08{}\uff09",
])  # fmt: skip
def test_keys_in_surroundings(redactor: Redactor, text: str) -> None:
    """What stands around a key in a terminal, a diff or a chat does not hide it, and stays."""
    redacted = redactor.text(text.format(KEY))
    assert PSEUDONYM.sub("{}", redacted) == text
    assert redactor.rehydrate(redacted) == text.format(KEY)


@pytest.mark.parametrize("unseen", ["\xad", "\u200b", "\u2060", "\x1b[m\x1b[K"])
def test_keys_with_something_unseen_inside(redactor: Redactor, unseen: str) -> None:
    """A key is replaced whole, with the invisible characters that copying or a terminal has put into it."""
    text = f"use {KEY[:12]}{unseen}{KEY[12:]} now"
    redacted = redactor.text(text)
    assert PSEUDONYM.sub("{}", redacted) == "use {} now"
    assert redactor.rehydrate(redacted) == text


def test_what_is_unseen_hides_no_name_behind_it(redactor: Redactor) -> None:
    """However much is unseen before it, each name is come across, in whatever order their words are looked for."""
    line = "\x1b[38;5;204mDB_PASSWORD\x1b[0m=\x1b[1mhunter{}x\x1b[0m\n"
    text = "".join(line.format(number) for number in range(20)) + "\u5bc6\u7801\uff1aSh1mm3r9\npin=4821\n"
    redacted = redactor.text(text)
    assert "hunter" not in redacted
    assert "Sh1mm3r9" not in redacted
    assert "4821" not in redacted
    assert redactor.rehydrate(redacted) == text


def test_full_width_key(redactor: Redactor) -> None:
    """A key in full-width letters is one."""
    wide = "".join(chr(ord(char) + 0xFEE0) for char in KEY)
    assert PSEUDONYM.sub("{}", redactor.text(f"use {wide} now")) == "use {} now"


def test_rules_see_the_text_as_it_stands() -> None:
    """A rule that spells a full-width or invisible character finds it, and one that does not, too."""
    redactor = Redactor("k", rules=[Rule("wide", literal="\uff1ax"), Rule("plain", literal="Bluebird")])
    assert "wide" in redactor.text("a\uff1ax")
    assert redactor.text("Blue\xadbird").startswith("[REDACTED:plain:")


IN_LINES = [
    f"| user | password |\n|---|---|\n| bob | {SECRET} |",
    f"name,password\nbob,{SECRET}",
    f"password: |\n  {SECRET}\nuser: bob",
    f"- name: DB_PASSWORD\n  value: {SECRET}",
    f"[server]\nport = 80\nrootPassword = {SECRET}",
    f"$ op read op://Private/db/password\n{SECRET}\n$",
]
MARGINS = {
    "quotation": "> {line}", "quotation within one": "> > {line}", "diff": "+{line}", "listing": "{number:6}\t{line}",
    "listing with arrows": "{number:6}\u2192{line}", "search": "{number}:{line}", "services": "web-1  | {line}",
    "log": "2026-03-02T10:11:{number:02}.0000000Z {line}",
}  # fmt: skip


@pytest.mark.parametrize("margin", MARGINS.values(), ids=MARGINS)
@pytest.mark.parametrize("text", IN_LINES)
def test_margins_hide_nothing(redactor: Redactor, text: str, margin: str) -> None:
    """A secret that other lines give away is found when each line has something in front of it, and that stays."""
    lines = [margin.format(number=number, line=line) for number, line in enumerate(text.split("\n"), start=8)]
    for whole in ("\n".join(lines), json.dumps("\n".join(lines), ensure_ascii=False)):
        before, _, after = whole.partition(SECRET)
        redacted = redactor.text(whole)
        assert SECRET not in redacted
        assert redacted.startswith(before)
        assert redacted.endswith(after)
        assert redactor.rehydrate(redacted) == whole


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Call one of\n+49 170 4455667\n+49 170 4455668", "+49 170 4455668"),
        (f"id\tpassword\n1\t{SECRET}\n2\t{SECRET}", SECRET),
        (f"host | password\n-----+---------\ndb1 | {SECRET}\ndb2 | {SECRET}", SECRET),
    ],
)
def test_beginnings_of_lines_are_no_margins(redactor: Redactor, text: str, secret: str) -> None:
    """A number that begins a line is a part of it: the plus of a phone number, the first column of a table."""
    assert secret not in redactor.text(text)
