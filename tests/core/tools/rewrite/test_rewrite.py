"""Recordings are redacted as a session with the rules would have recorded them, whatever they hold."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import Rule, boundary, open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Canonicaliser, Ignored
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.redaction.pseudonyms import may_hold
from agenttape_core.schema import Interaction, Outcome
from agenttape_core.settings import Settings, load_settings
from agenttape_core.tools.rewrite import Leak, Scan, redact
from agenttape_core.tools.rewrite.values import Replacing, Values, byte_forms

PROJECT_RULES = """[tool.agenttape]
redaction_rules = [
    {name = "ticket", pattern = 'TICKET-(\\w+)'},
    {name = "customer", keys = ["customer_id"]},
    {name = "project", literal = "Bluebird"},
    {name = "internal", env = "INTERNAL"},
]
"""


@boundary("tool")
def tell(text: str, customer_id: str) -> str:
    """Repeat a text."""
    return text


@pytest.fixture
def ruled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with rules, and the variable that one of them names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERNAL", "hush-hush")
    (tmp_path / "pyproject.toml").write_text(PROJECT_RULES)
    return tmp_path


def spelled(folder: Path, rules: str) -> Settings:
    """Load settings with these rules."""
    (folder / "pyproject.toml").write_text(f"[tool.agenttape]\nredaction_rules = {rules}\n")
    return load_settings(folder, {"SHORT": "abc", "INTERNAL": "hush-hush"})


def test_sessions_honour_them(ruled: Path) -> None:
    """A session has the rules of its project; its own come on top, and one of the same name takes the place of it."""
    text = "TICKET-no77 of Bluebird, hush-hush"
    own = [Rule("more", literal="rain"), Rule("project", literal="Bluebird,")]
    with use_cassette("told.yaml", mode="all", redact=own):
        tell(f"{text} rain", "cu-1")
    written = (ruled / "told.yaml").read_text()
    assert not re.search(r"no77|Bluebird|hush|rain|cu-1", written)
    assert open_cassette("told.yaml").header.redaction.rules == ["ticket", "customer", "internal", "more", "project"]
    with use_cassette("told.yaml", redact=own):
        assert tell(f"{text} rain", "cu-1") == f"{text} rain"


def test_not_where_redaction_is_off(ruled: Path) -> None:
    """A session that redacts nothing has no rules either."""
    with use_cassette("told.yaml", mode="all", redact=False):
        tell("Bluebird", "cu-1")
    assert "Bluebird" in (ruled / "told.yaml").read_text()
    assert open_cassette("told.yaml").header.redaction.rules == []


def test_kinds_that_a_project_keeps(ruled: Path) -> None:
    """A kind that the project keeps is stored unchanged and no leak; a call's rule of the same name wins."""
    mail = "ann@acme-mail.com"
    (ruled / "pyproject.toml").write_text("[tool.agenttape]\nredaction_rules = [{name = 'email', keep = true}]\n")
    with use_cassette("kept.yaml", mode="all"):
        tell(f"{mail} and +1 415 555 2671", "c")
    written = (ruled / "kept.yaml").read_text()
    assert (mail in written, "2671" in written) == (True, False)
    header = open_cassette("kept.yaml").header.redaction
    assert (header.rules, header.off) == ([], ["email"])
    redactor = Redactor(header.key or "", rules=load_settings().redaction_rules)
    assert not list(Scan(redactor).leaks(open_cassette("kept.yaml").header, open_cassette("kept.yaml").records()))
    with use_cassette("told.yaml", mode="all", redact=[Rule("email", pattern=r"[\w.]+@acme-mail\.com")]):
        tell(mail, "c")
    assert mail not in (ruled / "told.yaml").read_text()


