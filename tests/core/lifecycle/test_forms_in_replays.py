"""A program that reads the form of a value goes the same way in a replay, and the value is in no file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pydantic import BaseModel, Field

from agenttape_core import Rule, boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteNotFoundError, ConfigurationError
from agenttape_core.redaction.detection.personal import passes_luhn

MAIL, PHONE, CARD = "bob.lee@acme-mail.com", "+1 415-777-2671", "4556737586899855"


@boundary("tool")
def find(name: str) -> dict[str, Any]:
    """Return a customer."""
    return {"name": name, "email": MAIL, "phone": PHONE, "card": CARD, "passcode": 4711}


def test_validators_and_arithmetic_replay(tmp_path: Path) -> None:
    """A validated address, a checked card and a number to add replay green; none of the values is in the file."""

    class Customer(BaseModel):
        """What a tool returns, with validators."""

        email: str = Field(pattern=r"^[\w.+-]+@[\w-]+(\.[a-z]{2,4})+$")
        phone: str = Field(pattern=r"^\+1 \d{3}-\d{3}-\d{4}$")
        card: str
        passcode: int

    @boundary("tool")
    def send(to: str, domain: str) -> str:
        """Send a mail."""
        return f"sent to {to} at {len(domain)}"

    def program() -> str:
        """Validate, split, check and add."""
        found = Customer.model_validate({key: value for key, value in find("Bob").items() if key != "name"})
        assert passes_luhn(found.card)
        assert 0 < found.passcode + 1 <= 10_000
        return send(found.email.lower(), "-" * len(found.email.split("@")[1].split(".")))

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert program() == f"sent to {MAIL} at 2"
    _, records = path.read_text("utf-8").split("\n---\n", 1)
    found = [
        secret for secret in (MAIL, PHONE, CARD, "4711") if re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", records)
    ]
    assert not found, "as a word: random keys and fingerprints may hold four digits"
    with use_cassette(path):
        assert re.fullmatch(r"sent to redacted-email-\w{8}@example\.com at 2", program())


def test_what_a_request_holds_is_put_back(tmp_path: Path) -> None:
    """The answer to a request with the address has the address, in whatever case and escape it was recorded."""

    @boundary("tool")
    def echo(text: str) -> dict[str, Any]:
        return {"upper": text.upper(), "json": f'{{"to": "{text}"}}', "quoted": text.replace("@", "%40"), text: 1}

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = echo(MAIL)
    with use_cassette(path):
        assert echo(MAIL) == recorded
    assert "acme-mail" not in path.read_text("utf-8").lower()


def test_an_exception_says_what_was_not_put_back(tmp_path: Path) -> None:
    """A program that fails on a pseudonym is told so; one that has seen none is not."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        find("Bob")
    with pytest.raises(ZeroDivisionError) as failed, use_cassette(path):
        assert find("Bob")["email"] != MAIL
        raise ZeroDivisionError
    (note,) = failed.value.__notes__
    assert "could not put back (card, email, number, phone)" in note
    with pytest.raises(ZeroDivisionError) as failed, use_cassette(path, on_unused="ignore"):
        raise ZeroDivisionError
    assert not hasattr(failed.value, "__notes__")


def test_older_cassettes_replay(tmp_path: Path) -> None:
    """A cassette whose header tells of no forms is matched in brackets, and so is what is added to it."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        find(MAIL)
    text = path.read_text("utf-8")
    assert "forms: true" in text
    path.write_text(text.replace("  forms: true\n", ""), "utf-8")
    with use_cassette(path, mode="new_episodes", on_unused="ignore"):
        find(MAIL)
        find("alice@example.com")
    assert "[REDACTED:email:" in path.read_text("utf-8")
    assert not open_cassette(path).preface.redaction.forms
    with use_cassette(path, on_unused="ignore"):
        find("alice@example.com")


def test_kinds_that_are_switched_off_are_in_the_header(tmp_path: Path) -> None:
    """The header names them, and a replay follows it; a session that adds to it must be told the same."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all", redact=[Rule("email", keep=True)]):
        find(MAIL)
    text = path.read_text("utf-8")
    assert MAIL in text
    assert PHONE not in text
    assert open_cassette(path).preface.redaction.off == ["email"]
    with use_cassette(path):
        assert find(MAIL)["email"] == MAIL
    with pytest.raises(ConfigurationError, match=r"without looking for \['email'\]"):
        use_cassette(path, mode="new_episodes").__enter__()
    with use_cassette(path, mode="new_episodes", redact=[Rule("email", keep=True), Rule("iban", keep=True)]):
        find(MAIL)


def test_a_misspelt_kind_is_refused() -> None:
    """A kind that there is not switches off nothing, so it is refused with the nearest."""
    with pytest.raises(ConfigurationError, match="did you mean 'email'") as refused:
        use_cassette("c", redact=[Rule("emial", keep=True)]).__enter__()
    assert not isinstance(refused.value, CassetteNotFoundError)


def test_urls_are_taken_apart(tmp_path: Path) -> None:
    """What takes the password out of a URL and makes another one of it replays green; the password is in no file."""

    @boundary("tool")
    def settings() -> dict[str, str]:
        """Return where the database is."""
        return {"url": "postgresql://app:Tr0ub4dor@db.internal:5432/shop"}

    @boundary("tool")
    def connect(host: str, url: str, password: str) -> str:
        """Connect to a database."""
        return f"{host} with {len(url)} and {len(password)}"

    def taken_apart() -> str:
        """Take a URL apart, and make another one of its parts, of its password as it stands and of the decoded one."""
        parts = urlsplit(settings()["url"])
        assert parts.hostname is not None
        password = unquote(parts.password or "")
        return "".join(
            connect(parts.hostname, f"mysql://{parts.username}:{each}@{parts.hostname}/copy", password)
            for each in (parts.password, password)
        )

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert taken_apart() == "db.internal with 38 and 9" * 2
    recorded = path.read_text("utf-8")
    assert "Tr0ub4dor" not in recorded
    with use_cassette(path):
        assert taken_apart().startswith("db.internal with ")
