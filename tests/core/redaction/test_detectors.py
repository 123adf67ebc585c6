"""What is found, what is left alone, and how fast; literals are found where a plain search finds them."""

from __future__ import annotations

import base64
import gc
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttape_core.redaction
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction import PSEUDONYM, Redactor
from agenttape_core.redaction.detection.encoded import decode
from agenttape_core.redaction.detection.names import FIRST_WORDS, LAST_WORDS
from agenttape_core.redaction.detection.provider_keys import PROVIDER_KEYS
from agenttape_core.redaction.detection.views import LONG, VOCABULARY, Normal, View, holds, places
from agenttape_core.redaction.scanner import TABLES


@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "sk-proj-",
        "eyJ",
        "eyJhbGciOi.",
        "a@",
        "a.b@",
        "@a.",
        "://",
        "://a:",
        "password=",
        "password='",
        "password=\\'",
        '"password":"',
        "password: ",
        "-----BEGIN PRIVATE KEY-----",
        "4",
        "4111 ",
        "+1 ",
        "(4",
        "A",
        "AB12",
        "GB29 ",
        "a",
        "a-",
        "_",
        "-us",
        "Q~",
        ":AA",
        "bearer ",
        "basic ",
        "key=",
        "\\",
        '\\\\"',
        "--token ",
        "<secret>",
        "cookie: a=b;",
        "Authorization: ",
        "xoxb-1",
        "SG.",
        "gh",
        "?token=a&",
        "a%20",
        "[REDACTED:",
        "[REDACTED:a:12345678]x",
        "1-",
        "dp.pt.",
        ".aaaaaa.",
        "password|",
        "|password",
        "password,",
        "a,password\n",
        "| password |\n|--|\n",
        "pin=",
        "pass: |\n ",
        "\x1b[",
        "\x1b[31m",
        "\u200b",
        "\uff1a",
        "\u5bc6\u7801\uff1a",
        "AKIA",
        "ENV A ",
        '"key" {',
        "otp is 00",
        "identified by ",
        "sqlplus a/",
        "password -> ",
        "::add-mask::",
        "Authorization: A ",
        "INSERT INTO t (password) VALUES ('x9y8z7'), (",
        "insert into t (pw) values ('",
        "copy t (token) from stdin\tx\n",
        "kind: Secret\n",
        "kind: Secret\ndata:\n",
        "kind: Secret\n" + "data:\n" * 99,
        "kind: Secret\ndata:\n  a: " + "QUJDREVG" * 2_000,
        '{"kind": "Secret", "data": {"a": ',
        "#password:\n",
        "secrets: {a: b1234, ",
        "\n> ",
        "\n     1\tpassword:",
        " -a x:y",
        "unzip -P ab ",
        ":5432:a:b:",
        "login: a1/b",
        "password for a ",
        "clave es 9 ",
        "secrekey",
        "seed phrase: ab ",
        "set('key', '",
        "a.pw=",
        '{"password": [',
        '"token": {"x": ["a", ',
        "name,password\n",
        "password, a b\n",
        "password\ta;b\npassword;a\n",
        "password;a\npassword;a b\n",
        "|password|a|\n|---|---|\n",
    ],
)
def test_scan_is_linear(piece: str) -> None:
    """Ten times the text, or four times one that takes long, is far from the square of that, whatever is repeated."""

    def seconds(size: int) -> float:
        gc.disable()  # a collection of all that other tests have left takes longer than the text
        try:
            start = time.process_time()
            Redactor("k").text((piece * size)[:size])
            return time.process_time() - start
        finally:
            gc.enable()

    small = min(seconds(5_000) for _ in range(2))
    times = 10 if small < 0.005 else 4
    # The constant keeps noise out of texts that take no time at all.
    assert seconds(5_000 * times) < times**1.6 * small + 0.02


@pytest.mark.parametrize("head", ["name,password", "name\tpassword", "name;password", "|name|password|\n|---|---|"])
def test_long_tables(redactor: Redactor, head: str) -> None:
    """A secret in a column of a table is found in whichever of a thousand rows it is."""
    sign = next(each for each in "|\t;," if each in head)
    rows = [sign.join(["Ann Lee", f"x7{number}Qz9"]) for number in range(1_000)]
    frame = "|{}|" if sign == "|" else "{}"
    found = redactor.text("\n".join([head, *map(frame.format, rows)]))
    assert not [row for row in rows if row.rpartition(sign)[2] in found]


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
    """A number under a denied name inside JSON text becomes another number, and comes back as it was."""
    text = '{"password": 12345, "n": 1}'
    redacted = redactor.text(text)
    assert re.fullmatch(r'\{"password": 90\d{3}, "n": 1\}', redacted)
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


