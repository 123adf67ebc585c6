"""The rules that a project's settings spell hold in every session, and are refused loudly when they are wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agenttape_core import Rule, boundary, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.redaction import Redactor
from agenttape_core.settings import Settings, load_settings
from agenttape_core.tools.rewrite import Scan

RULES = """[tool.agenttape]
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
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with rules, and the variable that one of them names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERNAL", "hush-hush")
    (tmp_path / "pyproject.toml").write_text(RULES)
    return tmp_path


def spelled(folder: Path, rules: str) -> Settings:
    """Load settings with these rules."""
    (folder / "pyproject.toml").write_text(f"[tool.agenttape]\nredaction_rules = {rules}\n")
    return load_settings(folder, {"SHORT": "abc", "INTERNAL": "hush-hush"})


def test_sessions_honour_them(project: Path) -> None:
    """A session has the rules of its project; its own come on top, and one of the same name takes the place of it."""
    text = "TICKET-no77 of Bluebird, hush-hush"
    own = [Rule("more", literal="rain"), Rule("project", literal="Bluebird,")]
    with use_cassette("told.yaml", mode="all", redact=own):
        tell(f"{text} rain", "cu-1")
    written = (project / "told.yaml").read_text()
    assert not re.search(r"no77|Bluebird|hush|rain|cu-1", written)
    assert open_cassette("told.yaml").header.redaction.rules == ["ticket", "customer", "internal", "more", "project"]
    with use_cassette("told.yaml", redact=own):
        assert tell(f"{text} rain", "cu-1") == f"{text} rain"


def test_not_where_redaction_is_off(project: Path) -> None:
    """A session that redacts nothing has no rules either."""
    with use_cassette("told.yaml", mode="all", redact=False):
        tell("Bluebird", "cu-1")
    assert "Bluebird" in (project / "told.yaml").read_text()
    assert open_cassette("told.yaml").header.redaction.rules == []


def test_kinds_that_a_project_keeps(project: Path) -> None:
    """A kind that the project keeps is stored unchanged and no leak; a call's rule of the same name wins."""
    mail = "ann@acme-mail.com"
    (project / "pyproject.toml").write_text("[tool.agenttape]\nredaction_rules = [{name = 'email', keep = true}]\n")
    with use_cassette("kept.yaml", mode="all"):
        tell(f"{mail} and +1 415 555 2671", "c")
    written = (project / "kept.yaml").read_text()
    assert (mail in written, "2671" in written) == (True, False)
    header = open_cassette("kept.yaml").header.redaction
    assert (header.rules, header.off) == ([], ["email"])
    redactor = Redactor(header.key or "", rules=load_settings().redaction_rules)
    assert not list(Scan(redactor).leaks(open_cassette("kept.yaml").header, open_cassette("kept.yaml").records()))
    with use_cassette("told.yaml", mode="all", redact=[Rule("email", pattern=r"[\w.]+@acme-mail\.com")]):
        tell(mail, "c")
    assert mail not in (project / "told.yaml").read_text()


def test_without_the_variable(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
