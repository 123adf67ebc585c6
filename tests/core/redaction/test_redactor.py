"""The public face: idempotence, equality, nested data, rehydration, rules, and what is known to be harmless."""

from __future__ import annotations

import base64
import copy
import json
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.redaction import PSEUDONYM, Redactor, Rule, new_key
from agenttape_core.redaction.memo import Memo

CANARY = "sk-" + "proj-" + "c4n4ryC4N4RYc4n4ry0123456789"
PIECES = st.sampled_from([
    CANARY, "alice@example.com", "4111 1111 1111 1111", "password=", '"password": "', "hunter2", '"', "'", "\\", "\n",
    " ", "://u:", "@", ":", "=", "Authorization: Bearer ", "Cookie: a=b", "[REDACTED:", "[REDACTED:email:01234567]",
    "]", "--token ", "123-45-6789", "+1 415-555-2671", "12345", ",", "\u00e9\U0001f600",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | TEXTS.map(lambda text: {"$bytes": base64.b64encode(text.encode()).decode()})
)
NAMES = st.sampled_from(["a", "password", "token", "logprob", "cookies", "value", "name", "$tuple", CANARY]) | st.text(
    max_size=5
)
DATA = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def dumped(plain: Any) -> str:
    """Return everything that is in plain data as one text, base64 decoded."""
    if isinstance(plain, dict):
        if set(plain) == {"$bytes"}:
            return base64.b64decode(plain["$bytes"]).decode()
        return "\n".join(f"{key}\n{dumped(item)}" for key, item in plain.items())
    return "\n".join(map(dumped, plain)) if isinstance(plain, list) else str(plain)


@given(TEXTS)
def test_there_and_back(text: str) -> None:
    """Redacting redacted text changes nothing, for any redactor; the one that made the pseudonyms restores the text."""
    redactor = Redactor("k")
    once = redactor.text(text)
    assert Redactor("k").text(once) == once
    # A whole number comes back as the number that it was.
    assert "REDACTED" in text or str(redactor.rehydrate(once)) == text


GLUED = st.lists(
    st.sampled_from([
        "Bearer ", "Basic ", "ann.lee@nordwind-mail.com", "ANN@nordwind.eu", "Bob@Nordwind.eu", "+1 415-777-2671",
        "+49 30 1234567", "4556 7375 8689 9855", "DE89370400440532013000", "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "hunter2", "4711", "+1 863-555-0104", "Redacted-Email-F4850Ed3@Example.Com", "9999 1234 5678 9012", " ", "x",
    ]),
    min_size=1,
    max_size=4,
).map("".join)  # fmt: skip


@given(st.sampled_from(["password", "authorization", "pin", "cookies", "a"]), GLUED)
def test_twice_is_once_below_names(name: str, text: str) -> None:
    """A pseudonym with a form stays one below a denied name, also where it is glued to another or to a scheme."""
    once = Redactor("k").value({name: text})
    assert Redactor("k").value(once) == once


@given(DATA)
def test_no_canary_survives_in_nested_data(plain: Any) -> None:
    """A secret with a form of its own is found wherever it stands: values, keys, bytes, lists in dicts in lists."""
    before = copy.deepcopy(plain)
    redactor = Redactor("k")
    redacted = redactor.value({"outer": plain, CANARY: [f"x {CANARY} y"]})
    text = dumped(redacted)
    assert f"x {CANARY}" not in text
    assert f" {CANARY}" not in text
    assert plain == before
    assert redactor.value(redacted) == redacted


@given(DATA)
def test_unchanged_data_is_the_same_object(plain: Any) -> None:
    """When nothing is replaced the very same object comes back, so that callers can compare by identity."""
    redactor = Redactor("k")
    redacted = redactor.value(plain)
    assert (redacted is plain) == (redacted == plain)


def test_pseudonyms_follow_the_key() -> None:
    """Equal secrets are equal under one key and unlinkable under two."""
    one, same, other = Redactor("a" * 64), Redactor("a" * 64), Redactor("b" * 64)
    assert one.text(CANARY) == same.text(f"x {CANARY}")[2:]
    assert one.text(CANARY) != other.text(CANARY)
    assert len({new_key(), new_key()}) == 2
    assert len(bytes.fromhex(new_key())) == 32


def test_same_in_every_order() -> None:
    """What a text becomes does not depend on what was seen before it."""
    texts = ["password=hunter2x", "hunter2x", f"mail alice@example.com {CANARY}"]
    forth, back = Redactor("k"), Redactor("k")
    assert [forth.text(text) for text in texts] == [back.text(text) for text in reversed(texts)][::-1]


@pytest.mark.parametrize("plain", [
    {"password": None, "token": "", "secret": True, "api_key": "<your-key>"},
    {"access_token": "${TOKEN}", "client_secret": "****"},
    {"content": [{"token": "Hello", "logprob": -0.1, "bytes": [72], "top_logprobs": []}, {"token": " world"}]},
    {"properties": {"password": {"type": "string"}}, "required": ["password", "user"]},
    {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
    {"at": {"$datetime": "2024-01-01T00:00:00"}, "id": {"$uuid": "12345678-1234-1234-1234-123456789012"}},
    {"image": {"$bytes": base64.b64encode(bytes(range(256)) * 4 + b" alice@example.com ").decode()}},
])  # fmt: skip
def test_placeholders_schemas_and_model_tokens_stay(redactor: Redactor, plain: Any) -> None:
    """What stands for a secret, describes one, or is a language model's token is not a secret."""
    assert redactor.value(plain) is plain


def test_denied_names_reach_headers_and_collections(redactor: Redactor) -> None:
    """Header pairs, name/value records, cookies, bytes, tuples and numbers under denied names are replaced."""
    value = base64.b64encode(b"opaque").decode()
    plain = {
        "headers": [["x-api-key", "opaque"], ["accept", "text"]],
        "asgi": [{"$tuple": [{"$bytes": base64.b64encode(b"authorization").decode()}, {"$bytes": value}]}],
        "har": [{"name": "Cookie", "value": "opaque"}],
        "cookies": {"sid": "opaque"},
        "set-cookie": {"$tuple": ["opaque"]},
        "secret": {"$uuid": "opaque"},
        "password": 41172,
    }
    text = json.dumps(redactor.value(plain))
    assert "opaque" not in text
    assert value not in text
    assert "41172" not in text
    assert "text" in text


def test_numbers_and_bytes_come_back_with_their_type(redactor: Redactor) -> None:
    """Rehydration gives a denied number back as a number, and bytes as bytes."""
    plain = {
        "password": 12345,
        "secret": 1.5,
        "data": {"$bytes": base64.b64encode(CANARY.encode()).decode()},
        CANARY: [CANARY],
    }
    redacted = redactor.value(plain)
    assert CANARY not in dumped(redacted)
    assert redactor.rehydrate(redacted) == plain


def test_unknown_pseudonyms_stay(redactor: Redactor) -> None:
    """Who does not hold the secrets gets the pseudonyms, and the same object back."""
    plain = {"a": ["[REDACTED:email:01234567]", "plain"], "b": 1}
    redactor.text(CANARY)
    assert redactor.rehydrate(plain) is plain


def test_disabled_redactor_touches_nothing() -> None:
    """`enabled=False` keeps everything as it is."""
    off = Redactor("k", enabled=False)
    plain = {"password": CANARY}
    assert off.text(CANARY) == CANARY
    assert off.value(plain) is plain
    assert off.chunks([plain]) == [plain]
    assert not off.contains_secret(CANARY)


def test_contains_secret_ignores_pseudonyms(redactor: Redactor) -> None:
    """A redacted text holds no secret any more."""
    assert redactor.contains_secret(f"x {CANARY}")
    assert not redactor.contains_secret(redactor.text(f"x {CANARY}"))


def test_rules_find_patterns_keys_and_literals() -> None:
    """A user's rule works in text and in data, names the kind, and wins over the detectors."""
    rules = [
        Rule("ticket", pattern=r"TICKET-(\d+)"), Rule("who", pattern=r"by (?P<secret>\w+) at (\d+)"),
        Rule("customer", keys=("customer_id",)), Rule("project", literal="Bluebird"),
        Rule("own", pattern=r"sk-proj-\w+"),
    ]  # fmt: skip
    redactor = Redactor("k", rules=rules)

    def kinds(text: str) -> list[str]:
        return [found["kind"] for found in PSEUDONYM.finditer(redactor.text(text))]

    assert redactor.text("TICKET-77").startswith("TICKET-[REDACTED:ticket:")
    assert redactor.text("by Ann at 9").startswith("by [REDACTED:who:")
    assert kinds("on Bluebird, with Bluebird") == ["project", "project"]
    assert kinds(CANARY) == ["own"]
    assert kinds('{"customerId": "c 9"}') == ["customer"]
    assert PSEUDONYM.fullmatch(redactor.value({"Customer-Id": "9"})["Customer-Id"])


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("Ask Zeus about it", Redactor("k"), Redactor("k", rules=[Rule("project", pattern="Zeus")])),
        ("customer_id: Zeus77x", Redactor("k"), Redactor("k", rules=[Rule("customer", keys=("customer_id",))])),
        ("write to zoe@acme.io", Redactor("k", off=["email"]), Redactor("k")),
        ("in /zeus/olympus/notes", Redactor("k"), Redactor("k", places={"cwd": "/zeus/olympus"})),
    ],
)
def test_plain_for_one_redactor(text: str, before: Redactor, after: Redactor) -> None:
    """A text that is plain for one redactor is not so for another that looks for more."""
    assert before.text(text) is text
    assert after.text(text) != text
    assert before.text(f"{text}") == text


