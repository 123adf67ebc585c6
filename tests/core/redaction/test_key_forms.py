"""Keys of providers, made of the patterns that describe them."""

from __future__ import annotations

import re
import string
from random import Random
from typing import Any

import pytest

from agenttape_core.redaction import PSEUDONYM, Redactor
from agenttape_core.redaction.detection.provider_keys import BEFORE, PROVIDER_KEYS, Detector

ALPHABET = string.ascii_letters + string.digits + "_-+/=.~%@$|"
PARSER: Any = re._parser  # type: ignore[attr-defined]  # the only way to a pattern's structure
RUN = re.compile(r"[\w-]{20}")
"""Without a run of so many, a text is not looked at: real keys have one."""
MOST = 12
"""How many more than the least a repeat is made of."""


def made(parsed: Any, rng: Random) -> str:
    """Make a text that a parsed pattern matches, apart from what its assertions demand."""
    return "".join(part(str(name), value, rng) for name, value in parsed)


def part(name: str, value: Any, rng: Random) -> str:
    """Make a text of one part of a pattern."""
    match name:
        case "LITERAL":
            return chr(value)
        case "IN":
            return rng.choice([char for char in ALPHABET + " \n" if is_in(value, char)])
        case "MAX_REPEAT" | "POSSESSIVE_REPEAT" | "MIN_REPEAT":
            least, most, inner = value
            return "".join(made(inner, rng) for _ in range(rng.randint(least, min(most, least + MOST))))
        case "SUBPATTERN":
            return made(value[-1], rng)
        case "BRANCH":
            return made(rng.choice(value[1]), rng)
        case "ASSERT" | "ASSERT_NOT" | "AT":
            return ""
    raise AssertionError(f"a pattern with {name}")


def is_in(items: Any, char: str) -> bool:
    """Return True if a character is in a class."""
    return any(belongs(str(name), value, char) for name, value in items)


def belongs(name: str, value: Any, char: str) -> bool:
    """Return True if a character is what one item of a class says."""
    match name:
        case "LITERAL":
            return ord(char) == value
        case "RANGE":
            return value[0] <= ord(char) <= value[1]
        case "CATEGORY":
            return {"CATEGORY_WORD": char.isalnum() or char == "_", "CATEGORY_DIGIT": char.isdigit()}.get(
                str(value), char.isspace()
            )
    raise AssertionError(f"a class with {name}")


@pytest.mark.parametrize(
    "detector", PROVIDER_KEYS, ids=[f"{number}-{key.kind}" for number, key in enumerate(PROVIDER_KEYS)]
)
def test_each_form_is_found(detector: Detector) -> None:
    """Keys that are made of a form are replaced whole, in prose, in JSON and in a URL, and nothing beside them."""

    def samples(detector: Detector, count: int) -> list[str]:
        """Make keys that a detector describes."""
        source = detector.pattern.pattern.removeprefix(BEFORE)
        rng = Random(f"{detector.kind} {source}")
        found: list[str] = []
        for _ in range(2_000):
            sample = made(PARSER.parse(source, re.ASCII), rng)
            match = detector.pattern.fullmatch(sample)
            if (
                match
                and (detector.check is None or detector.check(sample))
                and sample[-1] not in "-_"
                and RUN.search(sample)
            ):
                found.append(sample)
                if len(found) == count:
                    return found
        raise AssertionError(f"no sample of {source}")

    for sample in samples(detector, 3):
        secret = detector.pattern.fullmatch(sample)
        whole = "secret" not in (secret.re.groupindex if secret else {})
        for text in ("Please see {} ok", '{{"note": "{}"}}', "x\n{}\ny"):
            redacted = Redactor("k").text(text.format(sample))
            assert sample not in redacted
            if whole:
                assert PSEUDONYM.sub("{}", redacted) == text.replace("{{", "{").replace("}}", "}")


AWS, GITHUB = "AK" + "IAIOSFODNN7ABCDEFG", "gh" + "p_" + "a1B2c3D4e5" * 3 + "a1B2c3"
OPENAI = "sk-" + "proj-" + "a1B2c3D4e5" * 14


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("key_", AWS, ""),
        ("my", AWS, ""),
        ("", AWS, "x"),
        ("", GITHUB, "_old"),
        ("x", OPENAI, ""),
        ("backup-prod_", GITHUB, ".txt"),
    ],
)
def test_a_key_that_is_glued_to_words_is_found(redactor: Redactor, before: str, key: str, after: str) -> None:
    """A key ends where its form does, and begins behind the words that it is glued to."""
    redacted = redactor.text(f"{before}{key}{after}")
    assert key not in redacted
    assert redacted.startswith(before)
    assert redacted.endswith(after)


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n", "\\\n"])
@pytest.mark.parametrize(("key", "at"), [(GITHUB, 12), (GITHUB, 25), (OPENAI, 30)])
def test_a_key_that_is_wrapped_is_found(redactor: Redactor, key: str, at: int, line_break: str) -> None:
    """A key is replaced whole where a terminal or a shell has broken it into lines, and the next line stays."""
    wide = "the line of a terminal is as wide as this one, or wider: "
    redacted = redactor.text(f"{wide}{key[:at]}{line_break}{key[at:]}\nThe next line")
    assert key[at : at + 12] not in redacted
    assert redacted.startswith(wide)
    assert redacted.endswith("\nThe next line")


def test_keys_in_lines_stay_apart(redactor: Redactor) -> None:
    """A list of keys has a pseudonym in each line, and a word below a key stays."""
    pseudonym = redactor.text(GITHUB)
    wide = "the line of a terminal is as wide as this one, or wider: "
    assert redactor.text(f"{wide}{GITHUB}\n{GITHUB}\nuser12345=4") == f"{wide}{pseudonym}\n{pseudonym}\nuser12345=4"
