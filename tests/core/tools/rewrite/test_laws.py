"""What holds for any data: a later rule gives what an earlier one would have given, and nothing of a value is left."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.matching import Canonicaliser, Ignored
from agenttape_core.redaction import Redactor, Rule
from agenttape_core.redaction.pseudonyms import may_hold
from agenttape_core.schema import Interaction, Outcome
from agenttape_core.tools.rewrite.values import Replacing, Values, byte_forms

KEY = "ab" * 32
RULES = (
    Rule("project", literal="Bluebird"),
    Rule("ticket", pattern=r"TICKET-\d+"),
    Rule("customer", keys=("customer_id",)),
)
NO_PATHS = Ignored.of(())

words = st.sampled_from(["Bluebird", "TICKET-12", "ann@acme-mail.com", "sk-proj-" + "a1B2" * 12, "rain", "Köln", '"'])
texts = st.lists(words, max_size=6).map(" ".join)
"""Words of rules and of detectors, none inside another."""
keys = st.sampled_from(["content", "customerId", "note", "Bluebird"])
plain: st.SearchStrategy[Any] = st.recursive(
    texts | st.integers() | st.none() | texts.map(lambda text: json.dumps({"inner": text})),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
values = st.text(st.characters(codec="utf-8"), min_size=9, max_size=30)
requests = st.dictionaries(st.sampled_from(["messages", "arguments", "customer_id"]), plain, max_size=3)


def recorded(redactor: Redactor, request: Any, value: Any) -> Interaction:
    """Record a call as a session does."""
    question = Canonicaliser(redactor.value, NO_PATHS).request("tool", "t", request)
    return Interaction(
        number=1,
        kind="tool",
        name="t",
        address="t",
        fingerprint=question.fingerprint,
        ids=list(question.ids),
        request=question.body,
        outcome=Outcome(status="returned", value=redactor.value(value)),
    )


@given(requests, plain)
def test_a_later_rule_is_as_good_as_an_earlier_one(request: Any, value: Any) -> None:
    """Redacting a recording that knew no rule gives what a session with the rules would have recorded.

    It cannot where a rule takes in what is a pseudonym already; such a rule has made a pseudonym of a pseudonym.
    """
    before = recorded(Redactor(KEY), request, value)
    redactor = Redactor(KEY, rules=RULES)
    after = Replacing(redactor, NO_PATHS, Values((), redactor)).record(before)
    is_merged = any(may_hold(secret) for secret in redactor.secrets)
    assert is_merged or after == recorded(Redactor(KEY, rules=RULES), request, value)


@given(requests, plain)
def test_twice_is_once(request: Any, value: Any) -> None:
    """What is redacted has nothing more to redact."""
    redactor = Redactor(KEY, rules=RULES)
    item = recorded(redactor, request, value)
    assert Replacing(redactor, NO_PATHS, Values((), redactor)).record(item) == item


@given(values, st.sampled_from(["", " ", "a: ", "\xff"]), st.integers(0, 3))
def test_no_form_of_a_value_is_left(value: str, around: str, nested: int) -> None:
    """A value is gone from text, keys, JSON in JSON, base64 and data of a URL, whatever stands around it."""
    redactor = Redactor(KEY, rules=(Rule("secret", literal=value),))
    text = f"{around}{value}{around}"
    for _ in range(nested):
        text = json.dumps({"text": text})
    encoded = base64.b64encode(b"\xff" + text.encode()).decode()
    data = {"text": text, "url": f"data:image/png;base64,{encoded}", value: 1}
    gone = Values([value], redactor).gone(redactor.value(data))
    shown = [gone["text"], base64.b64decode(gone["url"].partition(",")[2]).decode("latin-1"), *gone]
    assert not any(value in part for part in shown)
    assert not any(form in json.dumps(gone).encode() for form in byte_forms(value))


@given(values, st.binary(max_size=5), st.binary(max_size=5))
def test_a_value_in_base64_is_seen(value: str, before: bytes, after: bytes) -> None:
    """In base64, a value is seen at whatever place of a group of three bytes it begins."""
    encoded = base64.b64encode(before + value.encode() + after)
    assert any(form in encoded for form in byte_forms(value))
