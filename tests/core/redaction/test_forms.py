"""Pseudonyms with the form of what they stand for: valid, nobody's, known again, and put back."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.redaction import Redactor, Rule
from agenttape_core.redaction.detection.personal import passes_luhn
from agenttape_core.redaction.pseudonyms import holds_pseudonym, kinds_in

MAIL = "Ann.Lee@acme-mail.com"
ARMOUR = "-----BEGIN PRI" + "VATE KEY-----\n{}\n-----END PRI" + "VATE KEY-----"
PEM = ARMOUR.format("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ==")

locals_ = st.from_regex(r"[a-zA-Z][a-zA-Z0-9+]{0,14}[a-zA-Z0-9]", fullmatch=True)
domains = st.from_regex(r"[a-z]{2,8}(-[a-z]{2,5})?\.(com|org|de|co\.uk)", fullmatch=True)
mails = st.builds("{}@{}".format, locals_, domains).filter(lambda mail: "example" not in mail)
cards = st.from_regex(r"45[0-9]{13}", fullmatch=True).map(
    lambda body: next(body + check for check in "0123456789" if passes_luhn(body + check))
)
phones = st.from_regex(r"\+1 \([2-9][0-9]{2}\) [2-9][0-9]{2}-[0-9]{4}|\+44 20 [0-9]{4} [0-9]{4}", fullmatch=True)
numbers = st.integers(10**5, 10**12)
secrets = st.fixed_dictionaries(
    {"mail": mails, "card": cards, "phone": phones, "passcode": numbers, "secret": st.uuids().map(str)}
)


@given(secrets)
def test_round_trip(secret: dict[str, Any]) -> None:
    """What is redacted stays redacted, is known for a pseudonym by its form alone, and comes back with its type."""
    redactor = Redactor("k")
    redacted = redactor.value(secret)
    assert Redactor("other").value(redacted) == redacted
    assert redactor.rehydrate(redacted) == secret
    assert Redactor("k").rehydrate(redacted) == redacted
    text = json.dumps(secret)
    assert json.loads(redactor.text(text)) == redacted
    assert redactor.rehydrate(redactor.text(text)) == text
    for name in ("mail", "card", "secret"):
        assert secret[name] not in str(redacted)
    assert holds_pseudonym(redacted["passcode"], "passcode")


@given(st.lists(mails, min_size=1, max_size=3), st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_streams_that_are_cut_anywhere(mails: list[str], cuts: list[int]) -> None:
    """A pseudonym stands in the chunk in which the secret begins, whole, and is put back there."""
    text = "write to " + " or ".join(mails)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(text[at : at + cut])
        at += cut
    pieces.append(text[at:])
    redactor = Redactor("k")
    chunks = redactor.chunks(pieces)
    assert "".join(chunks) == redactor.text(text)
    assert "".join(redactor.rehydrate_chunks(chunks)) == redactor.rehydrate(redactor.text(text))


@pytest.mark.parametrize(("secret", "pattern"), [
    (MAIL, r"Redacted-Email-[0-9A-Fa-f]{8}@Example\.Com"),
    (MAIL.lower(), r"redacted-email-[0-9a-f]{8}@example\.com"),
    (MAIL.upper(), r"REDACTED-EMAIL-[0-9A-F]{8}@EXAMPLE\.COM"),
    ("+1 415-777-2671", r"\+1 [2-9]\d\d-555-01\d\d"), ("(415) 777-2671", r"\([2-9]\d\d\) 555-01\d\d"),
    ("+44 7911 123456", r"\+44 7700 900\d{3}"), ("+33 6 12 34 56 78", r"\+33 6 39 98 \d\d \d\d"),
    ("+49 30 9018 2045", r"\+49 \d\d \d{4} \d{4}"), ("+61 2 9876 5432", r"\+61 \d (?:5550|7010) \d{4}"),
    ("+81 3-1234-5678", r"\+99 9-\d{4}-\d{4}"),
    ("4556 7375 8689 9855", r"9999 \d{4} \d{4} \d{4}"), ("374245455400126", r"9999\d{11}"),
    ("GB94BARC10201530093459", r"GB\d\dXXXX\d{14}"),
    ("DE44 5001 0517 5407 3249 31", r"DE\d\d 9999 \d{4} \d{4} \d{4} \d\d"),
    ("412-34-5678", r"9\d\d-[1-4]\d-\d{4}"),
])  # fmt: skip
def test_the_form_of_each_kind(redactor: Redactor, secret: str, pattern: str) -> None:
    """A pseudonym is of the kind and the country of the secret, and punctuated as it is."""
    redacted = redactor.text(f"it is {secret}, yes")
    made = redacted.removeprefix("it is ").removesuffix(", yes")
    assert re.fullmatch(pattern, made)
    assert len(made) == len(secret) or "@" in secret
    assert redactor.rehydrate(redacted) == f"it is {secret}, yes"
    assert Redactor("other").text(redacted) == redacted
    assert kinds_in(redacted) or "@" in secret


def test_programs_may_write_it_otherwise(redactor: Redactor) -> None:
    """What a program makes of a pseudonym is the pseudonym of what it would have made of the secret."""

    def same(secret: str, change: Any) -> bool:
        return bool(change(redactor.text(secret)) == redactor.text(change(secret)))

    assert same(MAIL, str.lower)
    assert same("4556 7375 8689 9855", lambda text: text.replace(" ", ""))
    assert same("+1 (415) 777-2671", lambda text: "+" + "".join(filter(str.isdigit, text)))
    assert same(MAIL, lambda text: text.replace("@", "%40"))
    assert same(PEM, lambda text: json.dumps({"key": text}))


@pytest.mark.parametrize("text", [
    "alice@example.com", "bob@mail.example.org", "x@host.test", "y@company.example", "z@nowhere.invalid",
    "+1 212-555-0142", "(415) 555-0199", "+44 7700 900123", "4242 4242 4242 4242", "378282246310005",
    "GB29 NWBK 6016 1331 9268 19", "078-05-1120",
])  # fmt: skip
def test_reserved_and_documented_values_stay(redactor: Redactor, text: str) -> None:
    """What is reserved, or documented as an example, is nobody's and no secret."""
    assert redactor.text(text) is text


