"""Names, and the places where configurations, documents and programs write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from agenttape_core.redaction import PSEUDONYM, Redactor


@pytest.mark.parametrize("name", [
    "pass", "DB_PASS", "smtpPass", "user_pass", "pw", "db_pw", "otp", "totp", "cvv", "CVC", "mfa_code", "securityCode",
    "verification_code", "access_code", "PHPSESSID", "JSESSIONID", "jwt", "bearer", "dsn", "connection_string",
    "mnemonic", "seed_phrase", "recovery_codes", "password_confirm", "passwordConfirmation", "secret_value",
    "token_value", "id_rsa", "access_tokens", "license_key", "x-rapidapi-key", "fernet_key", "consumerKey",
    "contraseña", "senha", "mot_de_passe", "пароль", "密码", "パスワード",
])  # fmt: skip
def test_names_that_promise_a_secret(redactor: Redactor, name: str) -> None:
    """Whatever text stands under what engineers call a secret is replaced."""
    assert PSEUDONYM.fullmatch(redactor.value({name: "plain"})[name])


@pytest.mark.parametrize("name", [
    "AZURE_OPENAI_KEY", "OPENAI_KEY", "SPEECH_KEY", "app_key", "DD-APPLICATION-KEY", "x-functions-key",
    "storage_key", "primary_key", "auth", "credential", "creds", "GH_PAT", "appid",
])  # fmt: skip
def test_names_whose_value_must_look_like_a_key(redactor: Redactor, name: str) -> None:
    """A key of hex digits is replaced under each name of a key; a word or a number stays."""
    key = "3f9a1c0b7d5e4f6a8b2c9d0e1f3a5b7c"
    assert PSEUDONYM.fullmatch(redactor.value({name: key})[name])
    assert redactor.text(f"{name}={key}") != f"{name}={key}"
    for harmless in (42, "42", "users", "eu-west-1", True):
        assert redactor.value({name: harmless}) == {name: harmless}


@pytest.mark.parametrize("plain", [
    {"pass": True}, {"pass": 12, "fail": 0}, {"pass": "failed"}, {"pin": 17}, {"otp": False}, {"code": 200},
    {"code": "US"},
    {"sort_key": "a1b2c3d4e5f60718293a4b5c6d7e8f90"}, {"status_code": 404}, {"first_pass": "x1y2"}, {"bypass": "none"},
    {"signature": "Zq8rT2mXw9LpV4nB7cKd1uYh3eWs5aGf6jQkR0tPz0E=", "type": "thinking"}, {"tokens": ["a", "b"]},
    {"configurable": {"session_id": "user-42", "thread_id": "0f8fad5bd9cb469fa16570867728950e"}},
    {"session_id": "0f8fad5bd9cb469fa16570867728950e"}, {"session_id": "0f8fad5b-d9cb-469f-a165-70867728950e"},
    {"idempotency_key": "0f8fad5b-d9cb-469f-a165-70867728950e"}, {"pins": [4, 17, 27]}, {"gpio_pin": 1234},
], ids=str)  # fmt: skip
def test_names_that_only_look_like_it(redactor: Redactor, plain: Any) -> None:
    """States, counts, keys of tables, and the ids that frameworks give to threads and sessions stay."""
    assert redactor.value(plain) == plain


def test_numbers_that_people_remember(redactor: Redactor) -> None:
    """A PIN is a secret as a number too, and a list of recovery codes is one item by item."""
    redacted = redactor.value({"pin": 4821, "recovery_codes": ["1a2b-3c4d", "5e6f-7a8b"]})
    assert "4821" not in str(redacted)
    assert all(PSEUDONYM.fullmatch(code) for code in redacted["recovery_codes"])


@pytest.mark.parametrize("forms", [True, False])
def test_numbers_of_cards(forms: bool) -> None:
    """A payment card is one as a number too, in data and in chunks; other long numbers stay."""
    redactor = Redactor("k", forms=forms)
    plain = {"card": 4539148803436467, "at": 1732262400000000, "id": 1859911230000000123}
    redacted = redactor.value(plain)
    assert redacted["card"] != plain["card"]
    assert (redacted["at"], redacted["id"]) == (plain["at"], plain["id"])
    assert redactor.chunks([plain]) == [redacted]
    assert redactor.rehydrate(redacted) == plain


SIGNATURE = "Zq8rT2mXw9LpV4nB7cKd1uYh3eWs5aGf6jQkR0tPz0E="


@pytest.mark.parametrize("plain", [
    [{"sv": "2024-05-04"}, {"sig": SIGNATURE}], [["sv", "2024-05-04"], ["sig", SIGNATURE]],
    {"se": "2026", "sig": SIGNATURE},
    [{"X-Amz-Signature": SIGNATURE}], [{"appid": "3f9a1c0b7d5e4f6a8b2c9d0e1f3a5b7c"}], [{"code": SIGNATURE}],
    {"grant_type": "authorization_code", "code": SIGNATURE}, {"name": "sig", "value": SIGNATURE},
], ids=str)  # fmt: skip
def test_pairs_of_queries_and_forms(redactor: Redactor, plain: Any) -> None:
    """The names of signatures and codes count among the pairs of a query or a form, as the transports keep them."""
    redacted = str(redactor.value(plain))
    assert SIGNATURE not in redacted
    assert "3f9a1c0b" not in redacted


class Account(BaseModel):
    """A form that a model has filled in."""

    password: str = Field(min_length=99)
    login: dict[str, str]


def invalid(secret: str) -> str:
    """Return what pydantic says of a password that is too short."""
    with pytest.raises(ValidationError) as failed:
        Account(password=secret, login={})
    return str(failed.value)


@pytest.mark.parametrize("made", [
    lambda secret: {"properties": {"password": {"type": "string", "default": secret}}},
    lambda secret: {"api_key": {"value": secret, "source": "env"}},
    lambda secret: {"client_secret": {"examples": [secret]}},
    lambda secret: f'form-data; name="api_key"\r\nContent-Type: text/plain\r\n\r\n{secret}\r\n--x',
    lambda secret: f"password = SecretStr('{secret}')",
    lambda secret: f'let api_key: &str = "{secret}";',
    lambda secret: json.dumps({"error": invalid(secret)}),
    invalid,
])  # fmt: skip
def test_described_fields(made: Callable[[str], Any]) -> None:
    """A value in the description of a denied field is a secret: of a schema, a form, or an error of pydantic."""
    secret = "Zx81-quux" + "-9f"
    redactor = Redactor("k")
    plain = made(secret)
    assert secret not in str(redactor.value(plain))
    assert redactor.rehydrate(redactor.value(plain)) == plain


@pytest.mark.parametrize("plain", [
    {"password": {"type": "string", "default": "", "description": "yours"}},
    {"token": {"value": "Hello", "logprob": -0.1}},
    {"token": {"type": "NAME", "value": "hello"}},
    "1 validation error for A\ncity\n  Input should be valid [type=x, input_value='Zx81-quux-9f', input_type=str]",
    'form-data; name="city"\r\n\r\nZx81-quux-9f\r\n',
])  # fmt: skip
def test_other_fields_stay(plain: Any) -> None:
    """Descriptions without a value, tokens of a model and other fields stay."""
    assert Redactor("k").value(plain) == plain


def test_italics() -> None:
    """A key or an address in the italics of Markdown has the pseudonym that it has elsewhere."""
    redactor = Redactor("k")
    for secret in ("ann.lee@nordwind-mail.com", "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"):
        assert redactor.text(f"see _{secret}_ there") == f"see _{redactor.text(secret)}_ there"
