"""Secrets in the fields of pages, and on the lines of YAML below a denied name."""

from __future__ import annotations

import json

import pytest

from agenttape_core.redaction import Redactor


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('<input value="hunter2xyz" name=password>', "hunter2xyz"),
        ("<input value=hunter2xyz name='password'>", "hunter2xyz"),
        ('<INPUT NAME="csrf_token" TYPE=hidden\n  VALUE="abcDEF123456" />', "abcDEF123456"),
        ("<input type=password id=x value='correct horse'>", "correct horse"),
        ('<meta name="csrf-token" content="abcDEF123456">', "abcDEF123456"),
        (json.dumps('<input value="hunter2xyz" name="password">'), "hunter2xyz"),
        ("password:\n  value: hunter2xyz\n", "hunter2xyz"),
        ("db:\n  password:  # both\n    old: first99\n    new: 'x99yz!'\n", "x99yz!"),
        ("users:\n- api_keys:\n  - hunter2xyz\n  - other99\n", "other99"),
        ("tokens:\n  access_token:\n    type: bearer\n    value: abc123def456\n", "abc123def456"),
        (json.dumps("db:\n  password:\n    old: hunter2xyz\n"), "hunter2xyz"),
        ("pw:\n  old: hunter2xyz\n", "hunter2xyz"),
        ("**pw:** hunter2xyz", "hunter2xyz"),
        ("cvv=123&month=7", "123"),
        ("password:\n  type: string\n  description: of the login\n  default: hunter2xyz\n", "hunter2xyz"),
    ],
)
def test_found(redactor: Redactor, text: str, secret: str) -> None:
    """A value is found in whatever order and with whatever quotes a page or a document of YAML has it."""
    redacted = redactor.text(text)
    assert secret not in redacted
    assert Redactor(redactor.key).text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize(
    "text",
    [
        '<input name="password" placeholder="your password" value="">',
        '<input type="text" name="city" value="Paris"><label for=password>Password</label>',
        '<meta name="keywords" content="a, b"><meta name="password-policy" content="8 letters">',
        "if password:\n    return foo99bar\n",
        "def f(\n    token:\n    x1: int = 3)\n",
        "password:\n  type: string\n  minLength: 8\n  description: of the login\n",
        "secrets:\n  db_password:\n    file: ./db_password.txt\n",
        "secrets:\n  GH_TOKEN:\n    required: true\n",
        "token:\n\n  Not99 below, as a line is empty.\n",
        "password:\nuser: bob99\n",
        "DB password:\n  see: page99 of the manual\n",
    ],
)
def test_left_alone(redactor: Redactor, text: str) -> None:
    """Pages without values, code, schemas, references and what is not below the name stay as they are."""
    assert redactor.text(text) is text
