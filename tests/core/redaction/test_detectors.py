"""What is found, what is left alone, and how fast."""

from __future__ import annotations

import time

import pytest

from agenttape_core.redaction import PSEUDONYM, Redactor

Planted = tuple[str, str, str]  # kind, secret, text
MISSED_BY_DESIGN = 4
AMBIGUOUS_NUMBERS = 2
ADVERSARIAL = [
    "sk-", "sk-proj-", "eyJ", "eyJhbGciOi.", "a@", "a.b@", "@a.", "://", "://a:", "password=", "password='",
    "password=\\'", '"password":"', "password: ", "-----BEGIN PRIVATE KEY-----", "4", "4111 ", "+1 ", "(4", "A",
    "AB12", "GB29 ", "a", "a-", "_", "-us", "Q~", ":AA", "bearer ", "basic ", "key=", "\\", '\\\\"', "--token ",
    "<secret>", "cookie: a=b;", "Authorization: ", "xoxb-1", "SG.", "gh", "?token=a&", "a%20", "[REDACTED:",
    "[REDACTED:a:12345678]x", "1-", "dp.pt.", ".aaaaaa.",
]  # fmt: skip


def test_corpus_is_large_and_varied(positives: list[Planted], negatives: list[str]) -> None:
    """The corpus has at least 300 secrets of 35 kinds and 1000 texts without one."""
    assert len(positives) >= 300
    assert len({kind for kind, _, _ in positives}) >= 35
    assert len(negatives) >= 1000


def test_secrets_are_found_whole_and_as_their_kind(positives: list[Planted], redactor: Redactor) -> None:
    """Exactly the secret is replaced, by a pseudonym of its kind; the known misses are the only ones."""
    missed = []
    for kind, secret, text in positives:
        redacted = redactor.text(text)
        kinds = [found["kind"] for found in PSEUDONYM.finditer(redacted)]
        if kinds != [kind] or PSEUDONYM.sub("", redacted) != text.replace(secret, ""):
            missed.append((kind, text, redacted))
    assert len(missed) == MISSED_BY_DESIGN, missed


def test_texts_without_secrets_stay(negatives: list[str], redactor: Redactor) -> None:
    """Prose, code, ids, hashes and blobs stay, but for 16-digit numbers that pass for payment cards."""
    wrong = [(text, redactor.text(text)) for text in negatives if redactor.text(text) != text]
    assert len(wrong) <= AMBIGUOUS_NUMBERS, wrong
    assert all("[REDACTED:card:" in redacted for _, redacted in wrong)


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_scan_is_linear(piece: str) -> None:
    """Ten times the text takes far less than a hundred times as long, whatever is repeated."""

    def seconds(size: int) -> float:
        start = time.process_time()
        Redactor("k").text((piece * size)[:size])
        return time.process_time() - start

    small = min(seconds(20_000) for _ in range(2))
    # The constant keeps noise out of texts that take no time at all.
    assert seconds(200_000) < 40 * small + 0.05


def test_one_secret_has_one_pseudonym_in_every_context(redactor: Redactor) -> None:
    """A password is the same pseudonym in a URL, a header, a JSON string, a query and under a denied key."""
    secret = "correct7horse9battery1"
    texts = [
        f"postgres://app:{secret}@db/x",
        f"Authorization: Bearer {secret}",
        f'{{"password": "{secret}"}}',
        f"https://x.io/?token={secret}",
        f"DB_PASSWORD={secret}",
    ]
    names = {found[0] for text in texts for found in PSEUDONYM.finditer(redactor.text(text))}
    names.add(redactor.value({"client_secret": secret})["client_secret"])
    assert len(names) == 1


def test_bare_json_number_stays_json(redactor: Redactor) -> None:
    """A number under a denied name inside JSON text becomes a quoted pseudonym, and comes back as it was."""
    text = '{"password": 12345, "n": 1}'
    redacted = redactor.text(text)
    assert '"password": "[REDACTED:number:' in redacted
    assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize("name", [
    "password", "userPassword", "PASSWD", "x-api-key", "apiKey", "OPENAI_API_KEY", "Authorization", "Set-Cookie",
    "cookie", "access_key", "aws_secret_access_key", "private-key", "clientSecret", "session_token", "sessionToken",
    "refreshtoken", "token", "secret", "dbpassword", "PGPASSWORD", "proxy-authorization", "id_token", "auth_token",
    "passphrase",
])  # fmt: skip
def test_denied_names(redactor: Redactor, name: str) -> None:
    """Whatever is under the name of a credential is replaced, in every spelling of the name."""
    assert PSEUDONYM.fullmatch(redactor.value({name: "plain"})[name])


@pytest.mark.parametrize("name", [
    "max_tokens", "token_count", "input_tokens", "total_tokens", "tokens", "secretary", "next_page_token",
    "nextPageToken", "tool_call_id", "finish_reason", "tokenizer", "pad_token", "cost_per_token", "public_key", "key",
    "monkey", "author", "password_policy", "secret_name", "token_type", "api_key_id", "keyboard",
    "max_completion_tokens", "stop_token",
])  # fmt: skip
def test_harmless_names(redactor: Redactor, name: str) -> None:
    """Counts, cursors, special tokens and names of names are no credentials."""
    assert redactor.value({name: "plain"}) == {name: "plain"}