def test_all_patterns_compile() -> None:
    """A pattern that is compiled late is a valid one: no user meets the error."""
    found = pkgutil.walk_packages(agenttape_core.redaction.__path__, "agenttape_core.redaction.")
    modules = [importlib.import_module(module.name) for module in found]
    values = [one for module in modules for one in vars(module).values()]
    values += [one for value in values if isinstance(value, dict) for one in value.values()]
    patterns = [one for one in values if isinstance(one, Lazy)]
    patterns += [detector.pattern for detector in PROVIDER_KEYS]
    assert len(patterns) > 100
    for pattern in patterns:
        pattern.fullmatch(pattern.pattern[:0])


@pytest.mark.process
def test_importing_core_loads_no_detector() -> None:
    """The detectors and their patterns are the first session's cost, not that of importing us."""
    code = "import sys, agenttape_core; sys.exit('agenttape_core.redaction.scanner' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("secret", ["hunter2", "pässwörd1", "日本語99", "a\tb\\n3"])
def test_base64_stays_base64(redactor: Redactor, secret: str) -> None:
    """A secret inside base64 is replaced there, in the alphabet, padding and lines of the original."""
    text = json.dumps({"user": "bob, who has a long name", "password": secret, "signs": "?>~?>~?>~"})
    plain = base64.b64encode(text.encode()).decode()
    for body in (
        plain,
        plain.rstrip("="),
        plain.replace("+", "-").replace("/", "_"),
        "\n".join(textwrap.wrap(plain, 64)),
    ):
        redacted = redactor.text(f"body: {body}.")
        assert redacted.startswith("body: ey")
        assert decode(redacted[len("body: ") : -1]) == redactor.text(text) != text
        assert redactor.rehydrate(redacted) == f"body: {body}."
        assert ("\n" in redacted) == ("\n" in body)


def test_base64_in_an_answer_gets_its_secrets_back(redactor: Redactor) -> None:
    """Redacted base64 that this redactor has never made is restored, too, if it knows the secret."""
    recorded = Redactor(redactor.key).text(base64.b64encode(b"the answer for bob@example.com").decode())
    assert redactor.rehydrate(recorded) == recorded
    redactor.text("who is bob@example.com?")
    assert base64.b64decode(redactor.rehydrate(recorded)) == b"the answer for bob@example.com"


FEW = st.text("ab", max_size=30).map(str.encode)


@given(FEW, st.text("ab", min_size=1, max_size=4).map(str.encode))
def test_places(text: bytes, literal: bytes) -> None:
    """Each place is there, in order, overlapping ones included."""
    found = [at for at in range(len(text)) if text.startswith(literal, at)]
    assert list(places(text, literal)) == found
    assert holds(text, literal) == bool(found)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "B7", "_-"]), st.integers(0, 2 * LONG), st.sampled_from(["", " ", "."])))
)
def test_long_runs(parts: list[tuple[str, int, str]]) -> None:
    """The start of each run of token characters that is long enough is there, in order."""
    text = "".join(letter * count + end for letter, count, end in parts)
    found = [run.start() for run in re.finditer(rf"[\w-]{{{LONG},}}", text, re.ASCII)]
    assert View(Normal(text)).long_runs == found


@given(
    st.lists(st.sampled_from(["password:", "x", "y" * 900, "net use", "\\n", "(", "zip -P"]), max_size=60),
    st.booleans(),
)
def test_windows(parts: list[str], has_blanks: bool) -> None:
    """A literal is found in a long text wherever it is, also across the border of two windows."""
    text = (" " if has_blanks else ".").join(parts * 3)
    view = View(Normal(text))
    for literal, word in ((b"password", b"password"), (b"net use ", b"net"), (b"zip ", b"zip")):
        met = [each for meant in view.met for each in meant if each.word == word]
        assert sorted({at for each in met for at in each.places(view.low, literal)}) == [*places(view.low, literal)]


@pytest.mark.parametrize("form", ["{}", "db{}", "x_{}", "-{}", "{}2", "{}_", "x{}s", "{}s", "OLD{}"])
def test_quick_look_at_a_word(form: str) -> None:
    """The quick look at a new word loses no meaning that a reader has for it, in any case and compound."""
    words = {word.encode() for word in LAST_WORDS | FIRST_WORDS if word.isascii()}
    words |= {word for row in TABLES.rows for word, _ in row.words if not word.isdigit()}
    for cased in {cased for word in words for cased in (word, word.upper(), word.title(), word.swapcase())}:
        written = form.encode().replace(b"{}", cased)
        meant = [(written, at, meaning) for at, read in enumerate(VOCABULARY.readers) if (meaning := read(written))]
        assert VOCABULARY.among([written]) == meant
