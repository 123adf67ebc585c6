"""What stands below a denied name: each text in it is a secret, unless it describes a field."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from agenttape_core.redaction import Redactor
from agenttape_core.schema.python_types import PYTHON_VALUES

SECRET = "correct" + "horse"
WRITTEN: list[Callable[[Any], Any]] = [
    lambda plain: plain,
    json.dumps,
    lambda plain: json.dumps(plain, indent=2),
    lambda plain: json.dumps({"arguments": json.dumps(plain)}),
    lambda plain: json.dumps(json.dumps(json.dumps(plain))),
    repr,
    lambda plain: f"Calling tool with {json.dumps(plain)} now",
    lambda plain: [{"tool_calls": [{"name": "login", "args": plain}]}],
]


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize(
    "plain",
    [
        {"password": {"x": SECRET}},
        {"password": [SECRET, {"x": SECRET}]},
        {"DB_PASS": {"value": SECRET}},
        {"DB_PASS": [{"x": SECRET}]},
        {"user": "bob", "client_secret": {"x": {"y": [[SECRET], None, True, {"z": SECRET}]}}},
        {"token": {"type": "bearer", "access": SECRET, "expires_in": 3600}},
        {"password": {"type": "text", "text": SECRET}},
        {"password": {"type": "object", "properties": {"password": {"default": SECRET}}, "x": SECRET}},
        {"secrets": {"a-b": SECRET, "created_at": "2026-01-02T03:04:05Z"}},
    ],
)
def test_a_denied_name_covers_all_below_it(plain: Any, written: Callable[[Any], Any]) -> None:
    """No text below a denied name stays, however it is written; twice changes nothing, and it can be put back."""
    redactor = Redactor("k")
    whole = written(plain)
    redacted = redactor.value(whole)
    assert SECRET not in str(redacted)
    assert redactor.value(redacted) == redacted
    assert redactor.rehydrate(redacted) == whole
    for told in ("bob", "bearer", "3600", "created_at", "2026-01-02T03:04:05Z", "object"):
        assert (told in str(redacted)) == (told in str(whole))


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("plain", [
    {"properties": {"password": {"type": "string", "description": "The password", "minLength": 8}}},
    {"password": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Password"}},
    {"password": {"description": "Where to log in with"}},
    {"password": {"$ref": "#/$defs/Password"}},
    {"password": {"label": "Password", "type": "password", "required": True, "placeholder": "Your password"}},
    {"credentials": {"type": "object", "properties": {"token": {"type": ["string", "null"]}}}},
    {"token": {"text": "Hello", "logprob": -0.1, "special": False}},
    {"password": {"min": 8, "max": 128, "is_set": True, "hint": None}},
    {"openai_api_key": {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}},
    {"access_token": {"token_type": "Bearer", "scope": "read write", "expires_at": 1767225600}},
    {"pass": {"total": 12, "note": "all of them"}, "first_pass": {"x": "word"}, "sort_key": {"x": "word"}},
])  # fmt: skip
def test_descriptions_and_what_is_told_stay(plain: Any, written: Callable[[Any], Any]) -> None:
    """Schemas, fields of forms, tokens of models, small numbers, and what describes a credential stay readable."""
    whole = written(plain)
    assert Redactor("k").value(whole) is whole


class Login(BaseModel):
    """A model whose class stays."""

    who: str
    how: list[str]


@dataclasses.dataclass
class Grant:
    """A dataclass whose class stays."""

    what: str


Pair = collections.namedtuple("Pair", "one two")  # noqa: PYI024 - the untyped kind is meant


@pytest.mark.parametrize("made", [
    lambda: Login(who=SECRET, how=[SECRET]),
    lambda: Grant(what=SECRET),
    lambda: Pair(SECRET, {"x": SECRET}),
    lambda: {1: SECRET, 2: [SECRET]},
    lambda: collections.deque([SECRET], maxlen=3),
    lambda: collections.defaultdict(list, {"x": [SECRET]}),
    lambda: (SECRET, {"x": {SECRET}}),
])  # fmt: skip
def test_objects_below_a_denied_name(made: Callable[[], Any]) -> None:
    """The values of an object are replaced, in one piece and in a stream, and it is read again as one of its class."""
    redactor = Redactor("k")
    written = PYTHON_VALUES.encode({"client_secret": made()})
    redacted = redactor.value(written)
    streamed = redactor.chunks([written, {"content": "end"}])
    for plain in (redacted, streamed[0]):
        assert SECRET not in str(plain)
        assert type(PYTHON_VALUES.decode(plain)["client_secret"]) is type(made())
    assert PYTHON_VALUES.decode(redactor.rehydrate(redacted)) == {"client_secret": made()}


def test_a_value_that_is_cut_off() -> None:
    """What is left of JSON that ends too early is covered, and source code that only looks like it stays."""
    redactor = Redactor("k")
    assert SECRET not in redactor.text(f'{{"password": {{"x": ["{SECRET}", "{SECRET[:5]}')
    assert SECRET not in redactor.text(f'DB_PASSWORD={{"value": "{SECRET}"}}')
    code = 'login({"password": [getpass("Password: "), read("file")]})'
    assert redactor.text(code) is code


@pytest.mark.parametrize("written", WRITTEN)
def test_data_of_a_secret_of_kubernetes(written: Callable[[Any], Any]) -> None:
    """All data of a Secret is secret, however it's written and called; that of a ConfigMap isn't."""
    redactor = Redactor("k")
    data = {"conn": "cGFzc3dvcmQ4", "b.c": "Y29ycmVjdA=="}
    manifest = {"apiVersion": "v1", "data": data, "kind": "Secret"}
    redacted = str(redactor.value(written(manifest)))
    assert not any(value in redacted for value in data.values())
    other = written({**manifest, "kind": "ConfigMap"})
    assert redactor.value(other) == other


FLOW = "kind: {kind}\nmetadata: {{name: db}}\ndata: {{foo: {data[foo]}}}\n"
FLOW += "stringData: {{safe: {stringData[safe]}, user: bob, port: 5432}}\n"
LONG = "QUJDREVG" * 1_500  # 12,000 characters
MANY = "".join(f"  k{number}: QUJDREVG\n" for number in range(300))
KEYS = {
    "a long value of JSON": json.dumps({"kind": "Secret", "data": {"a": LONG, "zed": "c2VjcmV0MQ=="}}),
    "a long value in braces": f"kind: Secret\ndata: {{a: {LONG}, zed: c2VjcmV0MQ==}}\n",
    "metadata in a word": "kind: Secret\nmetadata: *base\ndata: {zed: c2VjcmV0MQ==}\n",
    "metadata in braces": "kind: Secret\nmetadata: {n:1}\ndata: {zed: c2VjcmV0MQ==}\n",
    "many lines": f"kind: Secret\ndata:\n{MANY}  zed: c2VjcmV0MQ==\n",
    "many lines above the kind": f"data:\n{MANY}  zed: c2VjcmV0MQ==\nkind: Secret\n",
    "odd keys and values": json.dumps({"kind": "Secret", "data": {"a b": 'x"y', "c": "c2VjcmV0MQ"}}),
    "many objects": "data: []\n" * 2_000 + "---\nkind: Secret\ndata:\n  zed: c2VjcmV0MQ==\n",
    "an owner": "kind: Secret\nmetadata:\n  owners:\n  - kind: Secret\ndata:\n  zed: c2VjcmV0MQ==\n",
    "lines in JSON": json.dumps({"a": "apiVersion: v1\nkind: Secret\ndata:\n  zed: c2VjcmV0MQ==", "b": 1}),
    "a long value": f"kind: Secret\ndata:\n  tls.crt: {LONG}\n  blob: {LONG}\n  zed: c2VjcmV0MQ==\n",
    "a comment": "kind: Secret\ndata:\n  a.b: c2VjcmV0MQ==\n  # not the last\n\n  zed: c2VjcmV0MQ==\n",
    "a value of another form": "kind: Secret\ndata:\n  short: b\n  zed: c2VjcmV0MQ==\n",
    "a block": "kind: Secret\ndata:\n  foo: |\n    c2VjcmV0MQ==\n    QUJDREVG\n  zed: c2VjcmV0MQ==\n",
    "owners": "data:\n  zed: c2VjcmV0MQ==\nmetadata:\n  owner:\n  - kind: Job\nkind: Secret\n",
    "a list": "items:\n- data:\n    zed: c2VjcmV0MQ==\n  kind: Secret\n- data: {}\n  kind: ConfigMap\n",
}


@pytest.mark.parametrize("text", KEYS.values(), ids=KEYS)
def test_all_keys_of_a_secret_of_kubernetes(text: str) -> None:
    """Each value of a Secret's data is replaced, also below long values, comments and values of other forms."""
    redactor = Redactor("k")
    redacted = redactor.text(text)
    assert not any(secret in str(redacted) for secret in ("c2VjcmV0MQ", "QUJDREVG"))
    assert redactor.text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text