def test_without_the_variable(ruled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not have the value of a rule replays all the same: the rule is there, and finds nothing."""
    with use_cassette("told.yaml", mode="all"):
        tell("hush-hush", "cu-1")
    monkeypatch.delenv("INTERNAL")
    with use_cassette("told.yaml", on_unused="ignore"):
        pass
    assert [rule.name for rule in load_settings().redaction_rules] == ["ticket", "customer", "project", "internal"]


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("1", "expected a list of tables"),
        ("['x']", r"\[0\]: expected a table with a name"),
        ("[{pattern = 'x'}]", r"\[0\]: expected a table with a name"),
        ("[{name = 'a', pattern = 'x'}, {name = 'b'}]", r"\[1\]: .*'b' is not valid: it says nothing"),
        ("[{name = 'a', patern = 'x'}]", "unknown key 'patern'; known keys: name, pattern, keys, literal, env"),
        ("[{name = 'a', pattern = '('}]", "is not a regular expression"),
        ("[{name = 'a', pattern = 'x*'}]", "matches the empty string"),
        ("[{name = 'a', keys = 'x'}]", "keys: expected a list of names"),
        ("[{name = 'A B', literal = 'xyz'}]", "its name must be 1 to 32 characters"),
        ("[{name = 'a', literal = ''}]", "its literal is empty"),
        ("[{name = 'a', literal = 'x'}, {name = 'a', literal = 'y'}]", "two rules have the name 'a'"),
        ("[{name = 'a', env = 'SHORT'}]", "the value of SHORT has less than 4 characters"),
        ("[{name = 'a', env = 'INTERNAL', literal = 'x'}]", "no literal beside it"),
        ("[{name = 'a', env = 1}]", "expected the name of a variable"),
        ("[{name = 'emial', keep = true}]", "no kind of secret has this name; did you mean 'email'"),
        ("[{name = 'email', keep = true, literal = 'x'}]", "give `keep` alone"),
    ],
)
def test_refused(tmp_path: Path, rules: str, problem: str) -> None:
    """The error names the file, the rule by its number, and what is wrong."""
    with pytest.raises(ConfigurationError, match=rf"pyproject.toml: \[tool.agenttape\] redaction_rules.*{problem}"):
        spelled(tmp_path, rules)


def test_from_a_variable(tmp_path: Path) -> None:
    """In the environment the rules are JSON; what is none is refused."""
    with pytest.raises(ConfigurationError, match=r"AGENTTAPE_REDACTION_RULES: expected a list of rules as JSON"):
        load_settings(tmp_path, {"AGENTTAPE_REDACTION_RULES": "ticket"})


def test_no_literal_is_told(tmp_path: Path) -> None:
    """Neither the settings nor an error show what is secret."""
    settings = spelled(tmp_path, "[{name = 'a', env = 'INTERNAL'}]")
    assert "hush" not in repr(settings) + repr(settings.redaction_rules)
    assert settings.redaction_rules[0].literal == "hush-hush"
    with pytest.raises(ConfigurationError) as caught:
        spelled(tmp_path, "[{name = 'A', env = 'INTERNAL'}]")
    assert "hush" not in str(caught.value)
    assert os.environ.get("INTERNAL") is None


SECRET = "Bluebird-" + "Seven9"
"""Nothing but a rule gives it away."""
QUESTION = f"What is {SECRET} about?"
LATER_RULES = """\
[tool.agenttape]
redaction_rules = [{name = "project", env = "PROJECT"}, {name = "customer", keys = ["customer_id"]}]
"""


def test_replays_after_the_rule(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is in no byte any more, and a program that holds it gets it back."""
    reached: list[str] = []

    @boundary("tool")
    def tell(question: str, *, customer_id: str) -> dict[str, Any]:
        reached.append("tell")
        return {"asked": json.dumps({"q": question}), "customerId": customer_id, "data": question.encode() * 1000}

    @boundary("chat")
    def speak(question: str) -> Iterator[str]:
        reached.append("speak")
        for at in range(0, len(question), 4):
            yield question[at : at + 4]

    @boundary("tool")
    def refuse(question: str) -> None:
        reached.append("refuse")
        raise LookupError(question)

    def program() -> list[Any]:
        """Ask functions: an error, data that is large enough for a file of its own, and a stream."""
        with pytest.raises(LookupError) as refused:
            refuse(QUESTION)
        return [str(refused.value), tell(QUESTION, customer_id="c-4711"), "".join(speak(QUESTION))]

    with use_cassette("run.yaml", mode="all"):
        recorded = program()
    assert SECRET in Path("run.yaml").read_text()
    reached.clear()

    monkeypatch.setenv("PROJECT", SECRET)
    (project / "pyproject.toml").write_text(LATER_RULES)
    assert run(["check", "--only", "secrets", "."]) == 1
    assert run(["cassette", "redact", "."]) == 0
    assert run(["check", "--only", "secrets", "."]) == 0

    for path in project.rglob("*"):
        for piece in (SECRET[:8], SECRET[9:]):
            assert path.is_dir() or piece.encode() not in path.read_bytes(), path
    with use_cassette("run.yaml"):
        assert program() == recorded
    assert reached == []


SECRETS = ("Kx9tundra77", "1234567890", "gh" + "p_" + "a1B2c3D4e5" * 3 + "a1B2c3", "Zebra-4471", "ann@acme-mail.com")

secret_words = st.sampled_from(
    [*SECRETS, "password:", "the", "token is", "user/pass: admin/Zebra-4471", "Köln", "key_"]
)
secret_texts = st.lists(secret_words, max_size=5).map(" ".join)
names = st.sampled_from(["password", "session_token", "note", "content", "sensitive", "value", SECRETS[0]])
secret_data: st.SearchStrategy[Any] = st.recursive(
    secret_texts
    | st.integers(0, 10)
    | st.just(1234567890)
    | st.booleans()
    | secret_texts.map(lambda text: json.dumps({"in": text})),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(st.tuples(secret_data, secret_data), min_size=1, max_size=3), st.lists(secret_texts, max_size=1))
def test_all_three_agree(calls: list[tuple[Any, Any]], tags: list[str]) -> None:
    """A redacted recording has no secret; in any other one, all that is found is replaced, and nothing is left."""

    @boundary("tool")
    def look(given: Any, answer: Any) -> Any:
        """Return an answer."""
        return answer

    def leaks(path: Path) -> list[Leak]:
        """Return what `check --only secrets` finds."""
        cassette = open_cassette(path)
        return list(Scan(Redactor(new_key())).leaks(cassette.header, cassette.records()))

    def recorded(path: Path, calls: list[tuple[Any, Any]], tags: list[str], *, redacts: bool) -> Path:
        """Record calls."""
        with use_cassette(path, mode="all", redact=redacts, tags=tags):
            for given_, answer in calls:
                look(given_, answer)
        return path

    with tempfile.TemporaryDirectory() as folder:
        clean = recorded(Path(folder, "clean.yaml"), calls, tags, redacts=True)
        assert leaks(clean) == []
        assert redact(clean, load_settings()) == ((), (), False)
        raw = recorded(Path(folder, "raw.yaml"), calls, tags, redacts=False)
        found = leaks(raw)
        done = redact(raw, load_settings())
        assert bool(found) == bool(done.replaced)
        assert done.left == ()
        assert leaks(raw) == []


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


def recorded_call(redactor: Redactor, request: Any, value: Any) -> Interaction:
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
    before = recorded_call(Redactor(KEY), request, value)
    redactor = Redactor(KEY, rules=RULES)
    after = Replacing(redactor, NO_PATHS, Values((), redactor)).record(before)
    is_merged = any(may_hold(secret) for secret in redactor.secrets)
    assert is_merged or after == recorded_call(Redactor(KEY, rules=RULES), request, value)


@given(requests, plain)
def test_twice_is_once(request: Any, value: Any) -> None:
    """What is redacted has nothing more to redact."""
    redactor = Redactor(KEY, rules=RULES)
    item = recorded_call(redactor, request, value)
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