@pytest.mark.parametrize(("value", "read"), [
    (4711, lambda value: value + 1), ("123456", int), (2.5, lambda value: value * 2), (-41172, abs),
    ("3F2504E0-4F89-41D3-9A0C-0305E82C3301", UUID),
    ({"$uuid": "3f2504e0-4f89-41d3-9a0c-0305e82c3301"}, lambda value: UUID(value["$uuid"])),
    ({"$decimal": "12.50"}, lambda value: Fraction(value["$decimal"])),
])  # fmt: skip
def test_types_under_denied_names(redactor: Redactor, value: Any, read: Any) -> None:
    """Numbers and UUIDs under a denied name stay what they are, with as many digits, and come back."""
    redacted = redactor.value({"secret": value})
    assert redacted != {"secret": value}
    read(redacted["secret"])
    if isinstance(value, int):
        assert len(str(redacted["secret"])) == len(str(value))
    assert redactor.rehydrate(redacted) == {"secret": value}


@pytest.mark.parametrize("value", [{"$float": "nan"}, {"$decimal": "sNaN"}, {"$decimal": "-Infinity"}])
def test_what_is_no_number_is_no_secret(redactor: Redactor, value: dict[str, str]) -> None:
    """NaN and infinity stay under a denied name; a decimal that holds a text is replaced, and put back."""
    assert redactor.value({"secret": value}) == {"secret": value}
    redacted = redactor.value({"secret": {"$decimal": "x7Yz9kP2"}})
    assert "x7Yz9kP2" not in str(redacted)
    assert redactor.rehydrate(redacted) == {"secret": "x7Yz9kP2"}


def test_a_number_is_put_back_under_its_name_only(redactor: Redactor) -> None:
    """A value that equals the pseudonym of a number by chance stays what it is."""
    made = redactor.value({"pin_code": 1, "passcode": 4711})["passcode"]
    assert redactor.rehydrate({"count": made, "passcode": made}) == {"count": made, "passcode": 4711}
    text = f'{{"count": {made}, "passcode": {made}}}'
    assert redactor.rehydrate(text) == f'{{"count": {made}, "passcode": 4711}}'


def test_a_reserved_number_of_the_run_is_not_mistaken(redactor: Redactor) -> None:
    """Where the run itself has the reserved number that stands for another one, that is not put back."""
    made = redactor.text("+1 415-777-2671")
    assert redactor.rehydrate(made) == "+1 415-777-2671"
    redactor.text(f"call {made}")
    assert redactor.rehydrate(made) == made