@pytest.mark.parametrize("digits", range(6, 15))
def test_phone_numbers_of_any_length(digits: int) -> None:
    """A number that no country has is replaced or left, and comes back, as any other."""
    redactor, number = Redactor("k"), "+1 " + "4155552671234567"[:digits]
    made = redactor.text(f"call {number}!")
    assert Redactor("k").text(made) == made
    assert redactor.rehydrate(made) == f"call {number}!"


@pytest.mark.parametrize(("options", "why"), [
    ({"name": "a", "pattern": "("}, "not a regular expression"),
    ({"name": "a", "pattern": "x*"}, "matches the empty string"),
    ({"name": "A b", "literal": "x"}, "its name must be"), ({"name": "x" * 33, "literal": "x"}, "its name must be"),
    ({"name": "a"}, "says nothing"), ({"name": "a", "literal": ""}, "its literal is empty"),
    ({"name": "a", "keys": "password"}, "its keys must be"), ({"name": "a", "keys": ("--",)}, "its keys must be"),
])  # fmt: skip
def test_invalid_rules_are_refused(options: dict[str, Any], why: str) -> None:
    """A rule that cannot work fails when it is made, by name and with the reason."""
    with pytest.raises(ConfigurationError, match=why) as caught:
        Rule(**options)
    assert repr(options["name"]) in str(caught.value)