TOLD = ["db-1.internal", "https://Db1.example.com/x?y=1", "1.27.3", "v1.2.3-rc1", "eu-west-1", "10.0.0.1:5432"]
TOLD += ["SCRAM-SHA-512", "app2.example.com:8443", "bob2@example.com", "Mozilla/5.0", "12h30m", "/etc/App1", "AES-256"]


@pytest.mark.parametrize("told", TOLD)
def test_settings_in_a_secret_of_kubernetes(told: str) -> None:
    """Hosts, URLs and versions among the texts of a Secret stay, and in braces behind a name."""
    manifest = {"kind": "Secret", "stringData": {"setting": told}}
    for plain in (manifest, json.dumps(manifest), yaml.safe_dump(manifest), f"secrets: {{region: {told}}}"):
        assert Redactor("k").value(plain) == plain


@pytest.mark.parametrize("data", [{}, {"data": {"x": "eA=="}}, {"stringData": "x"}, {"stringData": {"x": "y"}}])
def test_what_tells_of_a_secret_in_a_secret(data: dict[str, Any]) -> None:
    """An item that marks another as secret does so in a Secret, and a password in its data hides no other value."""
    plain = {"kind": "Secret", "selector": "#password", "text": "hunter2x", **data}
    assert "hunter2x" not in str(Redactor("k").value(plain))
    plain = {"kind": "Secret", "data": {"password": "c2VjcmV0MQ==", "db": "QUJDREVG"}}
    assert "QUJDREVG" not in str(Redactor("k").value(plain))