@pytest.mark.parametrize("secret", [PEM, "pässw0rd"])
def test_secrets_that_json_escapes_are_put_back(redactor: Redactor, secret: str) -> None:
    """A request holds a secret as it is, and an answer as JSON writes it, once or twice; and the other way round."""
    plain: dict[str, Any] = {"password": secret}
    once = json.dumps({"password": secret})
    twice = json.dumps({"arguments": once})
    recorded = [Redactor(redactor.key).value(value) for value in (plain, once, twice)]
    assert all(json.dumps(secret)[1:-1] not in str(value) for value in recorded)
    redactor.value(plain)
    assert [redactor.rehydrate(value) for value in recorded] == [plain, once, twice]
    other = Redactor(redactor.key)
    other.text(once)
    assert other.rehydrate(recorded[0]) == plain


def test_older_cassettes_have_brackets() -> None:
    """Without forms, a redactor makes what it made before there were any, and finds examples."""
    old = Redactor("k", forms=False)
    plain = {"mail": "alice@example.com", "passcode": 4711, "card": "4242424242424242"}
    redacted = old.value(plain)
    assert all(str(value).startswith("[REDACTED:") for value in redacted.values())
    assert old.rehydrate(redacted) == plain


def test_kinds_are_switched_off_and_replaced() -> None:
    """A kind that is switched off stays, its neighbours do not; a rule of its name takes its place."""
    text = f"{MAIL}, 4556 7375 8689 9855"
    off = Redactor("k", off=["email"])
    assert off.text(text).startswith(f"{MAIL}, 9999 ")
    named = {"password": "x1", "secret": 5}
    assert Redactor("k", off=["secret", "number"]).value(named) is named
    own = Redactor("k", rules=[Rule("email", pattern=r"[\w.]+@corp\.com")])
    assert own.text(MAIL) == MAIL
    assert "corp.com" not in own.text("to bob@corp.com")
    assert own.rehydrate(own.text("to bob@corp.com")) == "to bob@corp.com"


@pytest.mark.parametrize("url", [
    "postgresql://app:Tr0ub4dor@db.internal:5432/shop", "mongodb+srv://agent:pR9xk2Wm@cluster0.abcd.net/test",
    "https://oauth2:glpat-" + "k3Jd9M2xQ7rTzV5bN1pL@gitlab.example.org/a.git",
    "https://ghp_" + "k3Jd9M2xQ7rTzV5bN1pLk3Jd9M2xQ7rTzV5b@github.com/a.git",
])  # fmt: skip
def test_urls_can_be_taken_apart(url: str) -> None:
    """The host, the port and the user of a URL in an answer stay where they are; what knows the secret puts it back."""
    recorder, replaying = Redactor("k"), Redactor("k")
    recorded = recorder.value({"text": [f"see {url} now"]})
    assert recorder.rehydrate(recorded) == {"text": [f"see {url} now"]}
    answered = replaying.rehydrate(recorded)["text"][0].split()[1]
    before, after = urlsplit(url), urlsplit(answered)
    assert (after.hostname, after.port, after.path) == (before.hostname, before.port, before.path)
    assert replaying.text(answered) == answered
    assert unquote(answered) in recorded["text"][0]
    assert recorder.rehydrate(answered) == url


def test_urls_in_streams() -> None:
    """The password of a URL that comes in pieces is percent-encoded, too, and put back where it is known."""
    url, recorder = "postgresql://app:Tr0ub4dor@db.internal/shop", Redactor("k")
    pieces = [{"delta": url[at : at + 6]} for at in range(0, len(url), 6)]
    recorded = recorder.chunks(pieces)
    answered = "".join(chunk["delta"] for chunk in Redactor("k").rehydrate_chunks(recorded))
    assert urlsplit(answered).hostname == "db.internal"
    assert unquote(answered) == "".join(chunk["delta"] for chunk in recorded)
    assert "".join(chunk["delta"] for chunk in recorder.rehydrate_chunks(recorded)) == url


def test_paths_of_files_are_no_hosts() -> None:
    """A folder behind `file://` keeps its brackets."""
    recorded = Redactor("k", places={"home": "/home/ann"}).value(["file:///home/ann/a.txt", "https://h/x?p=/home/ann"])
    assert Redactor("k").rehydrate(recorded) == recorded


def test_an_account_with_blanks_of_printers_has_a_pseudonym() -> None:
    """A bank account whose groups no-break blanks part is replaced, with its blanks, and put back."""
    redactor, text = Redactor("k"), "pay DE44 5001 0517 5407 3249 31.".replace(" ", "\u00a0")
    redacted = redactor.text(text)
    assert "5407" not in redacted
    assert redacted.count("\u00a0") == text.count("\u00a0")
    assert redactor.rehydrate(redacted) == text