def test_memo_is_bounded_and_keeps_what_is_used() -> None:
    """Old entries go, used ones stay, and a hit gives the same object."""
    memo = Memo(capacity=2_000)
    for number in range(500):
        memo.put(f"text {number}", "x")
        memo.put("used", "kept") if memo.get("used") is None else None
    assert memo.get("used") == "kept"
    assert memo.get("text 0") is None
    assert len(memo.young) + len(memo._old) < 100


def test_threads_agree() -> None:
    """One redactor used from many threads gives each the same result."""
    redactor, results = Redactor("k"), []
    texts = [f"{n} {CANARY}{n} alice{n}@example.com" for n in range(50)]
    threads = [
        threading.Thread(target=lambda: results.append([redactor.text(text) for text in texts])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [results[0]] * 4


@pytest.mark.parametrize("name", ["key", "auth", "credentials", "signing_credential"])
def test_a_random_value_of_a_suspicious_name(name: str) -> None:
    """What looks random under a name such as `key` is one secret in a dict and in JSON text; other values stay."""
    redactor = Redactor("k")
    token = "Zq3vT9" + "mLx2Rk8Wb5Yn7Cd4Hs6Jf1PgVtEu0aGi"
    redacted = redactor.value({name: token})
    assert redacted[name] == f"[REDACTED:secret:{redacted[name][-9:-1]}]"
    assert json.loads(redactor.text(json.dumps({name: token}))) == redacted
    for harmless in ("user_id", "primary", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", 7, None):
        assert redactor.value({name: harmless}) == {name: harmless}


MESSAGE = {"role": "user", "content": "When does the first flight to Rome leave?"}


def _seen(*values: Any, **options: Any) -> Redactor:
    redactor = Redactor("k", **options)
    for value in values:
        redactor.value(value)
    return redactor


def test_a_message_that_was_harmless_is_plain() -> None:
    """It needs no redaction once its names are known, for all redactors without something of their own to look for."""
    message = {"role": "user", "content": "When does the last flight to Oslo leave?"}
    assert _seen(message).is_plain(dict(message))
    assert Redactor("another").is_plain(message)
    assert not Redactor("k", rules=[Rule("flight", pattern="flight")]).is_plain(message)
    assert not Redactor("k", forms=False).is_plain(message)
    assert not Redactor("k", enabled=False).is_plain(message)


def test_a_place_is_found_in_what_others_know_as_harmless() -> None:
    """A text with a folder is harmless where that's none of the run, and is replaced where it is."""
    message = {"role": "user", "content": "The maps are in /srv/maps/rome."}
    assert _seen(message).text(message["content"]) == message["content"]
    here = Redactor("k", places={"cwd": "/srv/maps"})
    assert not here.is_plain(message)
    assert "/srv/maps" not in here.text(message["content"])


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "password: hunter2"},
        {"role": "user", "password": MESSAGE["content"]},
        {"name": "X-Api-Key", "value": MESSAGE["content"]},
        {"role": "user", "content": "caf\u00e9"},
        {"role": "user", "content": None},
        {"content": MESSAGE["content"]},
        {"$str": MESSAGE["content"]},
        MESSAGE["content"],
        [MESSAGE],
    ],
)
def test_what_may_change_is_not_plain(value: Any) -> None:
    """A secret, a name that makes one of a known text, other types and what may be a tag are redacted as ever."""
    assert not _seen(MESSAGE, value).is_plain(value)


