"""Secrets in surroundings that engineers and agents write: prose, shells, SQL, calls of tools, configurations."""

from __future__ import annotations

import json

import pytest

from agenttape_core.redaction import Redactor

SECRET = "Zq7jCIejlCJr"

FOUND = [
    "Here you go.\nAPI key: {}",
    "Hello,\n\nAccess token: {}\nBye",
    json.dumps("Hello,\nAPI key: {}\n"),
    "password -> {}",
    "password \u2192 {}",
    "Das Passwort lautet {}",
    "mon mot de passe est {}",
    "el token es {}",
    '<parameter name="password">{}</parameter>',
    '<string name="api_key">{}</string>',
    'variable "db_password" {{\n  type = string\n  default = "{}"\n}}',
    "define('DB_PASSWORD', '{}');",
    '{{"auths": {{"r.example": {{"identitytoken": "{}"}}}}}}',
    "CREATE USER bob IDENTIFIED WITH mysql_native_password BY '{}';",
    "CREATE USER bob IDENTIFIED BY {};",
    "sqlplus system/{}@//db:1521/XE",
    "jdbc:oracle:thin:scott/{}@//db:1521/XE",
    'echo "::add-mask::{}"',
    "Authorization: SSWS 00{0}{0}",
    "Authorization: DeepL-Auth-Key {0}{0}:fx",
    "ENV PASSWORD {}",
]


@pytest.mark.parametrize("text", FOUND)
def test_found(redactor: Redactor, text: str) -> None:
    """The secret is replaced and nothing around it, twice is as once, and it comes back."""
    text = text.format(SECRET)
    redacted = redactor.text(text)
    assert SECRET not in redacted
    assert redacted.partition("[REDACTED:")[0] == text[: len(redacted.partition("[REDACTED:")[0])]
    assert Redactor(redactor.key).text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize("text", FOUND)
def test_found_in_pieces(redactor: Redactor, text: str) -> None:
    """It is found wherever a stream cuts it."""
    text = text.format(SECRET)
    for at in range(text.index(SECRET) + 1, text.index(SECRET) + len(SECRET)):
        chunks = redactor.chunks([{"content": text[:at]}, {"content": text[at:]}])
        assert SECRET not in "".join(str(chunk["content"]) for chunk in chunks if isinstance(chunk, dict))


def test_codes_in_prose(redactor: Redactor) -> None:
    """A short number is a secret where prose says which one it is."""
    for text in ("Your verification code is 482913.", "OTP is 48291", "the PIN is 1234 for now"):
        redacted = redactor.text(text)
        assert redacted != text
        assert Redactor(redactor.key).text(redacted) == redacted
        assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize(
    "text",
    [
        "API_KEY=<your key>",
        "password -> str",
        "token \u2192 Token2",
        "`userPassword2` \u2192 `user`, `password`",
        "The status code is 2004.",
        "led pin is 1350",
        "The user was identified by ISO27001 and by hand.",
        "identified as 44 years old; married",
        "Authorization: required for members",
        'variable "db_password" {\n  type = string\n}',
        '<option value="key">x1y2z3</option>',
        "Das Passwort ist falsch, el token es nuevo.",
        "the primary\nkey: abc123def456",
        "password value and token secret are words, key words.",
    ],
)
def test_left_alone(redactor: Redactor, text: str) -> None:
    """Placeholders, types, states and numbers that are no secrets stay."""
    assert redactor.text(text) is text
