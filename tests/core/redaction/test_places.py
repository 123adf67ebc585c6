"""Paths that are others in each run have one pseudonym, and each run gets its own path back."""

from __future__ import annotations

import json

from agenttape_core.redaction import Redactor, Rule

KEY = "k"


def redactor(number: int, *rules: Rule) -> Redactor:
    """Return the redactor of a run in folders of its own."""
    base = f"/tmp/pytest-of-me/pytest-{number}"
    return Redactor(KEY, rules=rules, places={"basetemp": base, "tmp_path": f"{base}/test_it0"})


def test_one_pseudonym_for_all_runs() -> None:
    """A text about the folders of two runs is one text redacted, wherever it stands, and each gets its own back."""

    def asked(number: int) -> list[object]:
        base = f"/tmp/pytest-of-me/pytest-{number}"
        texts = [f"{base}/test_it0/a.txt", f"in {base}/data1.", json.dumps({"p": f"{base}/test_it0"})]
        return [*texts, {f"{base}/test_it0": f"a{base}"}]

    redacted = redactor(1).value(asked(1))
    assert redacted == redactor(22).value(asked(22))
    assert "pytest-" not in str(redacted)
    assert redactor(22).rehydrate(redacted) == asked(22)  # also before any request held them
    assert redactor(1).value(redacted) == redacted
    secret = "sk-proj-" + "a1B2" * 12
    both = redactor(22).value([secret, asked(22)])
    assert redactor(22).with_places(both) == [redactor(22).text(secret), asked(22)]


def test_only_whole_names() -> None:
    """A folder whose name only begins alike is another one, and a longer place wins over a shorter one."""
    text = "/tmp/pytest-of-me/pytest-12 /tmp/pytest-of-me/pytest-1/test_it01"
    assert redactor(1).text(text).startswith("/tmp/pytest-of-me/pytest-12 [REDACTED:basetemp:")
    assert redactor(1).text(text).endswith("/test_it01")


def test_a_rule_and_a_switch_win() -> None:
    """The user's rules come first, and without redaction nothing is replaced."""
    path = "/tmp/pytest-of-me/pytest-1/test_it0"
    assert redactor(1, Rule("mine", literal=path)).text(path).startswith("[REDACTED:mine:")
    off = Redactor(KEY, enabled=False, places={"tmp_path": path})
    assert off.rehydrate(off.value([path])) == [path]