@pytest.mark.parametrize(
    "written", [json.dumps, partial(json.dumps, indent=2), partial(yaml.safe_dump, sort_keys=False)]
)
def test_data_beside_a_secret_of_kubernetes(written: Callable[[Any], str]) -> None:
    """The data of a ConfigMap in the same list stays, in front of a Secret and behind it."""
    settings = {"kind": "ConfigMap", "data": {"mode": "fast", "zone": "west"}}
    secret = {"kind": "Secret", "data": {"zed": "c2VjcmV0MQ=="}}
    text = written({"items": [settings, secret, settings]})
    assert Redactor("k").text(text) == text.replace("c2VjcmV0MQ==", redacted_in(text))


@pytest.mark.parametrize(
    "written", [*WRITTEN, yaml.safe_dump, partial(yaml.safe_dump, default_flow_style=True), FLOW.format_map]
)
def test_texts_of_a_secret_of_kubernetes(written: Callable[[Any], Any]) -> None:
    """The texts and the data of a Secret are replaced in blocks, in braces and as data; its users and ports stay."""
    texts = {"safe": "Fjord-2291", "user": "bob", "port": "5432"}
    manifest = {"kind": "Secret", "data": {"foo": "c2VjcmV0MQ=="}, "stringData": texts}
    redacted = str(Redactor("k").value(written(manifest)))
    assert "Fjord-2291" not in redacted
    assert "c2VjcmV0MQ" not in redacted
    assert "bob" in redacted
    assert "5432" in redacted
    other = written({**manifest, "kind": "ConfigMap"})
    assert Redactor("k").value(other) == other


@pytest.mark.parametrize("text", [
    "secrets: {db: hunter2x, user: bob}", "Initial admin password:\n\n    hunter2x\n\nChange it.",
    "Your temporary password is\n    hunter2x\nIt expires.", '"password:\\n  hunter2x\\n"',
])  # fmt: skip
def test_a_value_below_its_name(text: str) -> None:
    """A word on the line below a name, or in braces behind it, is its value; nothing around it is changed."""
    before, _, after = text.partition("hunter2x")
    redacted = str(Redactor("k").text(text))
    assert "hunter2x" not in redacted
    assert redacted.startswith(before)
    assert redacted.endswith(after)


@pytest.mark.parametrize("text", [
    "The new password:\n    must have eight characters", "password: {type: string, minLength: 8}",
    "secrets:\n  db_password:\n    file: ./db_password.txt", "password:\n  Required\n",
    "apiVersion: v1\nkind: ConfigMap\ndata: {mode: c3RhbmRhcmQ=}", "kind: Secret\nspec:\n  data: {mode: c3RhbmRhcmQ=}",
])  # fmt: skip
def test_what_is_below_a_name_and_is_no_value(text: str) -> None:
    """Sentences, schemas, files and the data of other objects stay."""
    assert Redactor("k").text(text) == text


def redacted_in(text: str) -> str:
    """Return the replacement of the only secret in a text."""
    front, _, back = text.partition("c2VjcmV0MQ==")
    redacted = str(Redactor("k").text(text))
    return redacted[len(front) : len(redacted) - len(back)]


def test_values_beside_a_label() -> None:
    """A label marks only texts beside it; a value marked as sensitive is a secret, whatever its type."""
    redactor = Redactor("k")
    for plain in (
        {"label": "Password", "input": {"id": "pw-field"}},
        {"field": "password", "data": ["too short", "no digit"]},
        {"sensitive": True, "data": [1, 2]},
    ):
        assert redactor.value(plain) == plain
    assert "swordfish" not in str(redactor.value({"sensitive": True, "value": {"db": "swordfish"}}))


@pytest.mark.parametrize(
    "plain",
    [
        {"password": f"Enter {SECRET}@corp-mail.com"},
        {"label": "Password", "value": f"Enter {SECRET}@corp-mail.com"},
        {"sensitive": True, "value": f"<{SECRET}@corp-mail.com>"},
        {"kind": "Secret", "data": {"note": f"your {SECRET}@corp-mail.com"}},
    ],
    ids=str,
)
def test_a_placeholder_is_searched(plain: Any) -> None:
    """A text that only asks for a secret may hold another one."""
    assert SECRET not in str(Redactor("k").value(plain))
