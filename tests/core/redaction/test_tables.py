"""The rows of the tables, each by its own examples, and what stands in spellings and in dicts that tools produce."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.redaction import Redactor
from agenttape_core.redaction.detection.names import Names
from agenttape_core.redaction.detection.tables import WORD, Row, Tables, row
from agenttape_core.redaction.detection.views import Normal, View, places
from agenttape_core.redaction.scanner import TABLES

SECRET = "Zq7jCIejlCJr"
NAMES = Names({})
LONG = [f"{'lorem ' * 600:.{size}}\n{{}}\n{'ipsum ' * 600}" for size in range(2_960, 3_080, 24)]


def unmarked(marked: str) -> tuple[str, int, int]:
    """Return a text without the marks around its secret, and where that starts and ends."""
    text = marked.replace("⟦", "").replace("⟧", "")
    return text, marked.index("⟦"), marked.index("⟧") - 1


@pytest.mark.parametrize("each", TABLES.rows, ids=lambda each: each.found[:40])
def test_row_finds_its_example_and_keeps_what_looks_like_it(redactor: Redactor, each: Row) -> None:
    """A row finds the secret of its example, and nothing around it, and no look-alike."""
    text, start, end = unmarked(each.found)
    view = View(Normal(text))
    found = [
        one for row, literal, at in TABLES.near(view) if row is each for one in each.find(view, NAMES, literal, at)
    ]
    assert [(one.start, one.end) for one in found] == [(start, end)]
    redacted = redactor.text(text)
    assert text[start:end] not in redacted
    assert redacted.startswith(text[:start])
    assert redacted.endswith(text[end:])
    kept = View(Normal(each.kept))
    for literal in each.literals:
        assert list(each.find(kept, NAMES, literal, places(kept.raw if each.exact else kept.low, literal))) == []
    assert redactor.text(each.kept) == each.kept


@pytest.mark.parametrize("around", ["- {}", "$ {}", "`{}`", "    {}", "it:\n\t{}\n", *LONG])
def test_rows_find_their_lines_in_other_texts(redactor: Redactor, around: str) -> None:
    """A line of a row gives its secret away in lists, in quotes, after a prompt, indented, in JSON, in long text."""
    for text, start, end in (unmarked(each.found) for each in TABLES.rows if "\n" not in each.found):
        secret, line = text[start:end], around.format(text)
        assert secret not in redactor.text(line), line
        assert secret not in redactor.value({"note": json.dumps([line])})["note"], line


def test_one_row_with_its_two_examples_is_a_rule() -> None:
    """A row of a literal, a pattern and two examples is all that a new rule needs: it finds the one, not the other."""
    new = row("frobctl login ", WORD, "frobctl login ⟦x7Yz9kP2⟧", "frobctl login --web")
    text, start, end = unmarked(new.found)
    among = Tables([*TABLES.rows, new])
    assert [(one.start, one.end) for one in among.find(View(Normal(f"$ {text}\n")), NAMES)] == [(start + 2, end + 2)]
    assert list(among.find(View(Normal(new.kept)), NAMES)) == []


@pytest.mark.parametrize(
    "text",
    [
        '{{"\\u5bc6\\u7801": "{}"}}',
        '{{"note": "Passwort f\\u00fcr das VPN: {}"}}',
        "&quot;password&quot;: &quot;{}&quot;",
        "&#34;password&#34;: &#34;{}&#34;",
        "https://example.org/?q=%7B%22password%22%3A%22{}%22%7D",
        "hasło: {}",
        "Mật khẩu: {}",
        "mật khẩu là {}",
        "पासवर्ड: {}",
        "รหัสผ่าน: {}",
        "CONTRASEÑA: {}",
        "CLÉ SECRÈTE: {}",
        "clé API: {}",
        "SENHA={}",
        "HASŁO: {}",
        "ПАРОЛЬ: {}",
        "Новый пароль от сервера — {}",
        "A senha do banco de dados mudou para {} ontem",
        "the sudo pw on that box is still {} lol",
        '{{"stdout": "export ADMIN_PASSWORD=\\u0027{}\\u0027"}}',
        "│ Setting  │ Value │\n├──────────┼───────┤\n│ Password │ {} │\n└──────────┴───────┘",
        " user | passwd  \n------+---------\n bob  | {}\n(1 row)",
        "password           {}\nusername           bob",
        '  AuthLDAPBindPassword "{}"',
        '{{"Name": "db", "SecretString": "{}"}}',
    ],
)
def test_names_are_known_in_all_spellings(redactor: Redactor, text: str) -> None:
    """A name counts as it reads: in escapes, entities, other languages and columns; nothing else is changed."""
    text = text.format(SECRET)
    redacted = redactor.text(text)
    before, _, after = text.partition(SECRET)
    assert SECRET not in redacted
    assert redacted.startswith(before)
    assert redacted.endswith(after)


DIALOGUES = [
    "AUTH LOGIN\n334 UGFzc3dvcmQ6\n⟦RmpvcmQtMjI5MQ==⟧\n235 ok",
    "C: AUTH LOGIN\nS: 334 UGFzc3dvcmQ6\nC: ⟦RmpvcmQtMjI5MQ==⟧\nS: 235 ok",
    "a1 LOGIN bob ⟦im4pPass⟧\na1 OK LOGIN completed",
    "*2\n$4\nAUTH\n$8\n⟦redisAcl77⟧\n+OK",
    "*3\n$4\nAUTH\n$3\nbob\n$8\n⟦redisAcl77⟧\n+OK",
    "USER bob\n331 Password required\nPASS ⟦ftpPass77⟧\n230 Logged in",
]


@pytest.mark.parametrize("margin", ["", "> ", "    ", "> > ", "\t", "  > "])
@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_dialogues_in_other_texts(redactor: Redactor, dialogue: str, margin: str) -> None:
    """A dialogue of a protocol gives its secret away in a quotation, in Markdown and in a manual."""
    marked = "".join(f"{margin}{line}\n" for line in dialogue.split("\n"))
    for text, start, end in map(
        unmarked, (marked, f"It went on:\n\n{marked}\nand so on", marked.replace("\n", "\r\n"))
    ):
        redacted = redactor.text(text)
        assert text[start:end] not in redacted
        assert (redacted[:start], redacted[len(redacted) - len(text) + end :]) == (text[:start], text[end:])


def test_a_secret_in_escapes_is_replaced_whole(redactor: Redactor) -> None:
    """A value that ends in an escape is replaced up to the end of the escape."""
    redacted = redactor.text('{"password": "Zq7j\\u00e9", "user": "bob"}')
    assert "Zq7j" not in redacted
    assert redacted.endswith('", "user": "bob"}')
    assert "00e9" not in redacted


def test_half_a_character_does_not_cut_a_secret(redactor: Redactor) -> None:
    """A value with a lone surrogate in it is replaced whole, as it is and as a recording spells it."""
    for half in ("\ud800", "\\ud800"):
        redacted = redactor.value({"$str": f"password: Kx9{half}tundra7 and"})
        assert "Kx9" not in str(redacted)
        assert "tundra7" not in str(redacted)
        assert redacted["$str"].endswith(" and")


TYPED: list[tuple[dict[str, Any], str]] = [
    ({"selector": "#password", "text": SECRET}, "text"),
    ({"element": "Password textbox", "ref": "e12", "text": SECRET}, "text"),
    ({"label": "Password", "value": SECRET}, "value"),
    ({"sensitive": True, "type": "string", "value": SECRET}, "value"),
    ({"ParameterKey": "DbPassword", "ParameterValue": SECRET}, "ParameterValue"),
]


@pytest.mark.parametrize(("arguments", "key"), TYPED, ids=[str(arguments)[:40] for arguments, _ in TYPED])
def test_an_item_tells_of_the_one_beside_it(redactor: Redactor, arguments: dict[str, Any], key: str) -> None:
    """What a tool types into the field of a password is replaced, also where the dict is a text of JSON."""
    redacted = redactor.value(arguments)
    assert redacted == {**arguments, key: redacted[key]}
    assert redacted[key] != SECRET


@pytest.mark.parametrize(
    "text",
    [
        '"token": "▁the"',
        '{"token": "Ġthe", "id": 3}',
        "pin: GPIO17",
        '<a accesskey="k">',
        '{"label": "Token count", "value": "512 per call"}',
        '{"sensitive": false, "value": "eu-west-1"}',
        "\\u5bc6\\u7801 is a word",
        "more arguments to pass to `json.dumps2` or not",
        '{"jwt": "urn:ietf:params:oauth:token-type:jwt"}',
    ],
)
def test_look_alikes_stay(redactor: Redactor, text: str) -> None:
    """Tokens of models, pins of boards, keys to press and counts are no secrets."""
    assert redactor.text(text) == text


def test_a_key_in_a_tag_is_not_in_the_file(tmp_path: Path) -> None:
    """The tags of a session are redacted as all else in the file is."""
    key = "ghp_" + "a1B2c3D4e5" * 4

    @boundary("tool")
    def ask() -> str:
        return "yes"

    with use_cassette(tmp_path / "c.yaml", mode="all", tags=[key, "nightly"]):
        ask()
    assert key not in (tmp_path / "c.yaml").read_text(encoding="utf-8")
    assert "nightly" in open_cassette(tmp_path / "c.yaml").header.tags


def test_a_row_is_looked_for_by_its_rarest_word() -> None:
    """Words that most sentences have aren't those by which a row is looked for, or each text would be searched."""
    words = {word for each in TABLES.rows for word, _ in each.words}
    assert words.isdisjoint(b"a and as at by for from in is my new of on or the to with your".split())