WORDS = st.sampled_from([
    "password", "PASSWORD", "KEY", "the", "is", "ENV", "set", "login", "hunter", "hunt?er", "user,password",
    "bob,hunter", "DBPASS", "JSON", ",", "?", "(", ")", ".", "secret", "phrase", "abandon", "AKIA",
    "abcdefghijklmnopqrstuvwx", "\n", "\n\n",
])  # fmt: skip


@given(st.lists(WORDS, max_size=6).map(" ".join))
@example("ConversationSummaryHandlers are words of code")
@example("AKIAABCDEFGHIJKLMNOP")
def test_a_quick_look_at_words_finds_what_a_search_finds(text: str) -> None:
    """Among words alone nothing is missed: after a command, in a table, in a long word."""
    assert Redactor("k").text(text) == Redactor("k", off=("nothing",)).text(text)


def test_words_alone_are_not_searched(redactor: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of words is recognized by a quick look; one with anything else is searched."""
    texts = ["The first of the flights to Rome leaves at nine.", "password: hunter2"]
    searched: list[str] = []
    spans = redactor.spans
    monkeypatch.setattr(redactor, "spans", lambda text, **options: searched.append(text) or spans(text, **options))
    assert "hunter2" not in str(redactor.value([{"content": text} for text in texts]))
    assert [text for text in searched if text != "content"] == ["password: hunter2"]  # the key may be known already
